"""A session from its opening to its close: every timer, its windows, its repair of losses."""

from dataclasses import replace

import pytest

from tests.session.pair import OVERHEAD_BYTES, RTT_NS, Pair, goodbyes, make_hello, make_session, reasons, transmit_of
from triack.base.ack_trigger import AckTrigger
from triack.base.delivery import Delivery
from triack.base.errors import ProtocolError
from triack.base.ranges import NumberSet
from triack.base.units import MS, SECOND
from triack.session.idle import Idle
from triack.session.keep_alive import KeepAlive
from triack.session.protocol.binary import BINARY
from triack.session.protocol.codec import content_limit_bytes
from triack.session.protocol.events import PacketsAcked, SessionOpened, TransmitKind
from triack.session.protocol.frames import PacketFrame, PingFrame, StoreAckFrame
from triack.session.protocol.path_traits import MEMORY
from triack.session.protocol.settings import SessionSettings
from triack.session.protocol.states import CloseReason, SessionState


def kinds(pair: Pair, end: str) -> list[tuple[int, TransmitKind]]:
    return [(at_ns // MS, sent.kind) for at_ns, sent in pair.sent[end]]


def ack_requested(pair: Pair, end: str = "a") -> list[int]:
    """Numbers of the packets that asked for an ack."""
    frames = [frame for _, sent in pair.sent[end] if sent.packet is not None for frame in BINARY.decode(sent.payload)]
    return [frame.number for frame in frames if isinstance(frame, PacketFrame) and frame.ask]


def test_a_session_opens_in_one_round_trip() -> None:
    pair = Pair()
    pair.run(SECOND)
    assert kinds(pair, "a")[:2] == [(0, TransmitKind.CONNECT), (20, TransmitKind.DATA)]
    assert kinds(pair, "b")[:1] == [(10, TransmitKind.ACCEPT)]
    assert (pair.events["a"][0], pair.events["b"][:2]) == (SessionOpened(), [SessionOpened(), PacketsAcked([], [])])
    assert (pair.a.rtt.smoothed_ns, pair.a.peer) == (RTT_NS, replace(make_hello(2), introduction=b""))
    assert [(sent.connection_id, sent.counter) for _, sent in pair.sent["a"]][:2] == [(1, 1), (2, 2)]


def test_an_initiator_without_packets_asks_until_it_is_heard() -> None:
    """Once, when nothing is lost; five times a second until its word has come through."""
    pair = Pair()
    pair.run(SECOND)
    assert kinds(pair, "a")[2:] == [(220, TransmitKind.DATA)]
    assert kinds(pair, "b")[1:] == [(230, TransmitKind.DATA)]
    pair = Pair()
    pair.lose = lambda end, sent: sent.kind is TransmitKind.DATA and pair.now_ns < SECOND
    pair.run(SECOND)
    assert SessionOpened() not in pair.events["b"]
    pair.run(SECOND)
    assert pair.b.state is SessionState.OPEN
    assert kinds(pair, "a")[-1] == (1_020, TransmitKind.DATA)


def test_a_session_that_opens_at_one_end_alone_is_over_in_time() -> None:
    """The initiator no longer hears its acceptor: it gives up when the connection should be complete."""
    pair = Pair(lose=lambda _end, sent: sent.kind is TransmitKind.DATA)
    pair.run(10 * SECOND)
    assert pair.a.state is SessionState.OPEN
    pair.run(RTT_NS)
    assert reasons(pair) == [CloseReason.ACK_TIMEOUT]


def test_a_connect_is_said_once_more_when_the_acceptor_wants_it() -> None:
    session = make_session(1)
    first = transmit_of(session, 0)
    assert session.poll_transmit(0) is None
    session.handle_retry()
    second = transmit_of(session, 0)
    assert (first.counter, second.counter, second.kind) == (1, 2, TransmitKind.CONNECT)


def test_an_unconfirmed_acceptor_gives_up_and_says_nothing() -> None:
    """It repeats no accept, as a stranger could have faked the connect; what it cannot read confirms nothing."""
    pair = Pair(lose=lambda end, sent: end == "a" and sent.kind is TransmitKind.DATA)
    pair.run(5 * SECOND)
    assert kinds(pair, "b") == [(10, TransmitKind.ACCEPT)]
    with pytest.raises(ProtocolError):
        pair.inject("b", b"\xff")
    assert pair.b.state is SessionState.ACCEPTING
    pair.run(20 * SECOND)
    assert (reasons(pair, "b"), goodbyes(pair, "b")) == ([CloseReason.CONNECT_TIMEOUT], [])


def test_a_late_copy_of_a_connect_opens_nothing() -> None:
    """An acceptor made by it never hears a confirmation: the initiator answers to the session in use."""
    pair = Pair.opened()
    connect = pair.sent["a"][0][1]
    late = make_session(3, peer=BINARY.decode_hello(connect.payload), now_ns=pair.now_ns)
    pair.deliver("a", transmit_of(late, pair.now_ns))
    pair.drain()
    assert pair.sent["a"][-1][1].connection_id == 2
    assert (late.state, late.events) == (SessionState.ACCEPTING, [])
    pair.deliver("b", connect)
    pair.run(SECOND)
    assert (pair.b.state, pair.events["b"].count(SessionOpened())) == (SessionState.OPEN, 1)


def test_data_before_the_accept_is_refused_by_name() -> None:
    """Nothing but an accept is understood while connecting, and nothing at all when closed."""
    pair = Pair()
    for _ in range(2):
        with pytest.raises(ProtocolError, match=r"^not-open"):
            pair.inject("a", BINARY.encode(PingFrame()))
        pair.a.close(CloseReason.LOCAL_STOP)


def test_the_round_trip_is_that_of_the_connect_that_was_answered() -> None:
    """A lost accept does not count as a slow network: the next one echoes the connect it answers."""
    lost = iter([True])
    pair = Pair(lose=lambda _end, sent: sent.kind is TransmitKind.ACCEPT and next(lost, False))
    pair.run(1_205 * MS)
    assert (pair.a.state, pair.a.rtt.smoothed_ns) == (SessionState.OPEN, RTT_NS)


@pytest.mark.parametrize("peer_window", [64, 5])
def test_the_window_is_never_exceeded(peer_window: int) -> None:
    peer = SessionSettings(max_unacked_packet=peer_window)
    pair = Pair.opened(SessionSettings(max_unacked_packet=16), peer_settings=peer)
    assert pair.a.room == min(16, peer_window)
    pair.backlog["a"].extend((Delivery.EXPRESS, b"%d" % number) for number in range(100))
    pair.run_until(lambda: len(pair.fresh("b")) == 100)
    assert pair.most_unacked == min(16, peer_window)


def test_a_full_window_asks_only_if_nothing_else_brings_an_ack() -> None:
    """Half of it has made the peer acknowledge already; a policy without a number leaves that to the last packet."""
    for share, asked in ((1 / 2, []), (None, [64])):
        pair = Pair.opened(SessionSettings(ack_trigger=AckTrigger(window_share=share)), udp=False)
        pair.send("a", 64)
        assert ack_requested(pair) == asked


def test_the_congestion_window_closing_asks() -> None:
    """The first window asks before the next packets may be too much for it, and with the last that it may hold."""
    pair = Pair.opened()
    content = bytes(content_limit_bytes(BINARY, 1_200, OVERHEAD_BYTES))
    for _ in range(30):
        pair.a.send_packet(Delivery.EXPRESS, content, None)
    pair.drain()
    assert [number for _, number in pair.packets("a")] == list(range(1, 11))
    assert ack_requested(pair) == [8, 10]


@pytest.mark.parametrize("lost", [False, True])
def test_a_cold_path_with_a_third_of_a_window_asks_once(lost: bool) -> None:
    """85 packets of a window of 255 are more than the first congestion window, and its ack lets all of them go.

    Another ask follows a lost one alone.
    """
    pair = Pair.opened(SessionSettings(max_unacked_packet=255, ack_trigger=AckTrigger(window_share=1 / 3, delay_s=1)))
    if lost:
        pair.lose = lambda _end, sent: sent.packet is not None and sent.packet.number == 60 and sent.packet.sends == 1
    for _ in range(85):
        pair.a.send_packet(Delivery.EXPRESS, bytes(100), None)
    pair.run(5 * SECOND)
    assert ack_requested(pair) == ([60, 60] if lost else [60])
    assert (len(pair.fresh("b")), pair.unacked["a"]) == (85, set())


def test_a_lost_packet_is_repaired_by_time() -> None:
    pair = Pair.opened()
    start_ns = pair.now_ns
    pair.lose = lambda _end, sent: sent.packet is not None and sent.packet.number == 1 and sent.packet.sends == 1
    pair.send("a", 2)
    pair.run(2 * SECOND)
    assert pair.packets("a")[2:] == [(start_ns + 9 * RTT_NS // 8, 1)]
    assert pair.unacked["a"] == set()


def test_a_store_ack_costs_what_waits_for_it() -> None:
    pair = Pair.opened()
    pair.a.window.highest_sent = 10**12
    pair.inject("a", BINARY.encode(StoreAckFrame.of(NumberSet(10**12))))
    assert pair.a.state is SessionState.OPEN


@pytest.mark.parametrize("overhead_bytes", [0, 36, 200])
def test_datagrams_leave_room_for_what_their_channel_adds(monkeypatch: pytest.MonkeyPatch, overhead_bytes: int) -> None:
    monkeypatch.setattr("tests.session.pair.OVERHEAD_BYTES", overhead_bytes)
    pair = Pair.opened()
    content = bytes(content_limit_bytes(BINARY, 1_200, overhead_bytes))
    for number in range(2, 129, 2):
        pair.inject("b", BINARY.encode(PacketFrame(number, Delivery.EXPRESS, True, b"")))
        pair.b.send_packet(Delivery.EXPRESS, content, None)
        pair.drain()
    sent = [transmit for _, transmit in pair.sent["b"][1:]]
    full = [transmit.packet for transmit in sent if transmit.packet is not None]
    assert len(full) >= 10
    assert {packet.size_bytes for packet in full} == {1_200 - 24}
    assert max(len(transmit.payload) for transmit in sent) <= 1_200 - overhead_bytes


def test_a_content_that_no_datagram_holds_is_the_callers_mistake() -> None:
    pair = Pair.opened()
    with pytest.raises(ValueError, match="does not fit"):
        pair.a.send_packet(Delivery.EXPRESS, bytes(0xFFFF), None)
    assert pair.a.window.unacked == 0


def test_a_session_that_nobody_has_answered_has_measured_nothing() -> None:
    shown = make_session(1, traits=MEMORY).stats()
    assert (shown.is_answered, shown.round_trip_ns, shown.probe_ns) == (False, None, None)
    assert (shown.congestion, shown.congestion_window_bytes) == ("none", None)


def test_one_looks_again_at_its_end_or_half_an_interval_later() -> None:
    """Something else may keep the session when it has passed; that need not be asked all the time."""
    assert [Idle(100, 1_000).look_again_ns(at) for at in (1_040, 1_100, 5_000)] == [1_100, 1_150, 5_050]


def test_it_is_due_an_interval_after_what_was_sent_last() -> None:
    """It is looked at again when it may be due; where it is due now, something leaves now."""
    alive = KeepAlive(100)
    alive.sent_at_ns = 1_000
    assert [alive.is_due(at) for at in (1_000, 1_099, 1_100)] == [False, False, True]
    assert [alive.look_again_ns(at) for at in (1_040, 1_100)] == [1_100, 1_200]
