"""Time for machines whose clock stands still, one machine after the other: a timer ends, or is far from that.

``expire`` sets every moment that a timer refers to long ago; ``refresh`` sets it to now. ``normalize`` brings fields
that only determine a wait to one value, as any wait may end at any moment. ``set_deadlines`` arms everything again; the
order does not matter. The product has nothing of this: a clock that moves needs none of it.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from triack.base.ack_debt import AckDebt, Cause
from triack.ordering.hold import PROBE_NS, Hold
from triack.ordering.outgoing import OutgoingSequence
from triack.ordering.slow_start import SlowStart
from triack.ordering.tiers import ResendTimer
from triack.queues.histogram import Histogram
from triack.queues.mailboxes.local_queues import LocalQueues
from triack.queues.manager.engine import Engine
from triack.queues.manager.jobs import Jobs
from triack.queues.manager.transmitter import Transmitter
from triack.queues.peers.dialer import Dialer
from triack.queues.peers.link import Conversation, Link
from triack.queues.streams.outbox import Outbox
from triack.queues.streams.owed_acks import OwedAcks
from triack.queues.streams.retirement import Retirement
from triack.session.acknowledgements.ack_sender import AckSender
from triack.session.acknowledgements.probing import Probing
from triack.session.acknowledgements.store_ack_waiter import StoreAckWaiter
from triack.session.congestion.send_window import SendWindow
from triack.session.idle import Idle
from triack.session.protocol.frames import Ask
from triack.session.protocol.opening import Opening
from triack.session.protocol.packets import SessionPacket
from triack.session.protocol.timers import Timer, Timers
from triack.session.session import Session

LONG_AGO_NS = -(1 << 62)


# ---- a session


def session_of(conversation: Conversation) -> Session:
    """The session of a conversation with its machines, which the queue manager does not see."""
    assert isinstance(conversation.session, Session)
    return conversation.session


def timers_of(session: Session) -> list[Timer]:
    """The timers of a session that run, lowest first."""
    return running(session._timers)


def running(timers: Timers) -> list[Timer]:
    """The timers that run, lowest first."""
    return sorted(timers)


def expire_session(session: Session, timer: Timer, now_ns: int) -> None:
    """Let the next ``handle_timer`` find that a timer has ended: every moment that it refers to was long ago."""
    session._timers[timer] = now_ns
    if timer is Timer.LOSS:
        expire_window(session.window)
    elif timer is Timer.CLEANUP:
        expire_idle(session.idle)
    elif timer is Timer.QUIET:
        session._probing.heard_at_ns = LONG_AGO_NS
    else:
        expire_ack_sender(session.ack_sender, timer)


def expire_window(window: SendWindow) -> None:
    """Set what is in flight as sent long ago."""
    for packet in window.flying.values():
        packet.sent_at_ns = 0


def expire_idle(idle: Idle) -> None:
    """Set the last packet to long ago."""
    idle.since_ns = -idle.interval_ns


def expire_ack_sender(ack_sender: AckSender, timer: Timer) -> None:
    """Set every moment that the timer of an ack refers to long ago."""
    if timer is Timer.ACK_DELAY:
        expire_debt(ack_sender.session_ack.debt)
    elif timer is Timer.STORE_ACK_DELAY:
        expire_debt(ack_sender.store_ack.debt)


def refresh_session(session: Session, now_ns: int) -> None:
    """Set every moment that a timer refers to now."""
    refresh_window(session.window, now_ns)
    session.idle.since_ns = now_ns
    session._probing.heard_at_ns = now_ns


def refresh_window(window: SendWindow, now_ns: int) -> None:
    """Set everything as sent now."""
    for packet in window._packets.values():
        packet.sent_at_ns = now_ns


def normalize_session(session: Session, waits_ns: Mapping[Timer, int], counter: int, now_ns: int) -> None:
    """Bring a session at rest into the canonical form for comparisons with others."""
    normalize_timers(session._timers, waits_ns, now_ns)
    session.rtt.reset()
    session._loss_timers.handle_measured()
    session._counter = counter
    normalize_opening(session._opening)
    normalize_probing(session._probing)
    normalize_ack_sender(session.ack_sender)
    for packet in session.window._packets.values():
        normalize_packet(packet)
    normalize_store_ack_waiter(session._loss_timers.store_ack_waiter)


def normalize_timers(timers: Timers, waits_ns: Mapping[Timer, int], now_ns: int) -> None:
    """Give running timers these waits, whenever they were started."""
    wanted = {timer: now_ns + waits_ns[timer] for timer in running(timers)}
    timers.clear()
    timers.update(wanted)


def normalize_opening(opening: Opening) -> None:
    """The number of repetitions only sets the wait."""
    opening.times_said = min(opening.times_said, 1)
    opening.said_at_ns = 0


def normalize_probing(probing: Probing) -> None:
    """These fields only set waits."""
    probing._quiets = 0
    probing._rounds = 0
    probing._usual = 1.0
    probing._persists = False
    probing.begin_anew()
    probing.last_asked = Ask.AT_ONCE


def normalize_ack_sender(ack_sender: AckSender) -> None:
    """Only the session log needs the cause of the last ack; the amount on the disk has no influence."""
    ack_sender.session_ack.debt.cause = Cause.ARRIVED
    ack_sender.store_ack.debt.cause = Cause.ARRIVED
    ack_sender.store_ack._highest = max(ack_sender.store_ack._sizes, default=0)


def normalize_packet(packet: SessionPacket) -> None:
    """Only whether it was sent once or more often matters."""
    packet.sends = min(packet.sends, 2)


def normalize_store_ack_waiter(wait: StoreAckWaiter) -> None:
    """The delay only sets waits."""
    wait._delay.reset()
    for packet in wait.packets.values():
        normalize_packet(packet)


def forget_order(session: Session) -> None:
    """Forget in which order packets were sent: without echoes it has no influence."""
    session._counter = 0
    forget_sendings(session.window)
    forget_sends(session._loss_timers.store_ack_waiter)


def forget_sendings(window: SendWindow) -> None:
    """Forget in which order a window sent its packets, and how often, beyond once or more."""
    window._sendings.clear()
    window._next_order = 1
    for packet in window._packets.values():
        packet.order = 0
        normalize_packet(packet)


def forget_sends(wait: StoreAckWaiter) -> None:
    """Forget in which order packets were sent that wait for a store ack."""
    for packet in wait.packets.values():
        packet.order = 0


# ---- acks that are owed, and waits


def expire_debt(debt: AckDebt) -> None:
    """Set all arrivals to long ago: the next ``handle_timer`` finds that waiting has ended."""
    debt._first_at_ns = debt._last_at_ns = -debt.terms.delay_ns
    debt._asked_by_ns = None


def refresh_debt(debt: AckDebt, now_ns: int) -> None:
    """Set all arrivals to now."""
    debt._first_at_ns = debt._last_at_ns = now_ns


def expire_tier(tier: ResendTimer, now_ns: int) -> None:
    """Let the wait end now."""
    tier.deadline_ns = now_ns


def normalize_sequence(sequence: OutgoingSequence, now_ns: int) -> None:
    """Reset the tier to its first wait; of sendings only whether there was one matters."""
    sequence.tier.handle_progress(now_ns, outstanding=sequence.tier.deadline_ns is not None)
    normalize_start(sequence.start)
    normalize_hold(sequence.hold)
    for entry in sequence.entries.values():
        entry.sends = min(entry.sends, 1)


def normalize_start(start: SlowStart) -> None:
    """The amount accepted at full speed only decides how fast it continues."""
    start._taken, start._last = min(start._taken, 1), min(start._last, 1)


def normalize_hold(hold: Hold) -> None:
    """The number of its questions only sets the wait."""
    hold._wait_ns = PROBE_NS


# ---- a node


def expire_commit(jobs: Jobs, now_ns: int) -> None:
    """Let the wait of the next commit end now."""
    jobs.lazy_until_ns = now_ns


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
    _set_transmitter(engine._transmitter)
    _set_queues(engine.queues)
    _set_owed(engine.inbox.order_acks)
    _set_outbox(engine.outbox)


def _set_transmitter(transmitter: Transmitter) -> None:
    transmitter.deadlines.clear()
    for conversation in transmitter.handshakes.conversations.values():
        transmitter.deadlines.set(conversation, conversation.next_deadline())


def _set_queues(queues: LocalQueues) -> None:
    queues.notices.resuming.clear()
    for mailbox in queues.mailboxes.values():
        mailbox.set_resume(0)


def _set_owed(owed: OwedAcks) -> None:
    owed.deadlines.clear()
    for stream in owed._owing:
        owed.deadlines.set(stream, stream.sequence.ack.deadline_ns)


def _set_outbox(outbox: Outbox) -> None:
    outbox.retirement.deadlines.clear()
    for peer in outbox.retirement._idle:
        outbox.retirement._set_deadline(peer)
    outbox.deadlines.clear()
    for outgoing in outbox._by_number.values():
        outbox._look_at(outgoing)
    for link in outbox.links.values():
        if link.conversation is None and link.busy:
            outbox.deadlines.set(link, link.retry_at_ns)
