"""What leaves in a session: datagrams, packets, timers of losses."""

import pytest

from tests.session.pair import Pair, closes, cut, make_hello, make_session, run_of, transmit_of, transmits_of
from tests.sure import sure
from triack.base.ack_trigger import AckTrigger
from triack.base.delivery import DURABLE, Delivery
from triack.base.units import MS, SECOND
from triack.session.acknowledgements.session_ack import PATIENCE_NS
from triack.session.protocol.binary import BINARY
from triack.session.protocol.events import PacketsAcked, PacketsStored, SessionClosed, Transmit
from triack.session.protocol.frames import AckFrame, Ask, CloseFrame, PacketFrame, PieceFrame, PingFrame, RoundTripFrame
from triack.session.protocol.opening import CONNECT_RESEND_NS
from triack.session.protocol.settings import SessionSettings
from triack.session.protocol.states import CloseReason, SessionState
from triack.tools.sim.faults import Faults


def test_what_may_wait_for_the_store_is_not_probed_before_it_has() -> None:
    """The peer delays its session ack for that time."""
    waits = {}
    for ask in (Ask.AT_ONCE, Ask.WITH_STORE, Ask.NO):
        pair = Pair.opened(SessionSettings(max_unacked_packet=8), udp=False)
        pair.confirm()
        pair.a.send_packets(Delivery.TRANSACTIONAL, [b"x"], [None], [ask])
        (frame,) = BINARY.decode(run_of(pair.a, pair.now_ns).payloads[0])
        assert isinstance(frame, PacketFrame)
        assert frame.ask == ask
        waits[ask] = sure(pair.a.next_deadline()) - pair.now_ns
    assert waits[Ask.AT_ONCE] + PATIENCE_NS == waits[Ask.WITH_STORE] < waits[Ask.NO]


