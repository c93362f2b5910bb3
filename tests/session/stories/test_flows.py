"""Whole flows: transfers, bottlenecks, another dialect."""

from dataclasses import replace

import pytest

from tests.session.bottleneck import Bottleneck
from tests.session.pair import Pair, reasons
from tests.session.text_dialect import TextCodec
from triack.base.delivery import DURABLE, Delivery
from triack.base.units import MS, SECOND
from triack.session.protocol.events import PacketsStored
from triack.session.protocol.path_traits import TCP
from triack.session.protocol.settings import SessionSettings
from triack.session.protocol.states import CloseReason
from triack.tools.sim.faults import Faults

# Whole transfers through a network that loses, duplicates and reorders, in both directions at once.

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


def transfer(loss: float, seed: int) -> Pair:
    """Send packets of every class each way, until everything is acknowledged and stored."""
    pair = Pair(PATIENT, weather=bad(loss), seed=seed, store_ns=3 * MS)
    for end in ("a", "b"):
        pair.backlog[end].extend((Delivery(n % 3), b"%s%d" % (end.encode(), n)) for n in range(PACKETS))

    def is_done(end: str) -> bool:
        return not pair.backlog[end] and not pair.unacked[end] and set(stored(pair, end)) == DURABLES

    pair.run_until(lambda: is_done("a") and is_done("b"), limit_ns=100_000 * SECOND)
    return pair


def stored(pair: Pair, end: str) -> list[int]:
    told = [event for event in pair.events[end] if isinstance(event, PacketsStored)]
    return [packet.number for event in told for packet in event.packets]


def test_a_quiet_session_stays_quiet() -> None:
    """When all is acknowledged nothing more is sent, not even in hours.

    The same seed gives the same datagrams at the same times: nothing reads a clock or a die of its own.
    """
    pair, again = transfer(0.3, 7), transfer(0.3, 7)
    assert pair.now_ns == again.now_ns
    said = [[(at_ns, it.payload) for end in "ab" for at_ns, it in of.sent[end]] for of in (pair, again)]
    assert said[0] == said[1]
    pair.network.faults = Faults()
    pair.run(10 * SECOND)
    before = len(pair.sent["a"]) + len(pair.sent["b"])
    pair.run(10_000 * SECOND)
    assert len(pair.sent["a"]) + len(pair.sent["b"]) == before


def test_a_clear_network_carries_everything_once() -> None:
    pair = Pair.opened(PATIENT)
    pair.backlog["a"].extend((Delivery.EXPRESS, b"%d" % n) for n in range(400))
    pair.run_until(lambda: len(pair.fresh("b")) == 400)
    pair.run(2 * SECOND)
    assert [number for _, number in pair.packets("a")] == list(range(1, 401))
    assert pair.fresh("b") == [b"%d" % n for n in range(400)]
    assert len(pair.acks("b")) <= 2 * 400 // 8 + 1
    assert pair.unacked["a"] == set()


# Sessions over a narrow link: their throughput, and how they share it.

RATE_BPS = 10_000_000
HEADERS = 0.92
"""The share of a datagram of 1,200 bytes without the headers of IP, UDP, Triack and its channel."""
LINK = Faults(rate_bps=RATE_BPS, delay_ns=10 * MS, queue_bytes=25_000)
"""One round trip's worth fits into the queue."""


def speaking(*controllers: str) -> list[SessionSettings]:
    """Senders that their window of packets does not limit."""
    return [SessionSettings(max_unacked_packet=1_024, congestion=name) for name in controllers]


def goodput(plan: Faults, *controllers: str, warm: int = 2, seconds: int = 3, late_ns: int = 0) -> list[float]:
    """The share of each flow in all that passes, headers counted, after ``warm`` seconds to adapt."""
    link = Bottleneck(plan, *speaking(*controllers))
    for flow in link.flows:
        flow.late_ns = late_ns
    link.run(warm * SECOND)
    return [bits / (plan.rate_bps * (1 - plan.loss) * HEADERS) for bits in link.run(seconds * SECOND)]


@pytest.mark.slow
@pytest.mark.parametrize("loss", [0.01, 0.3])
def test_what_a_link_loses_by_chance_does_not_slow_bbr_down(loss: float) -> None:
    """Nine tenths of what passes, and more; NewReno is far below that from one percent on."""
    assert goodput(replace(LINK, loss=loss), "bbr")[0] > 0.9
    assert goodput(replace(LINK, loss=loss), "newreno")[0] < 0.6


@pytest.mark.slow
def test_chance_is_not_taken_for_congestion_on_a_fast_path() -> None:
    """Where a round has a hundred packets some rounds lose many more than others; four fifths are used all the same."""
    plan = Faults(rate_bps=100_000_000, delay_ns=5 * MS, queue_bytes=125_000, loss=0.3)
    assert goodput(plan, "bbr", late_ns=MS, warm=1, seconds=2)[0] > 0.8


@pytest.mark.slow
def test_a_long_path_is_used_though_an_ack_cannot_tell_all_its_gaps() -> None:
    """Four hundred packets are on their way, and every third is lost: more gaps than the ranges of an ack."""
    plan = Faults(rate_bps=100_000_000, delay_ns=20 * MS, queue_bytes=500_000, loss=0.3)
    assert goodput(plan, "bbr")[0] > 0.5


