"""Which frames share a datagram, and which leave alone."""

import pytest

from tests.session.pair import OVERHEAD_BYTES, Pair, make_hello, make_session
from triack.base.ack_trigger import AckTrigger
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.session.protocol.binary import BINARY
from triack.session.protocol.frames import (
    AckFrame,
    Ask,
    CloseFrame,
    PacketFrame,
    PieceFrame,
    PingFrame,
    ProbedFrame,
    ProbeFrame,
    RoundTripFrame,
)
from triack.session.protocol.opening import CONNECT_RESEND_NS
from triack.session.protocol.settings import SessionSettings
from triack.session.protocol.states import CloseReason


def test_an_answer_to_a_probe_goes_along_with_what_leaves() -> None:
    """With an ack and a packet, which comes last."""
    pair = Pair.opened(udp=False)
    pair.b.send_packet(Delivery.EXPRESS, b"asks", None, ack_requested=True)
    asking = pair.b.poll_transmit(pair.now_ns)
    assert asking is not None
    pair.inject("a", asking.payload)
    pair.inject("a", BINARY.encode(ProbeFrame(9, 500)))
    pair.a.send_packet(Delivery.EXPRESS, b"x", None)
    transmit = pair.a.poll_transmit(pair.now_ns)
    assert transmit is not None
    assert [type(frame) for frame in BINARY.decode(transmit.payload)] == [AckFrame, ProbedFrame, PacketFrame]


def test_an_answer_leaves_alone_when_there_is_nothing_else() -> None:
    pair = Pair.opened(udp=False)
    pair.inject("b", BINARY.encode(ProbeFrame(9, 500)))
    transmit = pair.b.poll_transmit(pair.now_ns)
    assert transmit is not None
    assert BINARY.decode(transmit.payload) == [ProbedFrame(9)]
    assert pair.b.poll_transmit(pair.now_ns) is None


def test_a_probe_leaves_before_what_waits_and_alone() -> None:
    """Its datagram has just the size that it is to prove."""
    pair = Pair.opened(SessionSettings(max_datagram_bytes=9_000))
    for _ in range(2):
        pair.a.send_packet(Delivery.EXPRESS, bytes(1_000), None)
        assert pair.a.poll_transmit(pair.now_ns) is not None
    pair.a.ping()
    probe, ping = pair.a.poll_transmit(pair.now_ns), pair.a.poll_transmit(pair.now_ns)
    assert probe is not None
    assert ping is not None
    assert len(probe.payload) == 1_200 - OVERHEAD_BYTES
    assert [type(frame) for frame in BINARY.decode(probe.payload)] == [ProbeFrame]
    assert [type(frame) for frame in BINARY.decode(ping.payload)] == [PingFrame]


def test_pieces_have_a_counter_each_and_an_echo_of_any_is_a_sample() -> None:
    """They leave together; the packet is recorded once, and the datagram behind them has the next counter."""
    pair = Pair.opened(rtt_ns=20 * MS)
    before = pair.a.take_counter()[1]
    pair.a.send_packet(Delivery.EXPRESS, bytes(5_000), None, ack_requested=True)
    run = pair.a.poll_run(pair.now_ns)
    assert run is not None
    assert run.counter == before + 1
    assert len(run.packets) == 1
    frames = [frame for payload in run.payloads for frame in BINARY.decode(payload)]
    assert [type(frame) for frame in frames] == [PieceFrame] * 5
    assert pair.a.take_counter()[1] == before + 6
    assert pair.a.poll_run(pair.now_ns) is None
    for payload in reversed(run.payloads):
        pair.b.handle_datagram(payload, run.counter + 2, pair.now_ns)
    pair.world.run(3 * MS)
    ack = pair.b.poll_transmit(pair.now_ns)
    assert ack is not None
    pair.a.handle_datagram(ack.payload, 1_000, pair.now_ns)
    assert pair.a.rtt.latest_ns == 3 * MS or pair.a.rtt.latest_ns == pair.a.rtt.min_ns
    assert pair.a.window.unacked == 0


