"""When a session ack leaves: the machine alone, then between two sessions."""

import pytest

from tests.session.pair import Pair
from triack.base.delivery import Delivery
from triack.base.reasons import DropReason
from triack.base.units import MS, SECOND
from triack.session.events import PacketDropped
from triack.session.frames import AckFrame, decode_frames, encode_packet, encode_ping
from triack.session.session_ack import TRANSITIONS, AckState, Cause, SessionAck
from triack.session.settings import AckTrigger, SessionSettings

BYTES = 100


def arrive(ack: SessionAck, *numbers: int, now_ns: int = 0, asks: bool = False) -> AckState:
    for number in numbers:
        ack.handle_packet(number, BYTES, counter=number, asks=asks, now_ns=now_ns)
    return ack.state


def test_due_at_exactly_half_the_window() -> None:
    """MSMQ's rule: the 32nd packet of a window of 64 makes the ack due, the 31st does not."""
    ack = SessionAck(AckTrigger.half_window(64), span=128)
    assert arrive(ack, *range(1, 32)) is AckState.OWED
    assert arrive(ack, 32) is AckState.DUE
    assert (ack.cause, ack.pending) == (Cause.COUNT, 32)


def test_the_count_starts_again_with_each_ack() -> None:
    """What an ack covered is not counted for the next one."""
    ack = SessionAck(AckTrigger.half_window(8), span=128)
    arrive(ack, 1, 2, 3)
    ack.handle_sent(0)
    assert ack.state is AckState.NOTHING_OWED
    assert arrive(ack, 4, 5, 6) is AckState.OWED
    assert arrive(ack, 7) is AckState.DUE


@pytest.mark.parametrize(("window", "count"), [(1, 1), (2, 1), (3, 1), (64, 32)])
def test_half_of_any_window_is_at_least_one(window: int, count: int) -> None:
    """A window of one is stop-and-wait: every packet is acknowledged."""
    assert AckTrigger.half_window(window).count == count
    assert SessionSettings(max_unacked_packet=window).trigger.count == count


def test_due_after_exactly_the_delay_of_the_first_packet() -> None:
    """Later packets do not push the ack ahead of them."""
    ack = SessionAck(AckTrigger.half_window(64), span=128)
    assert ack.deadline_ns is None
    arrive(ack, 1, now_ns=100 * MS)
    arrive(ack, 2, now_ns=400 * MS)
    assert ack.deadline_ns == 600 * MS
    ack.handle_timer(600 * MS - 1)
    assert ack.state is AckState.OWED
    ack.handle_timer(600 * MS)
    assert (ack.state, ack.cause, ack.deadline_ns) == (AckState.DUE, Cause.DELAY, None)


def test_the_delay_starts_again_with_each_ack() -> None:
    """The first packet after an ack is the first again."""
    ack = SessionAck(AckTrigger.half_window(64), span=128)
    arrive(ack, 1, now_ns=100 * MS)
    ack.handle_sent(200 * MS)
    arrive(ack, 2, now_ns=300 * MS)
    assert ack.deadline_ns == 800 * MS


def test_due_at_a_count_of_bytes() -> None:
    """With bytes as the only limit, the packet that reaches them makes the ack due."""
    ack = SessionAck(AckTrigger(count=None, bytes_=3 * BYTES), span=1_000)
    assert arrive(ack, 1, 2) is AckState.OWED
    assert arrive(ack, 3) is AckState.DUE
    assert ack.cause is Cause.BYTES
    ack.handle_sent(0)
    assert arrive(ack, 4, 5) is AckState.OWED


@pytest.mark.parametrize(
    ("trigger", "cause"), [(AckTrigger(), Cause.GAP), (AckTrigger(on_gap=False), Cause.ARRIVED)], ids=["on", "off"]
)
def test_due_at_once_on_a_gap(trigger: AckTrigger, cause: Cause) -> None:
    """A missing packet is told at once, and its arrival too, unless the policy says otherwise."""
    ack = SessionAck(trigger, span=128)
    arrive(ack, 1, 3)
    assert ack.cause is cause
    assert ack.received.ranges == [(3, 3)]
    ack.handle_sent(0)
    arrive(ack, 2)
    assert ack.cause is cause
    ack.handle_sent(0)
    assert arrive(ack, 4) is AckState.OWED


