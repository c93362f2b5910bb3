"""A window that follows its path: when it grows, and when it shrinks."""

from dataclasses import replace

import pytest

from tests.session.bottleneck import Bottleneck
from tests.session.pair import Pair
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.session.congestion.auto_window import LEAST_PACKETS, REST_NS, AutoWindow
from triack.session.protocol.events import WindowChanged
from triack.session.protocol.settings import SessionSettings
from triack.tools.sim.faults import Faults

AUTO = SessionSettings(max_unacked_packet="auto")
LINK = Faults(rate_bps=10_000_000, delay_ns=10 * MS, queue_bytes=25_000)


def told(pair: Pair, end: str = "a") -> list[int]:
    """Every window that an end has told its owner."""
    return [event.packets for event in pair.events[end] if isinstance(event, WindowChanged)]


def test_it_is_doubled_once_for_each_round_trip_in_which_the_sender_stood_still() -> None:
    """Acks of what was sent before it was doubled say nothing of the new one."""
    auto = AutoWindow()
    for highest, packets in ((8, 32), (12, 32), (16, 32), (17, 64)):
        auto.handle_ack(auto.packets, highest, 16, MS, stands_still=True)
        assert auto.packets == packets


def test_who_does_not_stand_still_needs_no_more() -> None:
    """However many acks come."""
    auto = AutoWindow()
    for at in range(100):
        auto.handle_ack(15, 16 * at, 16 * at, at * MS, stands_still=False)
    assert auto.packets == LEAST_PACKETS


def test_it_is_halved_when_a_quarter_was_not_used_for_a_second() -> None:
    """A burst within that second keeps it, and it does not become smaller than it began."""
    auto = AutoWindow()
    for highest in (16, 32, 64):
        auto.handle_ack(highest, highest, highest, MS, stands_still=True)
    assert auto.packets == 8 * LEAST_PACKETS
    seen = []
    for second, used in ((1, 32), (2, 31), (3, 16), (4, 0), (5, 0), (6, 0), (7, 0)):
        at_ns = MS + second * REST_NS
        auto.handle_ack(used, 64, 64, at_ns - 1, stands_still=False)
        auto.handle_ack(0, 64, 64, at_ns, stands_still=False)
        seen.append(auto.packets)
    assert seen == [128, 64, 64, 32, 16, 16, 16]


@pytest.mark.parametrize(("most", "windows"), [(100, [16, 32, 64, 100]), (16, []), (5, [])])
def test_a_session_tells_each_window_before_it_uses_it(most: int, windows: list[int]) -> None:
    """Up to the largest that both have room for; one that is no larger than the first stays as it is."""
    pair = Pair.opened(AUTO, peer_settings=replace(AUTO, auto_window_max=most), udp=False)
    pair.backlog["a"].extend((Delivery.EXPRESS, b"x") for _ in range(600))
    pair.run(10 * SECOND)
    assert told(pair) == windows
    assert pair.most_unacked == most
    assert len(pair.fresh("b")) == 600


@pytest.mark.parametrize("auto_at", ["a", "b"])
def test_a_number_at_either_end_bounds_it(auto_at: str) -> None:
    """MSMQ's window is kept with whom it is agreed on, and what it makes due as well."""
    fixed = SessionSettings(max_unacked_packet=24)
    settings, peer = (AUTO, fixed) if auto_at == "a" else (fixed, AUTO)
    pair = Pair.opened(settings, peer_settings=peer, udp=False)
    for end in "ab":
        pair.backlog[end].extend((Delivery.EXPRESS, b"x") for _ in range(200))
    pair.run(10 * SECOND)
    assert {end: told(pair, end) for end in "ab"} == {"a": [], "b": [], auto_at: [16, 24]}
    assert pair.most_unacked == 24
    assert {end.ack_sender.terms.count for end in pair.ends.values()} == {12}
    assert len(pair.fresh("a")) == len(pair.fresh("b")) == 200


def test_one_that_shrinks_is_announced_when_so_few_are_left() -> None:
    """Packets handed over before may still leave."""
    pair = Pair.opened(AUTO, udp=False)
    pair.backlog["a"].extend((Delivery.EXPRESS, b"x") for _ in range(1_000))
    pair.run(3 * SECOND)
    grown = max(told(pair))
    for _ in range(30):
        pair.send("a", 2)
        pair.run(SECOND)
    assert grown >= 256
    assert told(pair)[-4:] == [128, 64, 32, 16]


@pytest.mark.slow
@pytest.mark.parametrize("congestion", ["newreno", "bbr"])
@pytest.mark.parametrize("rate_bps", [1_000_000, 20_000_000])
def test_it_is_as_large_as_the_path_wants(congestion: str, rate_bps: int) -> None:
    """The link is as full as with a window of thousands, and the window is a few times the packets in flight."""
    plan = replace(LINK, rate_bps=rate_bps, queue_bytes=max(15_000, rate_bps // 400))
    goodput, windows = {}, {}
    for window in ("auto", 4_096):
        link = Bottleneck(plan, SessionSettings(max_unacked_packet=window, congestion=congestion))
        link.run(2 * SECOND)
        goodput[window] = link.run(2 * SECOND)[0]
        windows[window] = link.flows[0].sender.window.limit
    carried = (rate_bps * 2 * LINK.delay_ns // SECOND // 8 + plan.queue_bytes) // 1_200
    assert goodput["auto"] > 0.97 * goodput[4_096]
    assert windows["auto"] <= max(8 * carried, LEAST_PACKETS)


@pytest.mark.slow
def test_it_lets_go_when_the_path_carries_less() -> None:
    """A fiftieth of the rate: what waits in the session is a fraction of what it was."""
    fast = replace(LINK, rate_bps=50_000_000, queue_bytes=125_000)
    link = Bottleneck(fast, SessionSettings(max_unacked_packet="auto", congestion="bbr"))
    link.run(3 * SECOND)
    before = link.flows[0].sender.window.limit
    link.become(replace(fast, rate_bps=1_000_000, queue_bytes=10_000))
    link.run(20 * SECOND)
    assert link.flows[0].sender.window.limit <= before // 4
