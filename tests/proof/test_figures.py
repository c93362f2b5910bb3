"""The measured promises at a size that fits the suite; ``make figures`` runs them in full."""

import pytest

from proof.figures import (
    DAY_NS,
    blackholes,
    drop_any,
    handshakes,
    heavy_losses,
    log_sizes,
    outages,
    replays,
    transfers,
)
from triack.base.units import SECOND


@pytest.mark.slow
def test_any_single_packet_may_vanish() -> None:
    """Everything arrives once and is settled; the loss costs at most about one probe interval."""
    found = drop_any(1)
    assert found["complete"] == found["runs"] == found["datagrams"] > 8
    assert found["longest_added_ms"] < 1_200


@pytest.mark.slow
def test_any_two_packets_may_vanish() -> None:
    found = drop_any(2)
    assert found["complete"] == found["runs"] > 30


@pytest.mark.slow
def test_handshakes_survive_extreme_loss() -> None:
    """30 % in bursts of three each way: half open within 0.5 s, nearly all within 5 s, all within 15 s; 50 %: 60 s."""
    found = handshakes(50, 0.3)
    assert found["open"] == 50
    assert found["p50_s"] <= 0.5
    assert found["p99_s"] <= 5
    assert found["max_s"] <= 15
    worse = handshakes(20, 0.5)
    assert worse["open"] == 20
    assert worse["max_s"] <= 60


@pytest.mark.slow
@pytest.mark.parametrize("corrupt", [False, True], ids=["loss", "corruption"])
@pytest.mark.parametrize("loss", [0.02, 0.5])
def test_transfers_survive_extreme_loss(loss: float, corrupt: bool) -> None:
    assert transfers(loss, 3_000, 100, corrupt=corrupt)["in_order_once"]


@pytest.mark.slow
def test_nine_of_ten_packets_may_vanish() -> None:
    """A hundred messages still arrive; how long that takes is a matter of chance."""
    assert transfers(0.9, 100, 100)["in_order_once"]
    found = heavy_losses(0.9, 4)
    assert 20 < found["p10_s"] <= found["p50_s"] <= found["p90_s"] < 1_000


@pytest.mark.slow
def test_the_first_message_follows_the_end_of_an_outage() -> None:
    """Within a second and three round trips, both ways and one way; of an hour, see queues/manager/test_engine.py."""
    found = outages([SECOND, 60 * SECOND])
    assert all(0 <= one["first_delivery_ms"] <= 1_060 for one in found), found


@pytest.mark.slow
def test_a_path_that_dies_again_and_again() -> None:
    """Two seconds of life in every seven are enough: something arrives in each of them, and all of it in the end."""
    found = blackholes(60)
    assert found["in_order_once"]
    assert found["answered"] == found["rounds"]
    assert found["longest_ms"] <= 1_060, found


def test_recorded_packets_change_nothing_years_later() -> None:
    found = replays([SECOND, DAY_NS, 3_650 * DAY_NS])
    assert found["duplicates"] == 0
    assert found["copies"] > 15


@pytest.mark.slow
@pytest.mark.parametrize("every_s", [1, 60])
def test_a_message_at_a_slow_rate_costs_little_log(every_s: int) -> None:
    """150 bytes at most, both nodes together: 17 records, of which most are as expected."""
    found = log_sizes(every_s * SECOND, 600)
    assert found["messages"] == 600
    assert found["bytes_per_message"] <= 150
