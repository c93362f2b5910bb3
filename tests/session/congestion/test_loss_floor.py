"""Which losses are congestion."""

from random import Random

import pytest

from triack.session.congestion.loss_floor import LossFloor


def play(floor: LossFloor, packets: int, loss: float, random: Random, *, spared: bool) -> None:
    """A number of packets are acknowledged or lost."""
    for _ in range(packets):
        if random.random() < loss:
            floor.handle_lost(spared=spared)
        else:
            floor.handle_acked(1, spared=spared)


def learned(loss: float, seed: int = 1) -> LossFloor:
    """A floor that has seen 2,000 packets of which that share was lost with room left."""
    floor, random = LossFloor(), Random(seed)
    for _ in range(20):
        play(floor, 100, loss, random, spared=True)
        floor.end_round(2)
    return floor


@pytest.mark.parametrize("loss", [0.0, 0.01, 0.1, 0.3])
def test_what_is_lost_with_room_left_is_the_floor(loss: float) -> None:
    """To a few percent, and then rounds like those are no congestion."""
    floor, random = learned(loss), Random(2)
    assert abs(floor.per_mille - 1_000 * loss) < 50
    flagged = 0
    for _ in range(500):
        play(floor, 100, loss, random, spared=True)
        flagged += floor.end_round(2)
    assert flagged <= 5


@pytest.mark.parametrize("loss", [0.0, 0.01, 0.1, 0.3])
def test_what_is_lost_on_top_is_congestion(loss: float) -> None:
    """A quarter more of the packets, as of a path that is sent a quarter too much."""
    floor, random = learned(loss), Random(3)
    flagged = 0
    for _ in range(100):
        play(floor, 100, loss + 0.25, random, spared=False)
        flagged += floor.end_round(2)
    assert flagged >= 90


def test_losses_of_a_sender_that_leaves_no_room_do_not_raise_the_floor() -> None:
    """Else a full path would be taken for a lossy one, and sent even more."""
    floor, random = learned(0.0), Random(4)
    for _ in range(50):
        play(floor, 100, 0.4, random, spared=False)
        floor.end_round(2)
    assert floor.per_mille == 0


def test_nothing_is_said_before_the_floor_is_known() -> None:
    """The first losses may be all there ever are."""
    floor = LossFloor()
    play(floor, 100, 0.5, Random(5), spared=False)
    assert not floor.end_round(0)


def test_the_floor_follows_the_path() -> None:
    """A link that was bad and is good is known as good after a thousand packets or two."""
    floor, random = learned(0.3), Random(6)
    for _ in range(30):
        play(floor, 100, 0.0, random, spared=True)
        floor.end_round(2)
    assert floor.per_mille < 10


def test_what_is_lost_by_chance_is_sent_on_top() -> None:
    """Of ten with a floor of three, seven arrive."""
    floor = learned(0.3)
    carried = floor.carried(7_000)
    assert 9_300 < carried < 10_700
    assert learned(0.9).carried(1_000) == 2_000
