"""What stops messages at a node now, for its operator: a row for each ``Trouble``. Also what its bridges have done."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from triack.base.reasons import HoldReason, Trouble
from triack.base.units import SECOND
from triack.queues.mailboxes.system_queues import DEAD_LETTER_QUEUE, SENT_JOURNAL, is_journal
from triack.queues.manager.engine import Engine
from triack.queues.peers.dialer import WaitsFor
from triack.queues.streams.holds import Holds

_MISSING = {WaitsFor.KEY: Trouble.NO_KEY, WaitsFor.ADDRESS: Trouble.NO_ADDRESS}
_UNRESOLVED = "cannot resolve"
"""Begins what the transport says of a host name that it does not find (``transport/resolve.py``)."""
_NO_ANSWER = "no answer"
"""Begins the event of a silent peer if the system has reported no error (``queues/manager/link_news.py``)."""
_JOURNAL_FULL = {
    "drop oldest": "its oldest copies give way to new ones",
    "stop": "nothing more is copied into it",
    "hold": "the senders of its queue wait",
}
"""What happens while a journal is full."""
_TOLD_HERE = (HoldReason.QUEUE_FULL, HoldReason.STORE_LOW, HoldReason.STORE_BUSY)
"""Reasons of this node that have another row, or that end with the next job of the disk."""


def when_journal_full(name: str, when_full: str) -> str:
    """What happens while a journal is full, in words."""
    waits = name == SENT_JOURNAL and when_full == "hold"
    return "messages that ask for a copy wait" if waits else _JOURNAL_FULL[when_full]


@dataclass(frozen=True, slots=True)
class TroubleStats:
    """Something that stops messages now and that an operator can fix.

    Attributes:
        trouble: its name, one of ``triack.base.reasons.Trouble``.
        about: the peer, the host or the queue.
        cause: what is wrong, in a sentence.
        remedy: what the operator can do.
        since_s: seconds since it began; None if unknown.
        times: how many calls of the host got no answer; 1 for all else.
    """

    trouble: str
    about: str
    cause: str
    remedy: str
    since_s: float | None = None
    times: int = 1


def find_troubles(engine: Engine, now_ns: int) -> list[TroubleStats]:
    """All that stops messages now; on a node that closes or is at rest, only troubles of its disk and its queues."""
    if engine.draining:
        return list(_room(engine, now_ns))
    unsealed = {it.peer: it.seal.missing for it in engine.outbox.streams if it.busy and it.seal and it.seal.missing}
    return [
        *(
            row_of(it.trouble, it.host, it.detail, (now_ns - it.since_ns) / SECOND, it.calls)
            for it in engine.callers.rows(now_ns)
        ),
        *_links(engine, now_ns),
        *(row_of(Trouble.CANNOT_SEAL, peer, missing) for peer, missing in unsealed.items()),
        # Subscriptions of other nodes that get nothing, as the rights of their nodes have changed.
        *(row_of(Trouble.MAY_NOT_SUBSCRIBE, it.title, it.pattern) for it in engine.remote.of_peers.denied),
        *(
            row_of(it.trouble, it.name if it.ask.durable else it.destination, it.why, (now_ns - it.since_ns) / SECOND)
            for it in engine.remote.own.subscriptions.values()
            if it.trouble is not None
        ),
        *_rollbacks(engine),
        *_room(engine, now_ns),
        *(row_of(Trouble.HELD_HERE, *it) for it in _told(engine.inbox.admission.holds, _TOLD_HERE)),
        *(row_of(Trouble.HELD_THERE, *it) for it in _told(engine.outbox.holds, (HoldReason.STORE_BUSY,))),
    ]


def row_of(
    trouble: Trouble, about: str, detail: str = "", since_s: float | None = None, times: int = 1
) -> TroubleStats:
    """A row of one trouble."""
    return TroubleStats(trouble.value, about, trouble.say(about, detail), trouble.advise(about), since_s, times)


def _links(engine: Engine, now_ns: int) -> Iterator[TroubleStats]:
    for peer, link in engine.outbox.links.items():
        missing = engine.handshakes.reach.waits_for(link)
        if link.suspended is not None:
            yield row_of(Trouble.SUSPENDED, peer, str(link.suspended))
        elif missing is WaitsFor.KEY and (name := engine.handshakes.reach.renamed(link)):
            yield row_of(Trouble.RENAMED, peer, name)
        elif missing in _MISSING:
            yield row_of(_MISSING[missing], peer)
        elif link.silent and missing is WaitsFor.ANSWER:
            trouble = Trouble.UNRESOLVED if link.silent.startswith(_UNRESOLVED) else Trouble.NO_ANSWER
            detail = "nothing came back" if link.silent.startswith(_NO_ANSWER) else link.silent
            since_ns = link.dialer.since_ns
            yield row_of(trouble, peer, detail, None if since_ns is None else (now_ns - since_ns) / SECOND)


def _rollbacks(engine: Engine) -> Iterator[TroubleStats]:
    """Suspended peers without a link."""
    led_to = {link.peer_id for link in engine.outbox.links.values()}
    for node_id, error in engine.handshakes.suspended.errors.items():
        if node_id not in led_to:
            yield row_of(Trouble.SUSPENDED, engine.name_of(node_id) or node_id.hex(), str(error))


def _room(engine: Engine, now_ns: int) -> Iterator[TroubleStats]:
    for name, pause in sorted(engine.queues.pauses.by_name.items()):
        yield row_of(Trouble.QUEUE_PAUSED, name, since_s=max(0, engine.wall.ms(now_ns) - pause.since_ms) / 1_000)
    admission = engine.inbox.admission
    for name, mailbox in sorted(engine.queues.mailboxes.items()):
        if mailbox.fill.is_full and not is_journal(name):
            yield row_of(Trouble.QUEUE_FULL, name)
    if many := engine.queues.many_letters:
        yield row_of(Trouble.DEAD_LETTERS, DEAD_LETTER_QUEUE, f"{many:,}")
    for name, when_full in engine.journals.full:
        yield row_of(Trouble.JOURNAL_FULL, name, when_journal_full(name, when_full))
    if admission.disk_room.is_low:
        yield row_of(Trouble.STORE_LOW, "disk", f"{max(0, admission.disk_room.room_bytes or 0):,} bytes are left")
    for peer, is_full in (*admission.stream_places.near_limit, *engine.outbox.retirement.near_limit):
        yield row_of(Trouble.STREAMS_FULL, peer, "messages for further queues wait" if is_full else "none waits yet")


def _told(holds: Holds, left_out: tuple[HoldReason, ...]) -> list[tuple[str, str]]:
    """Peer and reason, once each; if a queue is full, with the queue."""
    found = {it.told_as: it for it in holds.streams if it.reason not in left_out}
    return [(f"{it.peer}/{queue}" if queue else it.peer, it.reason.value) for (_, _, queue), it in found.items()]


@dataclass(frozen=True, slots=True)
class BridgeStats:
    """One bridge. Its counts begin with the process.

    Attributes:
        name: of the bridge.
        broker: its broker, as the settings have it.
        is_up: whether it is connected.
        since_s: for how long that has been so.
        taken: messages that came from the broker and are on the disk of this node.
        given: messages that the broker has acknowledged.
        waiting: messages that came and are not on the disk yet, and messages that the broker has not acknowledged.
        repeated: messages taken that the broker marked as sent again; those without a key may be stored twice.
        refused: messages of either side that can never be passed on; they are in the queue ``NAME.refused``.
        refusals: how many of them for each reason (``BridgeReason``).
        dropped: messages of QoS 0 that found no room.
        waits_for: why nothing is taken from the broker or given to it now; None if nothing prevents it.
        last_error: the newest of all failures; None before the first.
    """

    name: str
    broker: str
    is_up: bool
    since_s: float
    taken: int = 0
    given: int = 0
    waiting: int = 0
    repeated: int = 0
    refused: int = 0
    dropped: int = 0
    waits_for: str | None = None
    last_error: str | None = None
    refusals: dict[str, int] = field(default_factory=dict)


def find_bridge_troubles(bridges: Iterable[BridgeStats]) -> Iterator[TroubleStats]:
    """What stops bridges now."""
    for it in bridges:
        if not it.is_up and it.last_error is not None:
            yield row_of(Trouble.BROKER_AWAY, it.name, it.last_error, it.since_s)
        elif it.waits_for is not None:
            yield row_of(Trouble.BRIDGE_WAITS, it.name, it.waits_for)
