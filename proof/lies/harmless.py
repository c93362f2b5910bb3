"""Harmless lies: what a record may say in more than one way with every promise kept, each kind by name.

A lie that replay does not find must be of one of these kinds, and each kind says exactly which records it covers.
"""

from collections.abc import Callable, Iterator
from typing import Final

from proof.lies.mutate import Lie, Log, Record
from proof.lies.topics import (
    ABOUT_TOPICS,
    gets_nothing,
    is_idle,
    is_out_of_reach,
    names_alike,
    reaches_nobody,
    says_it_again,
)
from triack.base.units import MS
from triack.tools.replay.causes.table import ARRIVED_CLASS, RECEIVED_CLASS
from triack.tools.replay.checks.journal_check import SENT_JOURNAL
from triack.tools.replay.judges.admin_judge import NEGATIVE_RECEIVE, POSITIVE_RECEIVE
from triack.tools.replay.judges.stream_judge import DEAD_LETTER_STREAM
from triack.tools.replay.log.schema import EXPRESS, FOR_EVER

ACKS_IN = ("ack_received", "store_ack_received", "order_ack_received")
ACKS_OUT = ("ack_sent", "store_ack_sent", "order_ack_sent")
SETTINGS = ("ack_threshold", "congestion", "idle_ack_delay_ns", "max_unacked_packet", "unacked", "window")
CHANGES = ("raise", "lower", "other")
ENDS = ("drop", "lost", "shift")
CAUSES = (
    ("queued", "packet_sent"), ("packet_received", "committed"), ("committed", "order_ack_sent"),
    ("committed", "handed"),
)  # fmt: skip
"""Records and what may follow from them at the same node."""
_OF_STREAM = ("origin", "stream", "sequence")


def _all(log: Log, *events: str) -> Iterator[Record]:
    return (it for some in log.values() for it in some if it["event"] in events)


def _is_last(lie: Lie, log: Log) -> bool:
    return lie.at >= len(log[lie.start]) - 2


def _in_place(lie: Lie, log: Log) -> bool:
    mine = log[lie.start]
    before = mine[lie.at - 1]["at_ns"] if lie.at else 0
    after = mine[lie.at + 1]["at_ns"] if lie.at + 1 < len(mine) else lie.said["at_ns"]
    return bool(before <= lie.said["at_ns"] <= after)


def _opens(lie: Lie, log: Log) -> bool:
    session = lie.truth.get("session")
    return any(it["event"] == "session_opened" and it["session"] == session for it in log[lie.start])


def _refuses(lie: Lie, log: Log) -> bool:
    """Whether a store ack only says more than before of packets that were permanently rejected."""
    refused = _refused(lie, log)
    said, truth = _covered(lie.said), _covered(lie.truth)
    return lie.kind == "raise" and said > truth and {_arrived(lie, log, packet) for packet in said - truth} <= refused


def _covered(ack: Record) -> set[int]:
    spans = [(1, ack["cumulative"]), *ack["ranges"]]
    return {packet for first, last in spans for packet in range(first, last + 1)}


def _arrived(lie: Lie, log: Log, packet: int) -> tuple[object, ...] | str:
    """Which packet of which stream a packet of the session was, or that it was of class express."""
    for it in log[lie.start]:
        mine = it["event"] == "packet_received" and it["session"] == lie.said["session"]
        if mine and 0 <= packet - it["packet"] < it["packets"]:
            return EXPRESS if it["class"] == EXPRESS else _place({**it, "number": it["number"] + packet - it["packet"]})
    return ()


def _packets(record: Record) -> range:
    return range(record["packet"], record["packet"] + record["packets"])


def _came(lie: Lie, log: Log, packets: range) -> bool:
    """Whether any of these packets of the session arrived anywhere, or an ack of them."""
    known: set[int] = set()
    for it in (it for some in log.values() for it in some if it.get("session") == lie.truth["session"]):
        is_own = it["node"] == lie.start[0]
        if it["event"] == "packet_received" and not is_own:
            known.update(_packets(it))
        elif it["event"].endswith("ack_received") and is_own:
            known.update(packet for first, last in it["ranges"] for packet in range(first, last + 1))
    return not known.isdisjoint(packets)


