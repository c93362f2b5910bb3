"""The state of a queue in a word, and what it waits for, as MSMQ's management console shows it to an operator.

The words for outgoing queues are those of MSMQ's QueueState, if it has one ([MS-MQDMPR] 3.1.1.3).
"""

from enum import StrEnum
from typing import NamedTuple

from triack.base.delivery import Ack
from triack.queues.mailboxes.mailbox import Mailbox
from triack.queues.manager.engine import Engine
from triack.queues.peers.link import Link
from triack.queues.streams.outgoing_stream import OutgoingStream
from triack.queues.streams.transit_stream import TransitStream


class QueueState(StrEnum):
    """The state of a queue."""

    LOCAL = "local"
    """A queue of this node that accepts messages and gives them out."""
    FULL = "full"
    """A queue of this node that has reached its quota: it gives messages out, and accepts none."""
    INACTIVE = "inactive"
    """An outgoing queue without messages and without a session."""
    CONNECTED = "connected"
    """An outgoing queue that has a session with the next node."""
    WAITING = "waiting"
    """An outgoing queue whose messages cannot leave before something happens."""
    HELD = "held"
    """An outgoing queue whose messages find no room at the destination."""
    PAUSED = "paused"
    """An operator has paused it."""
    SUSPENDED = "suspended"
    """An outgoing queue to a peer with which nothing is exchanged, as one of the two stores is an older copy."""


class StateNow(NamedTuple):
    """The state of a queue."""

    state: QueueState
    waits_for: str | None = None


_FREEING = {Ack.SESSION: "session-ack", Ack.STORE: "store-ack", Ack.ORDER: "order-ack"}
"""What sent packets wait for, by the ack that frees them."""


def state_of(mailbox: Mailbox) -> StateNow:
    """The state of a queue of this node."""
    if mailbox.pause is not None:
        return StateNow(QueueState.PAUSED, "resume")
    return StateNow(QueueState.FULL, "readers") if mailbox.fill.is_full else StateNow(QueueState.LOCAL)


def state_of_outgoing(engine: Engine, outgoing: OutgoingStream) -> StateNow:
    """The state of an outgoing queue."""
    link, sequence = engine.outbox.links[outgoing.via], outgoing.sequence
    if outgoing.paused:
        return StateNow(QueueState.PAUSED, "resume")
    if engine.draining:
        return _at_rest(busy=outgoing.busy)
    if outgoing.seal is not None and outgoing.seal.missing and outgoing.busy:
        return StateNow(QueueState.WAITING, "seal")
    reason = engine.outbox.holds.of(outgoing)
    found = _state_of_link(engine, link, None if reason is None else reason.value, busy=outgoing.busy)
    if found is not None:
        return found
    is_sent = sequence.entries and sequence.peek() is None
    waits_for = _FREEING[sequence.freed_by] if is_sent and not outgoing.pending else None
    if waits_for is not None and next(reversed(sequence.entries)) <= sequence.waits_until:
        waits_for = "relay"  # which has all of it on its disk
    return _unless_closed(link, waits_for)


def state_of_transit(engine: Engine, stream: TransitStream) -> StateNow:
    """The state of a stream of another node that passes through this one."""
    if engine.draining:
        return _at_rest(busy=not stream.sequence.is_empty)
    if stream.way is None:
        return StateNow(QueueState.WAITING, "route")
    if engine.transits.pause_of(stream) is not None:
        return StateNow(QueueState.PAUSED, "resume")
    link, sequence = engine.outbox.links[stream.way.via], stream.sequence
    found = _state_of_link(engine, link, stream.held or None, busy=not sequence.is_empty)
    is_sent = not sequence.is_empty and sequence.peek() is None
    return found or _unless_closed(link, _FREEING[sequence.freed_by] if is_sent else None)


def _at_rest(*, busy: bool) -> StateNow:
    """The state of an outgoing queue of a node that closes, or that no process runs."""
    return StateNow(QueueState.WAITING, "start") if busy else StateNow(QueueState.INACTIVE)


def _state_of_link(engine: Engine, link: Link, held: str | None, *, busy: bool) -> StateNow | None:
    """What stops all streams of a link, or this one's hold; None if neither does."""
    if link.suspended is not None:
        return StateNow(QueueState.SUSPENDED, "restart")
    missing = engine.handshakes.reach.waits_for_session(link)
    if missing is not None and not busy:
        return StateNow(QueueState.INACTIVE)
    if missing is not None and (link.is_sending or link.conversation is not None):
        return StateNow(QueueState.WAITING, missing.value)
    return None if held is None else StateNow(QueueState.HELD, f"room: {held}")


def _unless_closed(link: Link, waits_for: str | None) -> StateNow:
    """Connected; or waiting if the session has ended as idle after all packets were sent."""
    is_open = link.conversation is not None and link.conversation.is_live
    return StateNow(QueueState.CONNECTED if is_open else QueueState.WAITING, waits_for)


def again_ns(engine: Engine, stream: OutgoingStream | TransitStream, now: StateNow) -> int | None:
    """When a stream is resent, or its peer called again, if nothing happens before; None: no such time."""
    if engine.draining or now.state in (QueueState.PAUSED, QueueState.SUSPENDED, QueueState.INACTIVE):
        return None
    if now.state is QueueState.HELD:
        return stream.sequence.hold.deadline_ns
    via = stream.via
    if now.waits_for == "answer":
        link = engine.outbox.links[via]
        return link.retry_at_ns if link.conversation is None else link.conversation.next_deadline()
    if now.waits_for == "order-ack" and isinstance(stream, OutgoingStream):
        return stream.sequence.tier.deadline_ns
    return None
