"""What leaves in a session: datagrams, packets, timers of losses."""

from itertools import pairwise

import pytest

from tests.session.pair import OVERHEAD_BYTES, Pair, closes, cut, make_hello, make_session, reasons
from triack.base.ack_trigger import AckTrigger
from triack.base.delivery import DURABLE, Delivery
from triack.base.units import MS, SECOND
from triack.session.acknowledgements.ack_sender import AckSender
from triack.session.acknowledgements.probing import Probing
from triack.session.acknowledgements.session_ack import PATIENCE_NS
from triack.session.congestion.pacing import NetworkShare
from triack.session.congestion.rtt import RoundTrip
from triack.session.congestion.send_window import SendWindow
from triack.session.departing import Departing
from triack.session.path.path_size import PathSize
from triack.session.protocol.binary import BINARY
from triack.session.protocol.events import PacketsAcked, PacketsStored, SessionClosed
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
from triack.session.protocol.path_traits import UDP
from triack.session.protocol.policy import Policy
from triack.session.protocol.settings import SessionSettings
from triack.session.protocol.states import CloseReason, SessionState
from triack.session.protocol.timers import Timers
from triack.tools.sim.faults import Faults

# What a peer owes: when it is asked again, and when its silence, or that of its disk, closes the session.

# ---- when it is asked again


