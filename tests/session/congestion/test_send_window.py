"""The send window: how much may be unacknowledged, and what counts as lost."""

import pytest

from proof.search import stillness
from triack.base.delivery import Delivery
from triack.base.errors import ProtocolError
from triack.base.ranges import Range
from triack.base.units import MS
from triack.session.congestion.congestion import NewReno
from triack.session.congestion.rtt import RoundTrip
from triack.session.congestion.send_window import TRANSITIONS, UNBOUNDED_BYTES, PacketEvent, SendWindow
from triack.session.protocol.packets import PacketState, SessionPacket

RTT_NS = 80 * MS
LOSS_NS = 90 * MS


def make(window: int = 8, congestion: NewReno | None = None) -> SendWindow:
    rtt = RoundTrip()
    rtt.update(RTT_NS)
    return SendWindow(window, rtt, congestion)


def push(window: SendWindow, packets: int) -> list[SessionPacket]:
    return window.push(Delivery.EXPRESS, [b""] * packets, [None] * packets, [False] * packets, 100)


def transmit(window: SendWindow, sent: SessionPacket, now_ns: int) -> None:
    """Let a packet go. Counters of datagrams go with the order of sending: ten for the first, then twenty."""
    window.handle_sent(sent, 10 * window._next_order, now_ns)  # noqa: SLF001


def send(window: SendWindow, packets: int, now_ns: int = 0) -> list[SessionPacket]:
    """Push packets and let them go, each a microsecond after the other."""
    pushed = push(window, packets)
    for at, sent in enumerate(pushed):
        assert window.peek() is sent
        transmit(window, sent, now_ns + 1_000 * at)
    return pushed


def ack(
    window: SendWindow, cumulative: int, ranges: list[Range], now_ns: int, *, echo: int | None = None, delay_ns: int = 0
) -> list[SessionPacket]:
    """Take an ack. Without an ``echo`` the newest datagram that arrived is the first sending of the highest number."""
    highest = ranges[-1][1] if ranges else cumulative
    return window.handle_ack(cumulative, ranges, 10 * highest if echo is None else echo, delay_ns, now_ns)


def look(window: SendWindow, now_ns: int) -> tuple[int, int | None]:
    """How many packets count as lost now, and when to look again."""
    lost, again_ns = window.detect_losses(now_ns)
    return len(lost), again_ns


def losses(window: SendWindow, now_ns: int) -> int:
    """How many packets count as lost now."""
    return look(window, now_ns)[0]


def test_numbers_start_at_one() -> None:
    """And grow by one."""
    assert [sent.number for sent in push(make(), 3)] == [1, 2, 3]


def test_room_ends_exactly_at_the_window() -> None:
    """Queued and sent packets take room; an ack gives it back."""
    window = make(8)
    assert window.room == 8
    send(window, 4)
    push(window, 3)
    assert window.room == 1
    push(window, 1)
    assert window.room == 0
    ack(window, 2, [], RTT_NS)
    assert (window.room, window.unacked) == (2, 6)


def test_what_the_peer_has_room_for_may_be_less_than_the_window() -> None:
    """It counts whether it has left or not, until it is acknowledged."""
    window = make(8)
    window.most_bytes, window.packet_bytes = 300, 100
    assert window.room == 3
    pushed = push(window, 2)  # a hundred bytes each
    assert window.room == 1
    for sent in pushed:
        transmit(window, sent, 0)
    assert (window.room, window.unsent_bytes) == (1, 0)
    ack(window, 1, [], RTT_NS)
    assert window.room == 2


def test_the_smaller_window_counts() -> None:
    """The peer's window may be less than ours and may shrink; more than ours does not help."""
    window = make(8)
    window.peer_window = 3
    assert window.room == 3
    send(window, 3)
    assert window.room == 0
    window.peer_window = 1
    assert window.room == 0
    window.peer_window = 100
    assert window.room == 5


def test_the_span_is_two_windows() -> None:
    """While one packet stays missing, others may go only until number two windows above the cumulative one."""
    window = make(8)
    number = 0
    while window.room > 0 and number < 100:
        number = send(window, 1)[0].number
        if number > 1:
            ack(window, 0, [(2, number)], RTT_NS)
    assert number == 16
    ack(window, 16, [], RTT_NS)
    assert window.room == 8


def test_an_ack_names_what_it_newly_covers() -> None:
    """Ascending, once; acks may overlap, repeat and come in any order."""
    window = make(8)
    send(window, 8)
    assert [sent.number for sent in ack(window, 2, [(4, 5), (8, 8)], RTT_NS)] == [1, 2, 4, 5, 8]
    assert ack(window, 2, [(4, 5), (8, 8)], RTT_NS) == []
    assert ack(window, 1, [], RTT_NS) == []
    assert [sent.number for sent in ack(window, 5, [], RTT_NS)] == [3]
    assert window.cumulative == 5
    assert window.in_flight_bytes == 2 * 100


