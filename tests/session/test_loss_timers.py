"""What a peer owes: when it is asked again, and when its silence, or that of its disk, closes the session."""

from itertools import pairwise

import pytest

from tests.session.pair import Pair, closes, cut, reasons
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.session.acknowledgements.session_ack import PATIENCE_NS
from triack.session.congestion.pacing import NetworkShare
from triack.session.protocol.binary import BINARY
from triack.session.protocol.events import SessionClosed
from triack.session.protocol.frames import Ask, PacketFrame, PingFrame
from triack.session.protocol.settings import SessionSettings
from triack.session.protocol.states import CloseReason, SessionState
from triack.tools.sim.faults import Faults

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