def _is_on_its_way(lie: Lie, log: Log) -> bool:
    """Whether a record misstates only packets that reached no node, or adds such packets outside of streams."""
    if lie.field == "packets":
        more = range(_packets(lie.truth).stop, _packets(lie.said).stop)
        return lie.kind == "raise" and lie.truth.get("stream") is None and not _came(lie, log, more)
    is_content = lie.field in ("number", "previous", "sequence", "counts")
    return is_content and not _came(lie, log, _packets(lie.truth))


def _is_given_up(lie: Lie, log: Log) -> bool:
    """Whether the origin had given up what a commit claims in excess."""
    removed = (it for it in _all(log, "removed") if _stream(it) == _stream(lie.truth))
    return any(it["first"] <= lie.said[lie.field] <= it["last"] for it in removed)


def _order_refused(lie: Lie, log: Log) -> bool:
    """Whether an order ack only says more of packets that were permanently rejected."""
    news = {(*_stream(lie.truth), number) for number in range(lie.truth["number"] + 1, lie.said["number"] + 1)}
    return lie.kind == "raise" and news <= _refused(lie, log)


def _refused(lie: Lie, log: Log) -> set[tuple[object, ...]]:
    return {_place(it) for it in log[lie.start] if it["event"] == "rejected" and it["reason"] in FOR_EVER}


def _is_empty(lie: Lie, log: Log) -> bool:
    """Whether nothing happened in the session of a record, at that end, but that it opened and closed."""
    mine = (it["event"] for it in log[lie.start] if it.get("session") == lie.truth["session"])
    return not any("packet" in event for event in mine)


def _is_alone(lie: Lie, log: Log) -> bool:
    opened = (it for it in _all(log, "session_opened") if it["session"] == lie.truth["session"])
    return {it["node"] for it in opened} == {lie.start[0]}


def _is_carried(lie: Lie, log: Log) -> bool:
    """Whether the path of the session that the lie names has carried datagrams of that size as well."""
    came = (it for it in _all(log, "probe_received") if it["session"] == lie.said["session"])
    return any(it["size"] >= lie.said["size"] for it in came if it["node"] != lie.start[0])


def _is_proved_still(lie: Lie, log: Log) -> bool:
    """Whether the sizes that the other end used are proved by the remaining probe records."""
    session, mine = lie.truth["session"], log[lie.start]
    came = [it["size"] for it in mine if it["event"] == "probe_received" and it["session"] == session]
    came.remove(lie.truth["size"])
    used = (it for it in _all(log, "path_size") if it["session"] == session)
    return all(it["node"] == lie.start[0] or it["size"] <= max(came, default=0) for it in used)


def _is_on_disk(lie: Lie, log: Log) -> bool:
    """Whether what a store ack claims in excess was on the disk by then, or never will be, as express packets."""
    news = {_arrived(lie, log, packet) for packet in _covered(lie.said) - _covered(lie.truth)}
    before = [it for it in log[lie.start][: lie.at] if "stream" in it]
    there = {_place(it) for it in before if it["event"] == "rejected" and it["reason"] == "duplicate"}
    there |= {
        (it["origin"], it["stream"], it["sequence"], number)
        for it in before
        if it["event"] == "committed"
        for number in range(it["first"], it["last"] + 1)
    }
    return news <= there | {EXPRESS}


def _stream(record: Record) -> tuple[object, ...]:
    return record["origin"], record["stream"], record["sequence"]


def _place(record: Record) -> tuple[object, ...]:
    return *_stream(record), record["number"]


def _is_reused(lie: Lie, log: Log) -> bool:
    """Whether a node committed something of a sequence, and received packets of a later one of the same stream."""
    node, truth = lie.start[0], lie.truth
    in_lane = [it for some in log.values() for it in some if _in_stream(it) == _in_stream(truth)]
    is_taken = any(
        it["event"] == "committed" and it["node"] == node and _stream(it) == _stream(truth) for it in in_lane
    )
    later = {
        it["sequence"]
        for it in in_lane
        if it["event"] == "packet_received" and it["node"] == node and it["sequence"] > truth["sequence"]
        if truth["class"] != EXPRESS or it["incarnation"] == lie.start[1]
    }
    if truth["class"] == EXPRESS:
        lives = {it["sequence"]: it["incarnation"] for it in in_lane if it["event"] == "queued"}
        later = {sequence for sequence in later if lives[sequence] == lives[truth["sequence"]]}
    return is_taken and bool(later)


