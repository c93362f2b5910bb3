"""The send window: how much may be unacknowledged, and what counts as lost."""

from typing import ClassVar

import pytest

from tests.sure import sure
from triack.base.delivery import Delivery
from triack.base.errors import ProtocolError
from triack.base.ranges import Range
from triack.base.units import MS
from triack.session.congestion.congestion import NewReno
from triack.session.congestion.rtt import RoundTrip
from triack.session.congestion.send_window import UNBOUNDED_BYTES, SendWindow
from triack.session.protocol.packets import PacketState, SessionPacket

RTT_NS = 80 * MS
LOSS_NS = 90 * MS


def make(window: int = 8, congestion: NewReno | None = None) -> SendWindow:
    rtt = RoundTrip()
    rtt.update(RTT_NS)
    return SendWindow(window, rtt, congestion)


def push(window: SendWindow, packets: int) -> list[SessionPacket]:
    first = window.push(Delivery.EXPRESS, [b""] * packets, [None] * packets, [False] * packets, 100)
    return [window._packets[number] for number in range(first, first + packets)]  # noqa: SLF001


def transmit(window: SendWindow, sent: SessionPacket, now_ns: int) -> None:
    """Let a packet go. Counters of datagrams go with the order of sending: ten for the first, then twenty."""
    window.handle_sent([sent], 10 * window._next_order, now_ns)  # noqa: SLF001


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
    return look(window, now_ns)[0]


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
    window, some = make(8), [(4, 5), (8, 8)]
    send(window, 8)
    named = [[sent.number for sent in ack(window, *it, RTT_NS)] for it in ((2, some), (2, some), (1, []), (5, []))]
    assert named == [[1, 2, 4, 5, 8], [], [], [3]]
    assert (window.cumulative, window.in_flight_bytes) == (5, 2 * 100)


@pytest.mark.parametrize(("cumulative", "ranges"), [(4, []), (0, [(2, 4)]), (3, [(10**9, 10**9)])])
def test_an_ack_of_what_was_never_sent_is_the_peers_fault(cumulative: int, ranges: list[tuple[int, int]]) -> None:
    """A queued packet is not sent yet; nothing of such an ack counts."""
    window = make(8)
    send(window, 3)
    push(window, 2)
    with pytest.raises(ProtocolError, match=r"^ack-of-unsent"):
        ack(window, cumulative, ranges, RTT_NS)
    assert window.unacked == 5


def test_three_acknowledged_later_make_a_packet_lost() -> None:
    """The packet threshold of RFC 9002: two are not enough evidence."""
    window = make(8)
    first, *_ = send(window, 8)
    ack(window, 0, [(2, 3)], RTT_NS)
    assert losses(window, RTT_NS) == 0
    ack(window, 0, [(2, 4)], RTT_NS)
    assert look(window, RTT_NS) == (1, None)
    assert (first.state, window.peek()) == (PacketState.LOST, first)


def test_nine_eighths_of_a_round_trip_make_a_packet_lost() -> None:
    """The time threshold: with one later packet acknowledged, the wait is exact."""
    window = make(8)
    first, second = send(window, 2)
    acked_ns = second.sent_at_ns + RTT_NS
    ack(window, 0, [(2, 2)], acked_ns)
    looks = [look(window, at_ns) for at_ns in (acked_ns, LOSS_NS - 1, LOSS_NS)]
    assert (looks, first.state) == ([(0, LOSS_NS), (0, LOSS_NS), (1, None)], PacketState.LOST)


def test_nothing_is_lost_without_evidence() -> None:
    window = make(8)
    send(window, 8)
    ack(window, 3, [], RTT_NS)
    assert look(window, 10 * RTT_NS) == (0, None)


def test_lost_packets_go_first_and_keep_their_numbers() -> None:
    window = make(8)
    sent = send(window, 6)
    push(window, 1)
    ack(window, 0, [(3, 6)], RTT_NS)
    assert losses(window, RTT_NS) == 2
    for expected in (1, 2, 7):
        again = sure(window.peek())
        assert again.number == expected
        transmit(window, again, RTT_NS)
    assert [packet.sends for packet in sent[:2]] == [2, 2]


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


def test_what_an_ack_shows_to_be_lost_is_of_the_round_that_it_ends() -> None:
    """A controller that heard of it after the ack would count a round of acks, and then one of losses."""

    class Heard(NewReno):
        said: ClassVar[list[str]] = []

        def handle_lost(self, *_args: object) -> None:
            self.said.append("lost")

        def handle_ack(self, *_args: object) -> None:
            self.said.append("ack")

    window = make(8, Heard(1_200))
    send(window, 6)
    ack(window, 0, [(3, 6)], RTT_NS)
    assert losses(window, RTT_NS) == 2
    assert losses(window, 9 * RTT_NS) == 0
    assert Heard.said == ["lost", "lost", "ack"]


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
    """The lowest numbers in flight, wherever they are in the order of sending; one that goes again takes no more."""
    window = make(8)
    first, second, third = send(window, 3)
    assert window.oldest_unacked(2) == [first, second]
    transmit(window, first, RTT_NS)
    assert (window.oldest_unacked(2), window.in_flight, window.in_flight_bytes) == ([first, second], 3, 300)
    ack(window, 1, [], RTT_NS)
    assert window.oldest_unacked(2) == [second, third]
    ack(window, 3, [], RTT_NS)
    assert window.oldest_unacked(2) == []


@pytest.mark.parametrize("waiting", [1, 7, 30])
@pytest.mark.plain
def test_a_run_ends_with_the_credit(waiting: int) -> None:
    """And the state of its packets afterwards is the same as if they had left one by one.

    The controller gets a run at once: its packets share one record, and leave under the same limit.
    """
    single, by_run = make(64, NewReno(100)), make(64, NewReno(100))
    singly, together = push(single, waiting), push(by_run, waiting)
    counter = 50
    while (sent := single.peek()) is not None and single.has_credit(sent):
        single.handle_sent([sent], counter, 9)
        counter += 1
    by_run.handle_sent(by_run.next_run(3 * 100, UNBOUNDED_BYTES), 50, 9)
    while run := by_run.next_run(1_000_000, UNBOUNDED_BYTES):
        by_run.handle_sent(run, 50 + by_run.highest_sent, 9)
    assert len({id(sent.sending) for sent in together[:3]}) == 1
    for sent in singly + together:
        sent.sending = None
    assert snapshot(by_run) == snapshot(single)
    assert by_run.in_flight == min(waiting, 10)


def test_a_run_has_no_more_than_the_pacer_lets_go_but_for_its_first_packet() -> None:
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


def snapshot(window: SendWindow) -> list[object]:
    return [
        getattr(window, name)
        for name in SendWindow.__slots__
        if name not in ("congestion", "_rtt", "undecided", "_acked")
    ]
