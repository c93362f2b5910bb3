"""Whole transfers through a network that loses, duplicates and reorders, in both directions at once."""

import pytest

from tests.session.pair import Pair, closes
from triack.base.delivery import DURABLE, Delivery
from triack.base.units import MS, SECOND
from triack.session.protocol.events import PacketsAcked, PacketsStored
from triack.session.protocol.settings import SessionSettings
from triack.tools.sim.faults import Faults

PATIENT = SessionSettings(
    max_unacked_packet=16,
    ack_timeout_s=3600.0,
    store_ack_timeout_s=36000.0,
    cleanup_interval_s=36000.0,
    connect_timeout_s=600.0,
)
"""Half of everything lost for minutes is no reason to close: this is about repair."""
PACKETS = 40
DURABLES = {n + 1 for n in range(PACKETS) if Delivery(n % 3) in DURABLE}


def bad(loss: float) -> Faults:
    """Loss, one datagram in ten twice, and delays from 5 to 35 ms, which reorders freely."""
    return Faults(loss=loss, duplicate=0.1, delay_ns=5 * MS, jitter_ns=30 * MS)


def transfer(loss: float, seed: int, *, udp: bool = True) -> Pair:
    """Send packets of every class each way, until everything is acknowledged and stored."""
    pair = Pair(PATIENT, weather=bad(loss), seed=seed, udp=udp, store_ns=3 * MS)
    for end in ("a", "b"):
        pair.backlog[end].extend((Delivery(n % 3), b"%s%d" % (end.encode(), n)) for n in range(PACKETS))

    def done() -> bool:
        return all(
            not pair.backlog[end] and not pair.unacked[end] and set(stored(pair, end)) == DURABLES for end in ("a", "b")
        )

    pair.run_until(done, limit_ns=100_000 * SECOND)
    return pair


def stored(pair: Pair, end: str) -> list[int]:
    """The numbers that were reported stored."""
    told = [event for event in pair.events[end] if isinstance(event, PacketsStored)]
    return [packet.number for event in told for packet in event.packets]


def assert_complete(pair: Pair) -> None:
    """Everything arrived once, is acknowledged and stored once, and the window was kept."""
    for end, other in (("a", "b"), ("b", "a")):
        assert sorted(pair.fresh(other)) == sorted(b"%s%d" % (end.encode(), n) for n in range(PACKETS))
        acked = [event for event in pair.events[end] if isinstance(event, PacketsAcked)]
        assert sorted(packet.number for event in acked for packet in event.packets) == list(range(1, PACKETS + 1))
        assert sorted(stored(pair, end)) == sorted(DURABLES)
        assert pair.ends[end].window.unacked == pair.ends[end].window.in_flight == 0
        assert pair.ends[end].window.in_flight_bytes == 0
        assert closes(pair, end) == []
    assert pair.most_unacked <= 16


@pytest.mark.slow
@pytest.mark.parametrize("loss", [0.1, 0.3, 0.5])
def test_everything_arrives_through_a_bad_network(loss: float) -> None:
    """At 10, 30 and 50 % loss each way, for twenty seeds."""
    for seed in range(20):
        assert_complete(transfer(loss, seed))


@pytest.mark.slow
def test_everything_arrives_without_congestion_control() -> None:
    """Over TCP the controller is off; repair does not depend on it."""
    for seed in range(20):
        assert_complete(transfer(0.3, seed, udp=False))


def test_a_quiet_session_stays_quiet() -> None:
    """When all is acknowledged nothing more is sent, not even in hours."""
    pair = transfer(0.3, 1)
    pair.network.faults = Faults()
    pair.run(10 * SECOND)
    before = len(pair.sent["a"]) + len(pair.sent["b"])
    pair.run(10_000 * SECOND)
    assert len(pair.sent["a"]) + len(pair.sent["b"]) == before


def test_a_clear_network_carries_everything_once() -> None:
    """No packet is sent twice, no ack is sent without need, and the order is kept."""
    pair = Pair.opened(PATIENT)
    pair.backlog["a"].extend((Delivery.EXPRESS, b"%d" % n) for n in range(400))
    pair.run_until(lambda: len(pair.fresh("b")) == 400)
    pair.run(2 * SECOND)
    assert [number for _, number in pair.packets("a")] == list(range(1, 401))
    assert pair.fresh("b") == [b"%d" % n for n in range(400)]
    assert len(pair.acks("b")) <= 2 * 400 // 8 + 1
    assert pair.unacked["a"] == set()


def test_a_run_can_be_repeated() -> None:
    """The same seed gives the same datagrams at the same times: nothing reads a clock or a die of its own."""
    first, second = transfer(0.3, 7), transfer(0.3, 7)
    assert first.now_ns == second.now_ns
    for end in "ab":
        told = [[(at_ns, sent.payload) for at_ns, sent in pair.sent[end]] for pair in (first, second)]
        assert told[0] == told[1]