@pytest.mark.parametrize(
    ("trigger", "state"), [(AckTrigger(), AckState.DUE), (AckTrigger(on_duplicate=False), AckState.OWED)]
)
def test_due_at_once_on_a_duplicate(trigger: AckTrigger, state: AckState) -> None:
    """Its sender has not seen the ack; the duplicate is not counted as pending."""
    ack = SessionAck(trigger, span=128)
    arrive(ack, 1)
    ack.handle_sent(0)
    assert not ack.handle_packet(1, BYTES, counter=2, asks=False, now_ns=5 * MS)
    assert (ack.state, ack.pending) == (state, 0)
    assert ack.deadline_ns in (None, 505 * MS)


@pytest.mark.parametrize(
    ("trigger", "state"), [(AckTrigger(), AckState.DUE), (AckTrigger(on_request=False), AckState.OWED)]
)
def test_due_at_once_when_asked(trigger: AckTrigger, state: AckState) -> None:
    """A packet with the ask flag need not wait, unless the policy says otherwise."""
    assert arrive(SessionAck(trigger, span=128), 1, asks=True) is state


def test_the_first_cause_is_the_one_that_is_told() -> None:
    """Once due, an ack is due; the log keeps why."""
    ack = SessionAck(AckTrigger(), span=128)
    arrive(ack, 2)
    arrive(ack, 3, asks=True)
    assert ack.cause is Cause.GAP


def test_piggyback_is_wanted_only_when_something_is_owed() -> None:
    """And never when the policy has it off."""
    ack = SessionAck(AckTrigger(), span=128)
    assert not ack.piggybacks
    arrive(ack, 1)
    assert ack.piggybacks
    silent = SessionAck(AckTrigger(piggyback=False), span=128)
    arrive(silent, 1)
    assert not silent.piggybacks


def test_reach_is_bounded_by_the_span() -> None:
    """A correct sender is never further ahead, so a peer cannot make us remember more."""
    ack = SessionAck(AckTrigger(), span=10)
    assert ack.in_reach(10)
    assert not ack.in_reach(11)
    arrive(ack, 1, 3)
    assert ack.in_reach(11)
    assert not ack.in_reach(12)


def test_the_newest_datagram_is_echoed() -> None:
    """By its counter and not by its number; one that was overtaken, or lost a race, does not count."""
    ack = SessionAck(AckTrigger(), span=128)
    for number, counter, now_ns in ((1, 5, 10), (2, 9, 20), (3, 7, 30)):
        ack.handle_packet(number, BYTES, counter=counter, asks=False, now_ns=now_ns)
    assert (ack.newest_counter, ack.newest_at_ns) == (9, 20)
    ack.handle_packet(2, BYTES, counter=12, asks=False, now_ns=40)
    assert (ack.newest_counter, ack.newest_at_ns) == (12, 40)


def test_a_timer_without_need_does_nothing() -> None:
    """A spurious wake-up owes nothing."""
    ack = SessionAck(AckTrigger(), span=10)
    ack.handle_timer(10 * SECOND)
    assert ack.state is AckState.NOTHING_OWED


def test_the_table_is_whole() -> None:
    """Every state has an answer to every cause, and sending always settles the debt."""
    for state in AckState:
        assert set(TRANSITIONS[state]) == set(Cause)
        assert TRANSITIONS[state][Cause.SENT] is AckState.NOTHING_OWED


# ---- between two sessions


def ack_frames(pair: Pair) -> list[AckFrame]:
    told = [frame for _, sent in pair.sent["b"] if sent.ack for frame in decode_frames(sent.payload)]
    return [frame for frame in told if isinstance(frame, AckFrame)]


def test_thirty_two_packets_bring_one_ack() -> None:
    """At half the window the ack leaves at once, and there is only that one."""
    pair = Pair.opened(udp=False)
    start_ns = pair.now_ns
    pair.send("a", 31)
    pair.run(100 * MS)
    assert pair.acks("b") == []
    pair.send("a", 1)
    pair.run(SECOND)
    assert pair.acks("b") == [(start_ns + 110 * MS, "count", 32)]


def test_a_lone_packet_is_acknowledged_after_the_idle_delay() -> None:
    """500 ms after it arrived, to the nanosecond, with the delay and the window in the ack."""
    pair = Pair.opened()
    arrives_ns = pair.now_ns + 10 * MS
    pair.send("a", 1)
    pair.run(2 * SECOND)
    assert pair.acks("b") == [(arrives_ns + 500 * MS, "delay", 1)]
    assert ack_frames(pair) == [AckFrame(1, [], 64, pair.sent["a"][-1][1].counter, 500 * MS)]
    assert pair.unacked["a"] == set()