@pytest.mark.slow
@pytest.mark.parametrize(("late_ns", "least"), [(2 * MS, 0.95), (5 * MS, 0.8), (10 * MS, 0.45)])
def test_who_is_late_for_the_turn_makes_up_for_it(late_ns: int, least: float) -> None:
    """Two processes on busy machines, over a path of 10 ms with as much queue; what is longer than that is lost."""
    plan = replace(LINK, delay_ns=5 * MS, queue_bytes=12_500, loss=0.05)
    assert goodput(plan, "bbr", late_ns=late_ns)[0] > least


@pytest.mark.slow
def test_two_flows_share_a_link() -> None:
    """Within a factor of two, and fill it, behind a queue of one round trip, with losses.

    A flow that took the other's queue for a part of the path corrects that when it probes for the shortest round trip,
    which is after five seconds.
    """
    shares = goodput(replace(LINK, loss=0.05), "bbr", "bbr", warm=8, seconds=6)
    assert max(shares) < 2 * min(shares)
    assert sum(shares) > 0.9


@pytest.mark.slow
def test_bbr_and_newreno_share_a_link() -> None:
    """The same for one of each, behind a queue of four round trips."""
    shares = goodput(replace(LINK, queue_bytes=4 * LINK.queue_bytes), "bbr", "newreno", seconds=8)
    assert max(shares) < 2 * min(shares)
    assert sum(shares) > 0.9


@pytest.mark.slow
def test_bbr_keeps_a_deep_queue_nearly_empty() -> None:
    """Where ten round trips would fit; NewReno fills them."""
    trips = {}
    for name in ("bbr", "newreno"):
        link = Bottleneck(replace(LINK, queue_bytes=10 * LINK.queue_bytes), *speaking(name))
        link.run(5 * SECOND)
        trips[name] = link.flows[0].sender.rtt.smoothed_ns
    assert trips["bbr"] < 30 * MS
    assert trips["newreno"] > 100 * MS


@pytest.mark.slow
@pytest.mark.parametrize(
    ("after", "within_s"),
    [
        (replace(LINK, rate_bps=4 * RATE_BPS, queue_bytes=100_000), 2),
        (replace(LINK, rate_bps=RATE_BPS // 4, queue_bytes=6_250), 2),
        (replace(LINK, delay_ns=5 * MS // 2), 2),
        (replace(LINK, delay_ns=40 * MS, queue_bytes=100_000), 8),
        (replace(LINK, loss=0.2), 4),
    ],
    ids=["faster", "slower", "shorter", "longer", "lossy"],
)
def test_a_link_that_changes_is_full_again_soon(after: Faults, within_s: int) -> None:
    """A longer way is believed when the shortest round trip was looked for, which takes some seconds."""
    link = Bottleneck(LINK, *speaking("bbr"))
    link.run(3 * SECOND)
    link.become(after)
    link.run(within_s * SECOND)
    bits = link.run(3 * SECOND)[0]
    assert bits > 0.85 * after.rate_bps * (1 - after.loss) * HEADERS


@pytest.mark.slow
def test_a_flow_that_rests_begins_where_it_was() -> None:
    """After ten seconds of silence the link is full within a fifth of a second."""
    link = Bottleneck(LINK, *speaking("bbr"))
    link.run(3 * SECOND)
    link.flows[0].sends = False
    link.run(10 * SECOND)
    link.flows[0].sends = True
    assert link.run(SECOND // 5)[0] > 0.75 * RATE_BPS * HEADERS


SLOW = Faults(rate_bps=500_000, delay_ns=25 * MS, queue_bytes=1 << 40)
"""Whatever a stream takes waits at its sender."""


@pytest.mark.slow
@pytest.mark.parametrize("rate_bps", [500_000, 2_000_000, 20_000_000])
def test_a_stream_is_full_and_keeps_no_long_queue(rate_bps: int) -> None:
    """Of packets of 65,000 bytes, 64 of which are more than a minute's worth at 500 kbit/s; none is sent twice."""
    settings = SessionSettings(max_datagram_bytes=65_000)
    link = Bottleneck(replace(SLOW, rate_bps=rate_bps), settings, traits=TCP)
    link.run(10 * SECOND)
    assert link.run(10 * SECOND)[0] > 0.9 * rate_bps
    sender = link.flows[0].sender
    two_packets_ns = 2 * 65_000 * 8 * SECOND // rate_bps
    assert sender.rtt.smoothed_ns < max(1_100 * MS, 3 * two_packets_ns // 2)
    assert sender.window.resends == 0
    assert sender.window.in_flight_bytes >= 65_000


# Another wire protocol: its own codec, and the same machines of a session.


def test_sessions_speak_a_text_protocol() -> None:
    pair = Pair(codec=TextCodec(), udp=False, by_run=True)
    messages = [b"message %d; of many" % number for number in range(300)]
    pair.backlog["a"].extend((Delivery.TRANSACTIONAL, body) for body in messages)
    pair.run_until(lambda: len(stored(pair, "a")) == len(messages))
    pair.a.drain(pair.now_ns)
    pair.drain()
    pair.run(SECOND)
    assert pair.fresh("b") == messages
    assert (reasons(pair, "a"), reasons(pair, "b")) == ([CloseReason.DRAINED], [CloseReason.PEER_CLOSED])
    said = [sent.payload for _, sent in pair.sent["a"]]
    assert said[0].startswith(b"7 1 ")
    assert said[-1] == b"BYE drained;"
    assert all(payload.isascii() for payload in said)