@pytest.mark.parametrize(("cumulative", "ranges"), [(4, []), (0, [(2, 4)]), (3, [(10**9, 10**9)])])
def test_an_ack_of_what_was_never_sent_is_the_peers_fault(cumulative: int, ranges: list[tuple[int, int]]) -> None:
    """A queued packet is not sent yet; nothing of such an ack counts."""
    window = make(8)
    send(window, 3)
    push(window, 2)
    with pytest.raises(ProtocolError) as caught:
        ack(window, cumulative, ranges, RTT_NS)
    assert caught.value.reason == "ack-of-unsent"
    assert window.unacked == 5


def test_three_acknowledged_later_make_a_packet_lost() -> None:
    """The packet threshold of RFC 9002: two are not enough evidence."""
    window = make(8)
    first, *_ = send(window, 8)
    ack(window, 0, [(2, 3)], RTT_NS)
    assert losses(window, RTT_NS) == 0
    ack(window, 0, [(2, 4)], RTT_NS)
    assert look(window, RTT_NS) == (1, None)
    assert first.state is PacketState.LOST
    assert window.peek() is first


def test_nine_eighths_of_a_round_trip_make_a_packet_lost() -> None:
    """The time threshold: with one later packet acknowledged, the wait is exact."""
    window = make(8)
    first, second = send(window, 2)
    ack(window, 0, [(2, 2)], second.sent_at_ns + RTT_NS)
    assert look(window, second.sent_at_ns + RTT_NS) == (0, LOSS_NS)
    assert look(window, LOSS_NS - 1) == (0, LOSS_NS)
    assert look(window, LOSS_NS) == (1, None)
    assert first.state is PacketState.LOST


def test_nothing_is_lost_without_evidence() -> None:
    """Packets sent after the newest acknowledged one are merely in flight."""
    window = make(8)
    send(window, 8)
    ack(window, 3, [], RTT_NS)
    assert look(window, 10 * RTT_NS) == (0, None)


def test_lost_packets_go_first_and_keep_their_numbers() -> None:
    """Lowest first, before anything new, under the number they had."""
    window = make(8)
    sent = send(window, 6)
    push(window, 1)
    ack(window, 0, [(3, 6)], RTT_NS)
    assert losses(window, RTT_NS) == 2
    for expected in (1, 2, 7):
        again = window.peek()
        assert again is not None
        assert again.number == expected
        transmit(window, again, RTT_NS)
    assert [packet.sends for packet in sent[:2]] == [2, 2]


def test_a_lost_packet_that_arrives_after_all_is_not_sent() -> None:
    """An ack that comes before the resend ends it."""
    window = make(8)
    send(window, 4)
    ack(window, 0, [(2, 4)], RTT_NS)
    window.detect_losses(RTT_NS)
    ack(window, 4, [], RTT_NS)
    assert window.peek() is None
    assert (window.unacked, window.in_flight, window.in_flight_bytes) == (0, 0, 0)


def test_the_echo_tells_which_sending_arrived() -> None:
    """Of a packet sent twice: that of the second gives its round trip, and evidence against what went before it."""
    window = make(8)
    first, *_, sixth = send(window, 6)
    ack(window, 0, [(2, 4)], RTT_NS)
    assert losses(window, RTT_NS) == 1
    transmit(window, first, RTT_NS)
    assert ack(window, 4, [], 2 * RTT_NS, echo=70) == [first]
    assert window._rtt.latest_ns == RTT_NS  # noqa: SLF001
    assert losses(window, 2 * RTT_NS) == 2
    assert sixth.state is PacketState.LOST


def test_an_echo_of_the_first_sending_proves_nothing_of_the_second() -> None:
    """The original was only late: no false round trip, and no evidence against what was sent after it."""
    window = make(8)
    first, *_ = send(window, 4)
    ack(window, 0, [(2, 4)], RTT_NS)
    window.detect_losses(RTT_NS)
    before_ns = window._rtt.smoothed_ns  # noqa: SLF001
    transmit(window, first, RTT_NS)
    send(window, 2, RTT_NS)
    assert ack(window, 4, [], 2 * RTT_NS, echo=10) == [first]
    assert window._rtt.smoothed_ns == before_ns  # noqa: SLF001
    assert look(window, 9 * RTT_NS) == (0, None)


def test_an_echo_counts_once() -> None:
    """The same ack again, or an echo of a datagram without a packet, is no sample."""
    window = make(8)
    send(window, 2)
    ack(window, 2, [], RTT_NS)
    before_ns = window._rtt.smoothed_ns  # noqa: SLF001
    for echo in (10, 20, 25, 10**15):
        ack(window, 2, [], 9 * RTT_NS, echo=echo)
    assert window._rtt.smoothed_ns == before_ns  # noqa: SLF001