def test_an_ack_rides_on_data_that_goes_the_other_way() -> None:
    """No datagram of its own, and no second ack when the delay would have run out."""
    pair = Pair.opened()
    pair.send("a", 1)
    pair.run(30 * MS)
    pair.send("b", 1)
    assert pair.acks("b") == [(pair.now_ns, "piggyback", 1)]
    assert pair.sent["b"][-1][1].packet is not None
    pair.run(2 * SECOND)
    assert len(pair.acks("b")) == 1


def test_without_piggyback_the_ack_waits_for_its_delay() -> None:
    """The policy is a setting."""
    pair = Pair.opened(SessionSettings(ack_trigger=AckTrigger(piggyback=False)))
    pair.send("a", 1)
    pair.run(30 * MS)
    pair.send("b", 1)
    pair.run(2 * SECOND)
    assert [trigger for _, trigger, _ in pair.acks("b")] == ["delay"]


@pytest.mark.parametrize(
    ("lost", "asks", "trigger"), [({2}, False, "gap"), (set(), True, "request")], ids=["gap", "request"]
)
def test_at_once_between_two_sessions(lost: set[int], asks: bool, trigger: str) -> None:
    """A gap and a packet that asks bring the ack in the moment of their arrival."""
    pair = Pair.opened()
    pair.lose = lambda end, sent: sent.packet is not None and sent.packet.number in lost
    pair.send("a", 3, asks=asks)
    arrives_ns = pair.now_ns + 10 * MS
    pair.run(10 * MS)
    assert pair.acks("b")[0][:2] == (arrives_ns, trigger)
    if lost:
        assert ack_frames(pair)[0].ranges == [(3, 3)]


def test_a_duplicate_is_acknowledged_at_once_and_reported() -> None:
    """The owner sees it marked, because its own layers may have to answer too."""
    pair = Pair.opened()
    pair.send("a", 1)
    pair.run(SECOND)
    before = len(pair.acks("b"))
    pair.inject("b", pair.sent["a"][-1][1].payload)
    pair.drain()
    assert pair.acks("b")[before:] == [(pair.now_ns, "duplicate", 0)]
    assert pair.fresh("b") == [b"1"]
    assert "duplicate=True" in repr(pair.events["b"][-1])


def test_a_ping_is_answered_at_once() -> None:
    """Even by an end to which nothing was ever sent."""
    pair = Pair.opened()
    pair.inject("b", encode_ping())
    pair.drain()
    assert pair.acks("b") == [(pair.now_ns, "request", 0)]
    assert "AcksRequested" in repr(pair.events["b"][-1])


def test_a_third_of_the_window_or_a_second() -> None:
    """The other systems' policy is a setting: window 255, 85 arrive, one ack for 85 (seed systems, section 2)."""
    pair = Pair.opened(
        SessionSettings(max_unacked_packet=255, ack_trigger=AckTrigger(count=255 // 3, delay_s=1.0)), udp=False
    )
    pair.send("a", 85)
    pair.run(5 * SECOND)
    assert [ack[1:] for ack in pair.acks("b")] == [("count", 85)]


def test_less_than_a_third_waits_for_the_second() -> None:
    """Window 50, 3 arrive, nothing more: one ack, a second after the first arrived."""
    trigger = AckTrigger(count=50 // 3, delay_s=1.0)
    pair = Pair.opened(SessionSettings(max_unacked_packet=50, ack_trigger=trigger), udp=False)
    arrives_ns = pair.now_ns + 10 * MS
    pair.send("a", 1)
    pair.run(300 * MS)
    pair.send("a", 2)
    pair.run(5 * SECOND)
    assert pair.acks("b") == [(arrives_ns + SECOND, "delay", 3)]


def test_a_packet_beyond_the_window_is_dropped_by_name() -> None:
    """It is counted, not acknowledged, and not delivered."""
    pair = Pair.opened()
    pair.inject("b", encode_packet(128, Delivery.EXPRESS, False, b"in"))
    pair.inject("b", encode_packet(129, Delivery.EXPRESS, False, b"out"))
    pair.drain()
    dropped = [event.reason for event in pair.events["b"] if isinstance(event, PacketDropped)]
    assert dropped == [DropReason.BEYOND_WINDOW]
    assert pair.fresh("b") == [b"in"]
