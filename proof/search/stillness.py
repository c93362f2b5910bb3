"""Time for machines whose clock stands still, one machine after the other: a timer ends, or is far from that.

``expire`` sets every moment that a timer refers to long ago; ``refresh`` sets it to now. ``normalize`` brings fields
that only determine a wait to one value, as any wait may end at any moment. ``set_deadlines`` arms everything again; the
order does not matter. The product has nothing of this: a clock that moves needs none of it.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from triack.base.ack_debt import AckDebt, Cause
from triack.ordering.hold import PROBE_NS
from triack.ordering.outgoing import OutgoingSequence
from triack.queues.histogram import Histogram
from triack.queues.manager.engine import Engine
from triack.queues.peers.dialer import Dialer
from triack.queues.peers.link import Conversation, Link
from triack.queues.streams.retirement import Retirement
from triack.session.acknowledgements.probing import Probing
from triack.session.protocol.frames import Ask
from triack.session.protocol.packets import SessionPacket
from triack.session.protocol.timers import Timer
from triack.session.session import Session

LONG_AGO_NS = -(1 << 62)


# ---- a session


def session_of(conversation: Conversation) -> Session:
    """The session of a conversation with its machines, which the queue manager does not see."""
    assert isinstance(conversation.session, Session)
    return conversation.session


def timers_of(session: Session) -> list[Timer]:
    """The timers of a session that run, lowest first."""
    return sorted(session.timers)


def expire_session(session: Session, timer: Timer, now_ns: int) -> None:
    """Let the next ``handle_timer`` find that a timer has ended: every moment that it refers to was long ago."""
    session.timers[timer] = now_ns
    match timer:
        case Timer.LOSS:
            for packet in session.window.flying.values():
                packet.sent_at_ns = 0
        case Timer.CLEANUP:
            session.idle.since_ns = -session.idle.interval_ns
        case Timer.QUIET:
            session._probing.heard_at_ns = LONG_AGO_NS
        case Timer.ACK_DELAY:
            expire_debt(session.ack_sender.session_ack.debt)
        case Timer.STORE_ACK_DELAY:
            expire_debt(session.ack_sender.store_ack.debt)


def refresh_session(session: Session, now_ns: int) -> None:
    """Set every moment that a timer refers to now."""
    for packet in session.window._packets.values():
        packet.sent_at_ns = now_ns
    session.idle.since_ns = now_ns
    session._probing.heard_at_ns = now_ns


def normalize_session(session: Session, waits_ns: Mapping[Timer, int], counter: int, now_ns: int) -> None:
    """Bring a session at rest into the canonical form for comparisons with others."""
    running = {timer: now_ns + waits_ns[timer] for timer in timers_of(session)}
    session.timers.clear()
    session.timers.update(running)
    session.rtt.reset()
    session._loss_timers.handle_measured()
    session._counter = counter
    # The number of repetitions only sets the wait.
    session._opening.times_said, session._opening.said_at_ns = min(session._opening.times_said, 1), 0
    normalize_probing(session._probing)
    # Only the session log needs the cause of the last ack; the amount on the disk has no influence.
    session_ack, store_ack = session.ack_sender.session_ack, session.ack_sender.store_ack
    session_ack.debt.cause = store_ack.debt.cause = Cause.ARRIVED
    store_ack._highest = max(store_ack._sizes, default=0)
    waiter = session._loss_timers.store_ack_waiter
    waiter._delay.reset()
    for packet in (*session.window._packets.values(), *waiter.packets.values()):
        _forget_sends(packet)


def normalize_probing(probing: Probing) -> None:
    """These fields only set waits."""
    probing._quiets = 0
    probing._rounds = 0
    probing._usual = 1.0
    probing._persists = False
    probing.begin_anew()
    probing.last_asked = Ask.AT_ONCE


def _forget_sends(packet: SessionPacket) -> None:
    """Only whether it was sent once or more often matters."""
    packet.sends = min(packet.sends, 2)


def forget_order(session: Session) -> None:
    """Forget in which order packets were sent: without echoes it has no influence."""
    session._counter = 0
    window = session.window
    window._sendings.clear()
    window._next_order = 1
    for packet in (*window._packets.values(), *session._loss_timers.store_ack_waiter.packets.values()):
        packet.order = 0
        _forget_sends(packet)


# ---- acks that are owed, and waits


def expire_debt(debt: AckDebt) -> None:
    """Set all arrivals to long ago: the next ``handle_timer`` finds that waiting has ended."""
    debt._first_at_ns = debt._last_at_ns = -debt.terms.delay_ns
    debt._asked_by_ns = None


def refresh_debt(debt: AckDebt, now_ns: int) -> None:
    """Set all arrivals to now."""
    debt._first_at_ns = debt._last_at_ns = now_ns


def normalize_sequence(sequence: OutgoingSequence, now_ns: int) -> None:
    """Reset the tier to its first wait; of sendings only whether there was one matters."""
    sequence.tier.handle_progress(now_ns, outstanding=sequence.tier.deadline_ns is not None)
    # The amount accepted at full speed only decides how fast it continues.
    start = sequence.start
    start._taken, start._last = min(start._taken, 1), min(start._last, 1)
    # The number of questions of a hold only sets the wait.
    sequence.hold._wait_ns = PROBE_NS
    for entry in sequence.entries.values():
        entry.sends = min(entry.sends, 1)


# ---- a node


def expire_streams(retirement: Retirement, now_ns: int) -> None:
    """Let idle streams have been idle for long enough."""
    for peer, idle in retirement._idle.items():
        for outgoing in idle:
            idle[outgoing] = now_ns - (retirement._wait_ns or 0)
        retirement._set_deadline(peer)


def has_idle_streams(retirement: Retirement) -> bool:
    """Whether there are streams that will end after being idle for long enough."""
    return any(retirement._idle.values())


def forget_waits(link: Link, retry_at_ns: int) -> None:
    """How long a link has waited only sets the next wait."""
    patience = link.patience
    patience._attempts = patience._untaken = 0
    patience._opened_at_ns = None
    link.silent = ""
    if not link.is_connecting:
        forget_calls(link.dialer)
    link.retry_at_ns = retry_at_ns if link.retry_at_ns and link.conversation is None else 0


def forget_calls(calling: Dialer) -> None:
    """How long a peer was called only sets the next wait."""
    calling.handle_opened()


def forget_figures(engine: Engine) -> None:
    """Counters and durations are only for people."""
    outbox = engine.outbox
    outbox.latency._streams.clear()
    outbox.latency.durations = Histogram(())
    engine.queues.waits = Histogram(())
    counters: tuple[Counter[Any], ...] = (outbox.resends, engine.inbox.order_acks.sent, engine._transmitter.acks)
    for counter in counters:
        counter.clear()


def forget_history(engine: Engine) -> None:
    """Give all commits one number."""
    engine.handshakes.history._last = 0


def set_deadlines(engine: Engine) -> None:
    """Set every deadline again."""
    transmitter, owed, outbox = engine._transmitter, engine.inbox.order_acks, engine.outbox
    transmitter.deadlines.clear()
    for conversation in transmitter.handshakes.conversations.values():
        transmitter.deadlines.set(conversation, conversation.next_deadline())
    engine.queues.notices.resuming.clear()
    for mailbox in engine.queues.mailboxes.values():
        mailbox.set_resume(0)
    owed.deadlines.clear()
    for stream in owed._owing:
        owed.deadlines.set(stream, stream.sequence.ack.deadline_ns)
    outbox.retirement.deadlines.clear()
    for peer in outbox.retirement._idle:
        outbox.retirement._set_deadline(peer)
    outbox.deadlines.clear()
    for outgoing in outbox._by_number.values():
        outbox._look_at(outgoing)
    for link in outbox.links.values():
        if link.conversation is None and link.busy:
            outbox.deadlines.set(link, link.retry_at_ns)