def test_the_memory_of_sendings_is_bounded() -> None:
    """However often probes go out, only the last windows of sendings are remembered."""
    window = make(2)
    (first,) = send(window, 1)
    for at in range(100):
        transmit(window, first, at)
    assert len(window._sendings) == 16  # noqa: SLF001
    ack(window, 1, [], 99 + RTT_NS, echo=1_010)
    assert window._rtt.latest_ns == RTT_NS  # noqa: SLF001


def test_a_sample_comes_from_the_newest_packet_of_an_ack() -> None:
    """Its ack waited least; what the peer held back is taken off."""
    window = make(8)
    send(window, 1, 0)
    send(window, 1, 500 * MS)
    ack(window, 2, [], 680 * MS, delay_ns=20 * MS)
    assert window._rtt.latest_ns == 160 * MS  # noqa: SLF001


def test_probes_carry_the_oldest_packets() -> None:
    """The lowest numbers in flight, wherever they are in the order of sending."""
    window = make(8)
    first, second, third = send(window, 3)
    assert window.oldest_unacked(2) == [first, second]
    transmit(window, first, RTT_NS)
    assert window.oldest_unacked(2) == [first, second]
    ack(window, 1, [], RTT_NS)
    assert window.oldest_unacked(2) == [second, third]
    ack(window, 3, [], RTT_NS)
    assert window.oldest_unacked(2) == []


def test_a_probe_counts_once_in_flight() -> None:
    """Resending a packet that is in flight takes no more of the congestion window."""
    window = make(8)
    (first,) = send(window, 1)
    transmit(window, first, RTT_NS)
    assert (window.in_flight, window.in_flight_bytes) == (1, 100)


def test_credit_ends_with_the_congestion_window() -> None:
    """Ten datagrams of 100 bytes are let go, the next waits."""
    window = make(64, NewReno(100))
    send(window, 9)
    tenth, eleventh = push(window, 2)
    assert window.has_credit(tenth)
    transmit(window, tenth, 0)
    assert not window.has_credit(eleventh)


def test_what_is_left_of_the_congestion_window_is_spare_when_nothing_waits() -> None:
    """Of ten datagrams of 100 bytes, two are in flight; without such a window there is nothing to spare."""
    window = make(64, NewReno(100))
    send(window, 2)
    assert window.spare_bytes == 800
    push(window, 1)
    assert (window.spare_bytes, make().spare_bytes) == (0, 0)


@pytest.mark.parametrize("waiting", [1, 7, 30])
@pytest.mark.plain
def test_a_run_ends_with_the_credit(waiting: int) -> None:
    """And the state of its packets afterwards is the same as if they had left one by one.

    The controller gets a run at once: its packets share one record, and leave under the same limit.
    """
    single, by_run = make(64, NewReno(100)), make(64, NewReno(100))
    singly, together = push(single, waiting), push(by_run, waiting)
    counter = 50
    while (sent := single.next_with_credit()) is not None:
        single.handle_sent(sent, counter, 9)
        counter += 1
    by_run.handle_run_sent(by_run.next_run(3 * 100, UNBOUNDED_BYTES), 50, 9)
    while run := by_run.next_run(1_000_000, UNBOUNDED_BYTES):
        by_run.handle_run_sent(run, 50 + by_run.highest_sent, 9)
    assert len({id(sent.sending) for sent in together[:3]}) == 1
    for sent in singly + together:
        sent.sending = None
    assert snapshot(by_run) == snapshot(single)
    assert by_run.in_flight == min(waiting, 10)


class Listening(NewReno):
    """A controller that records its calls about acknowledgements."""

    def __init__(self) -> None:
        super().__init__(100)
        self.told: list[tuple[int, int]] = []

    def handle_acked(self, packets: int, size_bytes: int, sending: tuple[int, bool]) -> None:
        self.told.append((packets, size_bytes))
        super().handle_acked(packets, size_bytes, sending)


@pytest.mark.plain
def test_a_controller_hears_once_of_all_that_left_together() -> None:
    """A run of four of which one is missing, and a packet that left later: two sendings, three packets and one."""
    controller = Listening()
    window = make(64, controller)
    push(window, 4)
    window.handle_run_sent(window.next_run(UNBOUNDED_BYTES, UNBOUNDED_BYTES), 10, 9)
    send(window, 1, 20)
    ack(window, 1, [(3, 5)], RTT_NS)
    assert controller.told == [(3, 300), (1, 100)]


def test_a_run_has_no_more_than_the_pacer_lets_go_but_for_its_first_packet() -> None:
    """Three of 100 bytes fit into 399; the first one has been let go already, however large it is."""
    window = make(64)
    push(window, 10)
    assert [len(window.next_run(UNBOUNDED_BYTES, credit)) for credit in (399, 400, 5)] == [3, 4, 1]


