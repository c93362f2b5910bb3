"""Whole streams: lost, repeated and reordered packets, lost acks, new sessions, crashes at both ends, expiry."""

import pytest

from tests.ordering.pair import StreamPair
from triack.base.units import MS, SECOND
from triack.ordering.incoming import Outcome
from triack.ordering.order_settings import OrderSettings
from triack.tools.sim.faults import Faults

QUICK = OrderSettings(
    order_ack_idle_s=0.05,
    seq_max_ack_delay_s=1.0,
    order_ack_every=8,
    seq_resend_13_s=0.3,
    seq_resend_46_s=0.6,
    seq_resend_79_s=1.0,
    seq_resend_10_s=2.0,
)
PACKETS = 40
EVERYTHING = [b"%d" % number for number in range(1, PACKETS + 1)]


def bad(loss: float) -> Faults:
    return Faults(loss=loss, duplicate=0.1, delay_ns=5 * MS, jitter_ns=30 * MS)


def finish(pair: StreamPair) -> None:
    """Sessions come and go until every packet is freed."""
    for _ in range(400):
        if not pair.out.entries:
            return
        pair.run(SECOND)
        pair.new_session()
    raise AssertionError("packets are left")


def test_a_clear_stream_sends_each_packet_once() -> None:
    pair = StreamPair(QUICK)
    pair.append(PACKETS)
    pair.run(10 * SECOND)
    assert pair.delivered == EVERYTHING
    assert [number for _, number, _ in pair.sent] == list(range(1, PACKETS + 1))
    assert pair.outcomes == {Outcome.ACCEPTED: PACKETS}
    assert not pair.out.entries


@pytest.mark.gate
@pytest.mark.parametrize("loss", [0.1, 0.3, 0.5])
def test_exactly_once_in_order_through_a_bad_network(loss: float) -> None:
    for seed in range(50):
        pair = StreamPair(QUICK, weather=bad(loss), seed=seed)
        pair.append(PACKETS)
        finish(pair)
        assert pair.delivered == EVERYTHING


def test_a_receiver_that_dies_before_the_commit_has_acknowledged_nothing() -> None:
    """The packets are accepted, even asked about, but not on disk: they come again and are delivered once."""
    pair = StreamPair(QUICK, commit_ns=SECOND)
    pair.append(8)
    pair.run(500 * MS)
    assert pair.incoming.position == (1, 8)
    assert pair.incoming.ack.due
    pair.crash_receiver()
    assert pair.order_acks == []
    assert pair.delivered == []
    pair.run(10 * SECOND)
    assert pair.delivered == EVERYTHING[:8]
    assert not pair.out.entries


def test_each_tier_sends_again_what_has_no_order_ack() -> None:
    pair = StreamPair(QUICK, lose_order_acks=True)
    pair.append(16)
    pair.run(10 * SECOND)
    by_time: dict[int, list[int]] = {}
    for at_ns, number, _ in pair.sent:
        by_time.setdefault(at_ns, []).append(number)
    first, *resends = by_time.values()
    assert first == list(range(1, 17))
    assert len(resends) >= 10
    assert resends == [first] * len(resends)
    assert pair.delivered == EVERYTHING[:16]


@pytest.mark.gate
def test_expired_packets_are_skipped_and_the_rest_keeps_its_order() -> None:
    """Packets are given up while copies of them are under way: each comes once, in its place, or not at all."""
    for seed in range(50):
        pair = StreamPair(QUICK, weather=bad(0.3), seed=seed)
        pair.append(PACKETS)
        given_up = set()
        for _ in range(8):
            pair.run(pair.random.randint(0, 60) * MS)
            if pair.out.entries:
                entry = pair.random.choice(list(pair.out.entries.values()))
                given_up.add(entry.number)
                pair.out.remove(entry)
                pair.drain()
        finish(pair)
        delivered = [int(body) for body in pair.delivered]
        assert delivered == sorted(set(delivered))
        assert set(delivered) >= set(range(1, PACKETS)) - given_up