def _is_over(lie: Lie, log: Log) -> bool:
    """Whether a destination has forgotten a stream, or its origin has put another one into its stream in that start."""
    mine, stream = log[lie.start], _stream(lie.truth)
    is_used = any(it["event"] in ("queued", "committed") and _stream(it) == stream for it in mine)
    later = (it for it in mine[lie.at :] if it["event"] == "queued" and _in_stream(it) == _in_stream(lie.truth))
    return any(_stream(it) == stream for it in _all(log, "stream_forgotten")) or (is_used and any(later))


def _in_stream(record: Record) -> tuple[object, ...]:
    return record.get("origin"), record.get("stream")


def _times_out(lie: Lie, log: Log) -> bool:
    """Whether the session of a record, true or changed, ended by its ack timeout."""
    sessions = {it.get("session") for it in (lie.truth, lie.said)} - {None}
    closed = [it for it in log[lie.start] if it["event"] == "session_closed" and it["session"] in sessions]
    return any(it["reason"] == "ack-timeout" and not it["unacked"] for it in closed)


def _is_copied(lie: Lie, log: Log) -> bool:
    """Whether a record tells of a copy of a packet that asks for one, or that there was no room for it."""
    told = (it for it in _all(log, "journaled") if it["queue"] == SENT_JOURNAL and _stream(it) == _stream(lie.truth))
    return any(lie.truth["number"] in _numbers(it) for it in told)


def _is_told(lie: Lie, log: Log) -> bool:
    """Whether a record tells of the packet that asks for that, or of the one that is said to."""
    told = set(map(_place, _all(log, "admin_ack_queued")))
    return any("number" in it and _place(it) in told for it in (lie.truth, lie.said))


def _is_unheard(lie: Lie, log: Log) -> bool:
    """Whether no other record shows that an answer is due, or that the commit with it has returned."""
    truth = lie.truth
    mine = [it for it in log[lie.start] if "stream" in it and _stream(it) == _stream(truth)]
    if truth["message_class"] == ARRIVED_CLASS:
        # The answer about a large message is in the commit after that of its last part.
        came = (it for it in mine if it["event"] == "packet_received")
        return bool(truth["number"] > 1) and not any(_messages_in(it, truth["number"] - 1) for it in came)
    if truth["message_class"] != RECEIVED_CLASS:
        return False
    asked = [it["acks"] for it in _all(log, "admin_ack_asked") if _place(it) == _place(truth)]
    both = POSITIVE_RECEIVE | NEGATIVE_RECEIVE
    lasts = any(it["event"] == "settled" and it["at_ns"] > truth["at_ns"] for it in mine)
    return bool(truth["class"] == EXPRESS) or not any(acks & both == both for acks in asked) or not lasts


def _messages_in(record: Record, number: int) -> int:
    """How many messages a record of packets gives to one of them; 0 if it is not about that."""
    first = record["number"]
    for packets, messages in record["counts"]:
        if first <= number < first + packets:
            return int(messages)
        first += packets
    return 0


def _is_unused(lie: Lie, log: Log) -> bool:
    """Whether all that was queued before in the stream that a record names has ended."""
    before = [it for it in log[lie.start][: lie.at] if _in_stream(it) == _in_stream(lie.said)]
    ended = {it["sequence"] for it in before if it["event"] == "stream_ended"}
    return all(it["sequence"] in ended for it in before if it["event"] == "queued")


def _same_thing(lie: Lie, log: Log) -> bool:
    """Whether the record is a cause of the next one."""
    one, other = lie.truth, log[lie.start][lie.at + 1]
    is_pair = (one["event"], other["event"]) in CAUSES and all(one.get(name) == other.get(name) for name in _OF_STREAM)
    return is_pair and bool(_numbers(one) & _numbers(other))


def _is_let_go(lie: Lie, log: Log) -> bool:
    """Whether the bridge released messages of these packets later, and said so before it had them again."""
    later = (it for it in log[lie.start][lie.at + 1 :] if it["event"] in ("bridge_drew", "bridge_let_go"))
    about = (it for it in later if _stream(it) == _stream(lie.truth) and _numbers(it) & _numbers(lie.truth))
    return next((it["event"] for it in about), "") == "bridge_let_go"