def test_what_is_freed_before_it_leaves_is_known_by_then() -> None:
    """Packets that have left are the store wait's affair."""
    window = make()
    first = send(window, 1)
    second, third = push(window, 2)
    window.handle_freed([1, 3])
    assert [packet.is_freed for packet in (*first, second, third)] == [False, False, True]
    assert window.peek() is second


def test_what_is_queued_awaits_no_ack() -> None:
    """Only what has left does, lost or not."""
    window = make(64)
    first, *_ = push(window, 5)
    assert not window.awaits_ack
    transmit(window, first, 0)
    assert window.awaits_ack
    for sent in list(window._packets.values())[1:4]:  # noqa: SLF001
        transmit(window, sent, 0)
    ack(window, 0, [(2, 4)], 1)
    assert losses(window, 1) == 1
    assert (window.in_flight, window.awaits_ack) == (0, True)
    ack(window, 1, [], 2)
    assert (window.unacked, window.awaits_ack) == (1, False)


def snapshot(window: SendWindow) -> list[object]:
    """All that it has."""
    return [
        getattr(window, name)
        for name in SendWindow.__slots__
        if name not in ("congestion", "_rtt", "undecided", "_acked")
    ]


def test_losses_of_one_ack_halve_the_congestion_window_once() -> None:
    """However many packets are lost in an episode."""
    congestion = NewReno(100)
    window = make(64, congestion)
    send(window, 10)
    before = congestion.window_bytes
    ack(window, 0, [(7, 10)], RTT_NS)
    grown = congestion.window_bytes
    assert losses(window, RTT_NS) == 6
    assert congestion.window_bytes == grown // 2 >= before // 2


def test_the_congestion_window_grows_only_when_it_is_used() -> None:
    """A packet sent into a mostly empty window says nothing about a larger one."""
    congestion = NewReno(100)
    window = make(64, congestion)
    send(window, 4)
    ack(window, 4, [], RTT_NS)
    assert congestion.window_bytes == 1_000
    send(window, 10)
    ack(window, 14, [], 2 * RTT_NS)
    assert congestion.window_bytes > 1_000


# ---- the states of a packet


def test_the_table_of_packets_is_whole() -> None:
    """Every state is in it, and nothing leaves ACKED. A packet that was never sent is neither lost nor acknowledged."""
    assert set(TRANSITIONS) == set(PacketState)
    assert not TRANSITIONS[PacketState.ACKED]
    assert set(TRANSITIONS[PacketState.QUEUED]) == {PacketEvent.SENT}
    assert PacketEvent.LOST not in TRANSITIONS[PacketState.LOST]


def test_a_packet_goes_through_its_states_and_takes_room_on_the_wire_in_one() -> None:
    """Queued, in flight, lost, in flight, probed, acknowledged: only what is in flight counts as such."""
    window, seen = make(), []

    def look() -> None:
        seen.append((packet.state.name, window.in_flight, window.in_flight_bytes))

    (packet,) = push(window, 1)
    look()
    transmit(window, packet, 0)
    look()
    later = send(window, 3)
    ack(window, 0, [(2, 4)], RTT_NS)
    assert all(other.state is PacketState.ACKED for other in later)
    window.detect_losses(RTT_NS)
    look()
    assert window.peek() is packet
    transmit(window, packet, RTT_NS)
    look()
    transmit(window, packet, 2 * RTT_NS)
    look()
    ack(window, 4, [], 3 * RTT_NS)
    look()
    assert seen == [
        ("QUEUED", 0, 0),
        ("IN_FLIGHT", 1, 100),
        ("LOST", 0, 0),
        ("IN_FLIGHT", 1, 100),
        ("IN_FLIGHT", 1, 100),
        ("ACKED", 0, 0),
    ]


def test_for_a_search_time_passes_as_it_likes() -> None:
    """Everything was long ago: one later ack makes it lost. Or just now: it does not."""
    for long_ago in (True, False):
        window = make()
        send(window, 2, now_ns=1_000 * MS)
        ack(window, 0, [(2, 2)], 1_000 * MS)
        stillness.refresh_window(window, 1_000 * MS)
        if long_ago:
            stillness.expire_window(window)
        assert losses(window, 1_000 * MS) == long_ago


def test_for_a_search_order_and_counts_are_forgotten() -> None:
    """But not that a packet was sent again."""
    window = make()
    once, often = send(window, 2)
    for _ in range(4):
        transmit(window, often, 0)
    stillness.forget_sendings(window)
    assert (once.sends, often.sends) == (1, 2)
    assert (once.order, often.order) == (0, 0)
    assert window.unacked == window.in_flight == 2
