"""The search's knowledge of the insides of the shipped machines, beside what ``stillness`` does to each of them.

It reads their state, and lets time pass. The search keeps the clock still: every wait is armed, and ``expire`` makes
one timer end, in whatever order. That is more than any clock can do, so what holds here holds for clocks that drift,
jump or stand. ``settle`` removes from a node what grows without bound and has no influence.
"""

from collections.abc import Iterator

from proof.search import stillness
from triack.base.ack_debt import AckState
from triack.base.units import MS, SECOND
from triack.queues.manager.engine import Engine
from triack.queues.peers.link import Conversation
from triack.session.protocol.timers import Timer

RETRY_NS = 50 * MS
WAITS_NS = {
    Timer.CONNECT_RESEND: 200 * MS,
    Timer.CONNECT_LIMIT: 10 * SECOND,
    Timer.ACK_DELAY: 500 * MS,
    Timer.LOSS: 120 * MS,
    Timer.PROBE: 300 * MS,
    Timer.ACK_LIMIT: 2 * SECOND,
    Timer.STORE_ACK_LIMIT: 10 * SECOND,
    Timer.CLEANUP: 20 * SECOND,
    Timer.PACING: 1 * MS,
    Timer.DRAIN_LIMIT: 5 * SECOND,
    Timer.STORE_ACK_DELAY: 500 * MS,
    Timer.QUIET: 1 * SECOND,
}

RETIRE = "retire"

TimerKey = tuple[str, int, str]
"""What kind of timer, whose (a connection id, a stream, or 0), and its name."""


def conversations(engine: Engine) -> dict[int, Conversation]:
    """The sessions of a node, by its connection ids."""
    return engine.handshakes.conversations


# ---- time


def timers(engine: Engine) -> Iterator[TimerKey]:
    """Every wait that has a timer."""
    for connection, conversation in conversations(engine).items():
        for timer in stillness.timers_of(stillness.session_of(conversation)):
            yield ("session", connection, timer.name)
    for transfer in engine.inbox.order_acks.streams:
        if transfer.sequence.ack.state is AckState.OWED:
            yield ("order ack", transfer.number, "idle")
    for outgoing in engine.outbox.streams:
        if outgoing.sequence.awaits_order_ack:
            yield ("resend", outgoing.stream_number, "tier")
    for number, link in enumerate(engine.outbox.links.values()):
        if link.conversation is None and link.busy and link.retry_at_ns and not engine.draining:
            yield ("connect", number, "retry")
    if engine.jobs.next_deadline() is not None:
        yield ("commit", 0, "lazy")
    if stillness.has_idle_streams(engine.outbox.retirement) and not engine.draining:
        yield ("retire", 0, RETIRE)


def expire(engine: Engine, key: TimerKey, now_ns: int) -> None:
    """Let one timer end, as if every moment that it refers to were long ago."""
    kind, owner, name = key
    if kind == "session":
        stillness.expire_session(stillness.session_of(conversations(engine)[owner]), Timer[name], now_ns)
    elif kind == "order ack":
        for transfer in engine.inbox.order_acks.streams:
            if transfer.number == owner:
                stillness.expire_debt(transfer.sequence.ack)
    elif kind == "resend":
        for outgoing in engine.outbox.streams:
            if outgoing.stream_number == owner:
                outgoing.sequence.tier.deadline_ns = now_ns
    elif kind == "commit":
        engine.jobs.lazy_until_ns = now_ns
    elif kind == "retire":
        stillness.expire_streams(engine.outbox.retirement, now_ns)
    else:
        link = list(engine.outbox.links.values())[owner]
        link.retry_at_ns = now_ns
        link.wake()
    stillness.set_deadlines(engine)
    engine.jobs.turn(now_ns)
    engine.handle_timer(now_ns)
    _rejuvenate(engine, now_ns)


def _rejuvenate(engine: Engine, now_ns: int) -> None:
    for conversation in conversations(engine).values():
        stillness.refresh_session(stillness.session_of(conversation), now_ns)
    for transfer in engine.inbox.order_acks.streams:
        stillness.refresh_debt(transfer.sequence.ack, now_ns)


# ---- what grows without bound and has no influence


def settle(engine: Engine, counters: dict[int, int], now_ns: int) -> None:
    """Bring a node at rest into the canonical form for comparisons with others."""
    for connection, conversation in conversations(engine).items():
        # The path never moves here, as every node has one address.
        conversation.highest_counter = 0
        # All channels are equal here.
        conversation.pending = conversation.pending[-1:]
        stillness.normalize_session(stillness.session_of(conversation), WAITS_NS, counters[connection], now_ns)
    for link in engine.outbox.links.values():
        # The wait before the next connect: that may come at any moment.
        stillness.forget_waits(link, now_ns + RETRY_NS)
    for outgoing in engine.outbox.streams:
        stillness.normalize_sequence(outgoing.sequence, now_ns)
    stillness.forget_figures(engine)
    for counter in (engine.drops, engine.closes):
        counter.clear()
    stillness.set_deadlines(engine)


def forget_echoes(engine: Engine) -> None:
    """Drop the order in which packets were sent: without echoes it has no influence."""
    for conversation in conversations(engine).values():
        stillness.forget_order(stillness.session_of(conversation))