@pytest.mark.parametrize(
    ("rtt_ms", "timeout_ms"),
    [(20, 2_000), (400, 8 * 1_200 + 500), (8_000, 120_000)],
    ids=["at least 2 s", "8 probe times and the peer's delay", "at most 120 s"],
)
def test_the_ack_timeout_adapts_to_the_round_trip(rtt_ms: int, timeout_ms: int) -> None:
    """First sample R: probe time R + 4 R/2 = 3 R. Nothing but silence follows, and it closes to the nanosecond."""
    pair = Pair(weather=Faults(delay_ns=rtt_ms * MS // 2))
    pair.run(3 * rtt_ms * MS // 2)
    pair.confirm()
    pair.run(3 * rtt_ms * MS)
    assert pair.a.state is SessionState.OPEN
    start_ns = pair.now_ns
    cut(pair)
    pair.send("a", 1)
    pair.run_until(lambda: bool(closes(pair)))
    assert pair.now_ns - start_ns == timeout_ms * MS
    assert closes(pair) == [SessionClosed(CloseReason.ACK_TIMEOUT, 1)]


def test_progress_on_the_disk_starts_its_timeout_again() -> None:
    """A slow disk is not a dead one. With a fixed timeout of 3 s, a commit every 2 s keeps the session."""
    pair = Pair.opened(SessionSettings(store_ack_timeout_s=3.0), store_ns=None)
    pair.send("a", 4, Delivery.RECOVERABLE)
    for number in (1, 2, 3):
        pair.run(2 * SECOND)
        pair.b.handle_stored([number], pair.now_ns)
        pair.drain()
    pair.run(10 * MS)
    start_ns = pair.now_ns
    pair.run_until(lambda: bool(closes(pair)))
    assert pair.now_ns - start_ns == 3 * SECOND


def test_a_packet_that_fits_stays_behind_one_that_goes_in_pieces() -> None:
    pair = Pair.opened()
    for size in (10, 5_000, 20, 30):
        pair.a.send_packet(Delivery.EXPRESS, bytes(size), None)
    numbers = [[sent.number for sent in run_of(pair.a, pair.now_ns).packets] for _ in range(3)]
    assert pair.a.poll_transmit(pair.now_ns) is None
    assert numbers == [[1], [2], [3, 4]]


def test_pieces_of_what_is_here_are_answered_with_its_acks() -> None:
    """They came again because an ack was lost."""
    pair = Pair.opened()
    pair.a.send_packet(Delivery.EXPRESS, bytes(5_000), None)
    payloads = run_of(pair.a, pair.now_ns).payloads
    for payload in payloads:
        pair.inject("b", payload)
    while pair.b.poll_transmit(pair.now_ns) is not None:
        pass
    pair.inject("b", payloads[0])
    assert sure(transmit_of(pair.b, pair.now_ns).ack).cumulative == 1


def test_a_goodbye_says_what_came() -> None:
    pair = Pair.opened(udp=False)
    pair.run(SECOND)
    pair.a.send_packet(Delivery.EXPRESS, b"x", None)
    pair.inject("b", transmit_of(pair.a, pair.now_ns).payload)
    pair.b.close(CloseReason.LOCAL_STOP)
    goodbye = transmit_of(pair.b, pair.now_ns)
    assert [type(frame) for frame in BINARY.decode(goodbye.payload)] == [AckFrame, CloseFrame]


def test_what_an_initiator_has_measured_stands_in_every_datagram_until_it_is_answered() -> None:
    """Whichever arrives first opens the session with it; packets that fill a datagram, and probes, wait for that."""
    settings = SessionSettings(store_ack_trigger=AckTrigger(delay_rtts=8), max_datagram_bytes=9_000)
    a, now_ns = make_session(1, settings), 600 * MS
    assert a.poll_transmit(0) is not None
    a.handle_hello(make_hello(2, settings), now_ns)
    a.send_packets(Delivery.EXPRESS, [bytes(1_100)] * 3 + [bytes(1_300)], [None] * 4, [0] * 4)
    sent = [BINARY.decode(transmit.payload) for transmit in transmits_of(a, now_ns)]
    assert [any(isinstance(frame, PacketFrame) for frame in frames) for frames in sent] == [True] * 3
    assert [frames[0] for frames in sent] == [RoundTripFrame(600 * MS)] * 3
    a.handle_datagram(BINARY.encode(PingFrame()), 1, now_ns)
    run = run_of(a, now_ns)
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
    (frames,) = [BINARY.decode(transmit.payload) for transmit in transmits_of(a, now_ns)]
    asks = [frame.ask for frame in frames if isinstance(frame, PacketFrame)]
    assert (asks, any(isinstance(frame, PingFrame) for frame in frames)) == ([Ask.AT_ONCE] * before, not before)
    if before:
        a.handle_timer(now_ns + CONNECT_RESEND_NS)
        again = transmit_of(a, now_ns + CONNECT_RESEND_NS)
        assert PingFrame in map(type, BINARY.decode(again.payload))


PACKETS = 150


def transfer(settings: SessionSettings, *, loss: float, seed: int, udp: bool, by_run: bool) -> Pair:
    """Packets of two classes, some of which ask, from ``a`` to ``b`` until all are acknowledged and stored."""
    weather = Faults(loss=loss, delay_ns=5 * MS, jitter_ns=MS)
    pair = Pair(settings, weather=weather, seed=seed, udp=udp, store_ns=3 * MS, by_run=by_run)
    pair.backlog["b"].extend((Delivery.EXPRESS, b"back") for _ in range(10))
    classes = [Delivery.TRANSACTIONAL if number // 50 % 2 else Delivery.EXPRESS for number in range(PACKETS)]
    pair.backlog["a"].extend((delivery, bytes(900 + number % 3 * 40)) for number, delivery in enumerate(classes))
    durable = sum(delivery in DURABLE for delivery in classes)

    def told(kind: type[PacketsAcked | PacketsStored]) -> int:
        return sum(len(event.packets) for event in pair.events["a"] if isinstance(event, kind))

    pair.run_until(lambda: told(PacketsAcked) == PACKETS and told(PacketsStored) == durable, limit_ns=600 * SECOND)
    return pair


@pytest.mark.gate
@pytest.mark.parametrize("loss", [0.0, 0.1])
@pytest.mark.parametrize(("udp", "congestion"), [(False, "newreno"), (True, "newreno"), (True, "bbr")])
def test_by_the_run_the_same_leaves_as_one_by_one(udp: bool, congestion: str, loss: float) -> None:
    settings = SessionSettings(max_unacked_packet=64, congestion=congestion)
    for seed in range(2):
        pairs = [transfer(settings, loss=loss, seed=seed, udp=udp, by_run=by_run) for by_run in (False, True)]
        single, by_run = [
            [
                (end, at_ns, it.counter, it.payload, it.packet and it.packet.number)
                for end in "ab"
                for at_ns, it in pair.sent[end]
            ]
            for pair in pairs
        ]
        assert by_run == single
        assert (pairs[0].longest_run, pairs[1].longest_run > 1) == (0, True)


def test_an_ack_that_is_due_goes_before_a_run() -> None:
    pair = Pair.opened(SessionSettings(max_unacked_packet=8), udp=False)
    pair.confirm()
    pair.b.send_packets(Delivery.EXPRESS, [b"x"] * 3, [None] * 3, [False] * 3)
    pair.b.ack_sender.session_ack.debt.handle_request()
    first = pair.b.poll_transmit(pair.now_ns)
    assert isinstance(first, Transmit)
    assert (first.ack is None, first.packet is None) == (False, False)
    run = run_of(pair.b, pair.now_ns)
    assert ([sent.number for sent in run.packets], run.counter) == ([2, 3], first.counter + 1)