def test_a_packet_that_asked_is_probed_without_the_peers_delay() -> None:
    """Its ack is due at once, so its absence shows sooner."""
    pair = Pair.opened()
    start_ns = pair.now_ns
    cut(pair)
    pair.send("a", 1, ack_requested=True)
    pair.run(start_ns + 3 * SECOND)
    probes_ms = [(at_ns - start_ns) // MS for at_ns, _ in pair.packets("a")[1:]]
    assert probes_ms[:3] == [60, 60 + 120, 60 + 120 + 240]
    assert len(probes_ms) >= 8, "several probes fit into the silence that closes"
    assert all(later - earlier <= 250 for earlier, later in pairwise(probes_ms))


def test_what_may_wait_for_the_store_is_not_probed_before_it_has() -> None:
    """The peer delays its session ack for that time."""
    waits = {}
    for ask in (Ask.AT_ONCE, Ask.WITH_STORE, Ask.NO):
        pair = Pair.opened(SessionSettings(max_unacked_packet=8), udp=False)
        pair.confirm()
        pair.a.send_packets(Delivery.TRANSACTIONAL, [b"x"], [None], [ask])
        run = pair.a.poll_run(pair.now_ns)
        assert run is not None
        (frame,) = BINARY.decode(run.payloads[0])
        assert isinstance(frame, PacketFrame)
        assert frame.ask == ask
        deadline_ns = pair.a.next_deadline()
        assert deadline_ns is not None
        waits[ask] = deadline_ns - pair.now_ns
    assert waits[Ask.WITH_STORE] == waits[Ask.AT_ONCE] + PATIENCE_NS
    assert waits[Ask.NO] > waits[Ask.WITH_STORE]


# ---- when it is given up


def send_into_silence(pair: Pair) -> int:
    """Send one packet that never arrives; returns when the session closed."""
    cut(pair)
    pair.send("a", 1)
    pair.run_until(lambda: bool(closes(pair)))
    return pair.now_ns


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
    assert send_into_silence(pair) - start_ns == timeout_ms * MS
    assert closes(pair) == [SessionClosed(CloseReason.ACK_TIMEOUT, 1)]


def test_the_ack_timeout_may_be_fixed() -> None:
    """MSMQ's AckTimeout: setting it turns the computation off."""
    pair = Pair.opened(SessionSettings(ack_timeout_s=7.0))
    start_ns = pair.now_ns
    assert send_into_silence(pair) - start_ns == 7 * SECOND


def test_silence_alone_closes_nothing() -> None:
    """With nothing unacknowledged there is nothing to wait for."""
    pair = Pair.opened()
    pair.run(SECOND)
    cut(pair)
    pair.run(250 * SECOND)
    assert pair.a.state is pair.b.state is SessionState.OPEN


def test_any_datagram_keeps_the_session_alive() -> None:
    """Although the packet stays unacknowledged: the way is there, so repair goes on. Then silence closes it."""
    pair = Pair.opened()
    cut(pair)
    pair.send("a", 1)
    for _ in range(7):
        pair.run(1_900 * MS)
        pair.inject("a", BINARY.encode(PingFrame()))
        pair.drain()
    start_ns = pair.now_ns
    assert pair.a.state is SessionState.OPEN
    pair.run_until(lambda: bool(closes(pair)))
    assert pair.now_ns - start_ns == 2 * SECOND


def test_the_ack_timeout_starts_with_the_first_unacknowledged_packet() -> None:
    """Sending more into the silence does not prolong it."""
    pair = Pair.opened()
    cut(pair)
    start_ns = pair.now_ns
    for _ in range(19):
        pair.send("a", 1)
        pair.run(100 * MS)
    pair.run_until(lambda: bool(closes(pair)))
    assert pair.now_ns - start_ns == 2 * SECOND
    assert closes(pair) == [SessionClosed(CloseReason.ACK_TIMEOUT, 19)]


@pytest.mark.plain
def test_a_packet_that_has_not_left_is_no_silence_of_the_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that left is acknowledged, and the pacer lets the next one go after a minute."""
    pair = Pair.opened()
    pair.confirm()
    later_ns = pair.now_ns + 60 * SECOND
    held = [pair.now_ns]
    monkeypatch.setattr(NetworkShare, "ready_at_ns", lambda _share, _rtt, _size, _now_ns: held[-1])
    pair.send("a", 1, ack_requested=True)
    held.append(later_ns)
    pair.send("a", 1, ack_requested=True)
    pair.run(61 * SECOND)
    assert pair.packets("a")[-1] == (later_ns, 2)
    assert (reasons(pair), pair.a.window.unacked) == ([], 0)


def test_earlier_silence_does_not_count() -> None:
    """Nothing was owed in the pause: the wait begins with the packet that is sent after it."""
    pair = Pair.opened()
    pair.send("a", 1, ack_requested=True)
    pair.run(1_900 * MS)
    start_ns = pair.now_ns
    assert send_into_silence(pair) - start_ns == 2 * SECOND


def test_a_disk_that_never_answers_closes_by_its_own_timeout() -> None:
    """Arrival was acknowledged and the peer is alive, but nothing is stored: 10 s, although pings are answered."""
    pair = Pair.opened(store_ns=None)
    start_ns = pair.now_ns
    pair.send("a", 1, Delivery.RECOVERABLE)
    pair.run_until(lambda: bool(closes(pair)))
    assert pair.now_ns - start_ns == 10 * SECOND
    assert closes(pair) == [SessionClosed(CloseReason.STORE_ACK_TIMEOUT, 0)]


def test_what_leaves_later_puts_the_disks_timeout_off_no_further() -> None:
    """A sender that always has more would wait without end."""
    pair = Pair.opened(store_ns=None)
    for _ in range(10):
        assert reasons(pair) == []
        pair.send("a", 1, Delivery.RECOVERABLE)
        pair.run(1 * SECOND)
    assert reasons(pair) == [CloseReason.STORE_ACK_TIMEOUT]


def test_the_store_ack_timeout_adapts_to_the_disk() -> None:
    """A disk of 1.98 s: sample 2 s, 8 x (2 + 4 x 1) = 48 s from the send of the first that waits."""
    pair = Pair.opened(store_ns=1_980 * MS)
    pair.send("a", 1, Delivery.RECOVERABLE, ack_requested=True)
    pair.run(5 * SECOND)
    pair.store_ns = None
    start_ns = pair.now_ns
    pair.send("a", 1, Delivery.RECOVERABLE, ack_requested=True)
    pair.run_until(lambda: bool(closes(pair)))
    assert pair.now_ns - start_ns == 48 * SECOND


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


# Which frames share a datagram, and which leave alone.


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


# Which packets leave now: in a run the same as one by one.

PACKETS = 150


def transfer(settings: SessionSettings, *, loss: float, seed: int, udp: bool, by_run: bool) -> Pair:
    """Packets of two classes, some of which ask, from ``a`` to ``b`` until all are acknowledged and stored."""
    weather = Faults(loss=loss, delay_ns=5 * MS, jitter_ns=MS)
    pair = Pair(settings, weather=weather, seed=seed, udp=udp, store_ns=3 * MS, by_run=by_run)
    pair.backlog["b"].extend((Delivery.EXPRESS, b"back") for _ in range(10))
    durable = 0
    for number in range(PACKETS):
        delivery = Delivery.TRANSACTIONAL if number // 50 % 2 else Delivery.EXPRESS
        durable += delivery in DURABLE
        pair.backlog["a"].append((delivery, bytes(900 + number % 3 * 40)))

    def told(kind: type[PacketsAcked | PacketsStored]) -> int:
        return sum(len(event.packets) for event in pair.events["a"] if isinstance(event, kind))

    pair.run_until(lambda: told(PacketsAcked) == PACKETS and told(PacketsStored) == durable, limit_ns=600 * SECOND)
    return pair


@pytest.mark.gate
@pytest.mark.parametrize("loss", [0.0, 0.1])
@pytest.mark.parametrize(("udp", "congestion"), [(False, "newreno"), (True, "newreno"), (True, "bbr")])
def test_by_the_run_the_same_leaves_as_one_by_one(udp: bool, congestion: str, loss: float) -> None:
    """The same bytes at the same moments: probes, resends, acks that ride, and requests for acks."""
    settings = SessionSettings(max_unacked_packet=64, congestion=congestion)
    for seed in range(2):
        single, by_run = (transfer(settings, loss=loss, seed=seed, udp=udp, by_run=by_run) for by_run in (False, True))
        for end in ("a", "b"):
            assert [
                (at_ns, sent.counter, sent.payload, sent.packet and sent.packet.number)
                for at_ns, sent in by_run.sent[end]
            ] == [
                (at_ns, sent.counter, sent.payload, sent.packet and sent.packet.number)
                for at_ns, sent in single.sent[end]
            ]
        assert (single.longest_run, by_run.longest_run > 1) == (0, True)


def test_probes_take_none_of_the_credit_of_what_comes_after() -> None:
    """The pacer does not hold them back; a slow flow would need half a minute to earn what twenty of them take."""
    settings, rtt, timers = SessionSettings(max_datagram_bytes=1_200, congestion="newreno"), RoundTrip(), Timers()
    rtt.update(10 * SECOND)
    share = NetworkShare(settings, 1_200, 1, 0)
    window, probing = SendWindow(8, rtt, share.window), Probing()
    ack_sender = AckSender(8, Policy.of(settings), 16)
    path_size = PathSize(
        UDP,
        1_200,
        overhead_bytes=0,
        packet_header_bytes=20,
        share=share,
        window=window,
        rtt=rtt,
        timers=timers,
        tell=lambda _event: None,
    )
    departing = Departing(window, share, probing, ack_sender, rtt, timers, path_size)
    first, second = window.push(Delivery.EXPRESS, [bytes(1_100)] * 2, [None] * 2, [False] * 2, 0)
    departing.handle_sent(first, 1, 0)
    for counter in range(2, 22):
        probing.handle_timer([first], awaits=False)
        assert departing.next_packet(counter * MS) is first
        departing.handle_sent(first, counter, counter * MS)
    assert departing.next_packet(30 * MS) is second


def numbers_that_ask(payloads: list[bytes]) -> list[int]:
    frames = [frame for payload in payloads for frame in BINARY.decode(payload)]
    return [frame.number for frame in frames if isinstance(frame, PacketFrame) and frame.ask]


def test_a_closed_window_is_asked_for_by_the_last_of_a_run() -> None:
    """The window is spent with it, and the peer would wait for as many more; of the others only who wants to asks."""
    pair = Pair.opened(SessionSettings(max_unacked_packet=8, congestion="newreno"), udp=False)
    pair.confirm()
    pair.a.send_packets(Delivery.EXPRESS, [b"x"] * 3, [None] * 3, [False, True, False])
    pair.a.send_packets(Delivery.EXPRESS, [b"x"] * 5, [None] * 5, [False] * 5)
    run = pair.a.poll_run(pair.now_ns)
    assert run is not None
    assert [sent.number for sent in run.packets] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert numbers_that_ask(run.payloads) == [2]  # half a window is acknowledged without being asked
    assert pair.a.poll_run(pair.now_ns) is None


def test_an_ack_that_is_due_goes_before_a_run() -> None:
    """It takes a packet along; the others follow by the run."""
    pair = Pair.opened(SessionSettings(max_unacked_packet=8), udp=False)
    pair.confirm()
    pair.b.send_packets(Delivery.EXPRESS, [b"x"] * 3, [None] * 3, [False] * 3)
    pair.b.ack_sender.session_ack.debt.handle_request()
    assert pair.b.poll_run(pair.now_ns) is None
    first = pair.b.poll_transmit(pair.now_ns)
    assert first is not None
    assert first.ack is not None
    assert first.packet is not None
    run = pair.b.poll_run(pair.now_ns)
    assert run is not None
    assert [sent.number for sent in run.packets] == [2, 3]
    assert run.counter == first.counter + 1


def test_nothing_leaves_by_the_run_before_a_session_is_open() -> None:
    """Hellos and goodbyes are made one by one."""
    assert make_session(1).poll_run(0) is None


def test_a_window_that_is_closed_asks_at_once() -> None:
    """Although its only packet could wait for the store."""
    stuck = SessionSettings(max_unacked_packet=1, ack_trigger=AckTrigger(window_share=None))
    pair = Pair.opened(stuck, udp=False)
    pair.confirm()
    pair.a.send_packets(Delivery.TRANSACTIONAL, [b"x"], [None], [Ask.WITH_STORE])
    run = pair.a.poll_run(pair.now_ns)
    assert run is not None
    (frame,) = BINARY.decode(run.payloads[0])
    assert isinstance(frame, PacketFrame)
    assert frame.ask == Ask.AT_ONCE