def _numbers(record: Record) -> set[int]:
    number = record.get("number")
    if number is None:
        return set(range(record["first"], record["last"] + 1))
    packets = sum(packets for packets, _ in record.get("counts", [[1, 0]]))
    return set(range(number, number + packets))


LABELS: Final = (
    "name", "address", "reason", "trigger", "queue", "peer_name", "subscriber", "class", "where", "ordinal", "sealed",
)  # fmt: skip
"""Fields that tell people what is what."""

HARMLESS: Final[dict[str, Callable[[Lie, Log], bool]]] = {
    "clocks": lambda lie, _: lie.field in ("at_ns", "wall_ns"),
    "statistic": lambda lie, _: lie.event == "dropped" or lie.field == "size",
    "label": lambda lie, _: lie.field in LABELS,
    "end": lambda lie, log: lie.kind in (*ENDS, "swap") and (_is_last(lie, log) or lie.event == "node_stopped"),
    "begin": lambda lie, _: (
        lie.kind in ("shift", "swap") and lie.event in ("node_started", "position_recovered", "queued")
    ),
    "start-before": lambda lie, _: lie.event == "start_before",
    "short": lambda lie, _: lie.kind == "slow",
    "stood-still": lambda lie, _: lie.event == "woke_late",
    "settled": lambda lie, _: lie.event in ("settled", "returned") and (lie.event, lie.kind) != ("settled", "repeat"),
    "never-opened": lambda lie, log: lie.event == "session_closed" and not _opens(lie, log),
    "says-less": lambda lie, _: lie.event in (*ACKS_IN, *ACKS_OUT) and lie.kind in ("drop", "lower"),
    "says-again": lambda lie, _: lie.event in (*ACKS_IN, *ACKS_OUT) and lie.kind == "repeat",
    "on-disk": lambda lie, log: (lie.event, lie.kind) == ("store_ack_sent", "raise") and _is_on_disk(lie, log),
    "given": lambda lie, _: lie.event in ACKS_IN and lie.kind in ("raise", "other"),
    "nothing-new": lambda lie, _: lie.event in (*ACKS_IN, *ACKS_OUT) and lie.field in ("session", "origin", "stream"),
    "in-place": lambda lie, log: lie.kind == "shift" and _in_place(lie, log),
    "unrelated": lambda lie, log: lie.kind == "swap" and not _same_thing(lie, log),
    "not-reached": lambda lie, _: lie.field in SETTINGS or lie.field.endswith("_ns"),
    "copy": lambda lie, _: (
        lie.event in ("packet_sent", "packet_received")
        and (lie.kind in ("drop", "repeat") or lie.field in ("packet", "packets"))
        and bool(lie.truth.get("resend") or lie.truth.get("duplicate") or lie.kind == "drop")
    ),
    "waiting": lambda lie, _: (
        lie.kind in ("drop", "lower", "raise") and lie.event in ("handed", "removed", "queued", "expired")
    ),
    "resend": lambda lie, _: lie.event == "resend_scheduled",
    "unrecorded": lambda lie, _: lie.event == "committed" and lie.kind == "drop",
    "uncounted": lambda lie, _: (
        lie.field in ("count", "counts") or (lie.event, lie.field) == ("store_ack_sent", "pending")
    ),
    "careful": lambda lie, _: lie.event == "handed" and (lie.field == "redelivered" or bool(lie.truth["redelivered"])),
    "still-open": lambda lie, log: (
        lie.event == "session_closed" and bool(log[lie.start][-1]["event"] != "node_stopped")
    ),
    "dead-letter": lambda lie, _: lie.truth.get("stream") == DEAD_LETTER_STREAM,
    "on-its-way": lambda lie, log: lie.event == "packet_sent" and _is_on_its_way(lie, log),
    "given-up": lambda lie, log: (
        lie.event == "committed"
        and (lie.field, lie.kind) in (("last", "raise"), ("first", "lower"))
        and _is_given_up(lie, log)
    ),
    "empty": lambda lie, log: lie.event == "session_opened" and lie.kind in ("drop", *CHANGES) and _is_empty(lie, log),
    "alone": lambda lie, log: lie.event == "session_opened" and lie.kind in ("drop", *CHANGES) and _is_alone(lie, log),
    "probed": lambda lie, log: (
        (lie.event in ("path_size", "probe_received") and lie.kind == "repeat")
        or (lie.event, lie.kind) == ("path_size", "drop")
        or (
            lie.event == "probe_received"
            and (lie.kind == "drop" or lie.field == "session")
            and _is_proved_still(lie, log)
        )
        or ((lie.event, lie.field) == ("path_size", "session") and _is_carried(lie, log))
    ),
    "kept-window": lambda lie, _: (
        lie.event == "window_changed" and (lie.kind in ("drop", "raise", "lower") or lie.field == "session")
    ),
    "answered": lambda lie, _: (
        lie.event in ("probe_answered", "piece_received") and (lie.kind in ("drop", "repeat") or lie.field == "session")
    ),
    "refusal": lambda lie, log: (
        lie.event == "rejected"
        or (lie.event == "store_ack_sent" and _refuses(lie, log))
        or (lie.event == "order_ack_sent" and lie.field == "number" and _order_refused(lie, log))
    ),
    "asked": lambda lie, log: lie.event == "ping_sent" and (lie.kind == "repeat" or not _times_out(lie, log)),
    "held": lambda lie, _: (
        lie.event == "hold_received" and (lie.kind in ("drop", "repeat") or lie.field in ("stream", "sequence"))
    ),
    "not-told-yet": lambda lie, log: (lie.event, lie.kind) == ("stream_forgotten", "drop") and not _is_reused(lie, log),
    "not-ended-yet": lambda lie, log: (
        lie.event == "stream_ended"
        and (lie.kind == "drop" or lie.field in ("stream", "sequence"))
        and not _is_over(lie, log)
    ),
    "unknown-before": lambda lie, _: lie.event == "position_recovered",
    "topic-idle": lambda lie, log: (
        lie.event in ABOUT_TOPICS and (is_idle(lie, log) or (lie.event != "topic_opened" and gets_nothing(lie, log)))
    ),
    "out-of-reach": is_out_of_reach,
    "names-alike": names_alike,
    "found-again": says_it_again,
    "kept-longer": lambda lie, _: lie.event == "content_freed" and lie.kind in ("drop", "lower"),
    "late-anyway": lambda lie, _: lie.event == "late_ack",
    "unordered": lambda lie, _: (
        lie.event == "placed"
        and (lie.field in ("number", "class") or (bool(lie.truth.get("recovered")) and lie.field in _OF_STREAM))
    ),
    "instant": lambda lie, _: lie.kind == "shift" and abs(lie.said["at_ns"] - lie.truth["at_ns"]) < MS,
    "never-copied": lambda lie, log: lie.event == "journal_asked" and not _is_copied(lie, log),
    "no-room": lambda lie, _: (lie.event, lie.field) == ("journaled", "kept"),
    "never-told": lambda lie, log: lie.event == "admin_ack_asked" and not _is_told(lie, log),
    "unheard": lambda lie, log: (lie.event, lie.kind) == ("admin_ack_queued", "drop") and _is_unheard(lie, log),
    "way": lambda lie, log: (
        lie.event == "rerouted"
        and (lie.kind in ("drop", "repeat") or (lie.field in ("stream", "sequence") and _is_unused(lie, log)))
    ),
    "operator": lambda lie, _: lie.event in ("queue_paused", "queue_resumed", "queue_quota_set"),
    "broker-again": lambda lie, _: (
        lie.event == "bridge_acked"
        and (lie.kind, lie.field) in (("drop", ""), ("repeat", ""), ("lower", "count"), ("raise", "known"))
    ),
    "known-here": lambda lie, _: (
        lie.event == "bridge_took" and ("known" in lie.truth or lie.field in ("place", "counts"))
    ),
    "bridge-ends": lambda lie, log: (
        lie.event in ("bridge_drew", "bridge_gave", "bridge_let_go")
        and ((lie.event, lie.kind) == ("bridge_drew", "repeat") or not _is_let_go(lie, log))
    ),
    "to-nobody": reaches_nobody,
}
"""Kinds of harmless lies by name; ``docs/checks.md`` says why each of them is. A lie is of the first that holds."""


def reason_for(lie: Lie, log: Log) -> str | None:
    """Return the kind of a lie if it is harmless, or None."""
    return next((name for name, holds in HARMLESS.items() if holds(lie, log)), None)