def test_a_packet_that_fits_stays_behind_one_that_goes_in_pieces() -> None:
    """Runs end before it, and go on behind it."""
    pair = Pair.opened()
    for size in (10, 5_000, 20, 30):
        pair.a.send_packet(Delivery.EXPRESS, bytes(size), None)
    numbers = []
    while (run := pair.a.poll_run(pair.now_ns)) is not None:
        numbers.append([sent.number for sent in run.packets])
    assert numbers == [[1], [2], [3, 4]]


def test_pieces_of_what_is_here_are_answered_with_its_acks() -> None:
    """They came again because an ack was lost."""
    pair = Pair.opened()
    pair.a.send_packet(Delivery.EXPRESS, bytes(5_000), None)
    run = pair.a.poll_run(pair.now_ns)
    assert run is not None
    for payload in run.payloads:
        pair.inject("b", payload)
    while pair.b.poll_transmit(pair.now_ns) is not None:
        pass
    pair.inject("b", run.payloads[0])
    ack = pair.b.poll_transmit(pair.now_ns)
    assert ack is not None
    assert ack.ack is not None
    assert ack.ack.cumulative == 1


def test_a_goodbye_says_what_came() -> None:
    pair = Pair.opened(udp=False)
    pair.run(SECOND)
    pair.a.send_packet(Delivery.EXPRESS, b"x", None)
    packet = pair.a.poll_transmit(pair.now_ns)
    assert packet is not None
    pair.inject("b", packet.payload)
    pair.b.close(CloseReason.LOCAL_STOP)
    goodbye = pair.b.poll_transmit(pair.now_ns)
    assert goodbye is not None
    assert [type(frame) for frame in BINARY.decode(goodbye.payload)] == [AckFrame, CloseFrame]


def test_what_an_initiator_has_measured_stands_in_every_datagram_until_it_is_answered() -> None:
    """Whichever arrives first opens the session with it; packets that fill a datagram, and probes, wait for that."""
    settings = SessionSettings(store_ack_trigger=AckTrigger(delay_rtts=8), max_datagram_bytes=9_000)
    a, now_ns = make_session(1, settings), 600 * MS
    assert a.poll_transmit(0) is not None
    a.handle_hello(make_hello(2, settings), now_ns)
    a.send_packets(Delivery.EXPRESS, [bytes(1_100)] * 3 + [bytes(1_300)], [None] * 4, [0] * 4)
    assert a.poll_run(now_ns) is None
    sent = [BINARY.decode(transmit.payload) for transmit in iter(lambda: a.poll_transmit(now_ns), None)]
    assert [any(isinstance(frame, PacketFrame) for frame in frames) for frames in sent] == [True] * 3
    assert [frames[0] for frames in sent] == [RoundTripFrame(600 * MS)] * 3
    a.handle_datagram(BINARY.encode(PingFrame()), 1, now_ns)
    run = a.poll_run(now_ns)
    assert run is not None
    assert {type(frame) for payload in run.payloads for frame in BINARY.decode(payload)} == {PieceFrame}


@pytest.mark.parametrize("before", [0, 1])
def test_a_packet_that_waits_until_the_session_is_confirmed_asks_for_that(before: int) -> None:
    """The acceptor may take its time for an ack of what has come, as long as a session lasts that is idle."""
    settings = SessionSettings(store_ack_trigger=AckTrigger(delay_rtts=8), max_datagram_bytes=9_000)
    a, now_ns = make_session(1, settings), 600 * MS
    assert a.poll_transmit(0) is not None
    a.handle_hello(make_hello(2, settings), now_ns)
    if not before:
        a.ack_sender.store_ack.handle_request()
    a.send_packets(Delivery.EXPRESS, [bytes(100)] * before + [bytes(1_300)], [None] * (before + 1), [0] * (before + 1))
    (frames,) = [BINARY.decode(transmit.payload) for transmit in iter(lambda: a.poll_transmit(now_ns), None)]
    asks = [frame.ask for frame in frames if isinstance(frame, PacketFrame)]
    assert (asks, any(isinstance(frame, PingFrame) for frame in frames)) == ([Ask.AT_ONCE] * before, not before)
    if before:
        a.handle_timer(now_ns + CONNECT_RESEND_NS)
        again = a.poll_transmit(now_ns + CONNECT_RESEND_NS)
        assert again is not None
        assert PingFrame in map(type, BINARY.decode(again.payload))
