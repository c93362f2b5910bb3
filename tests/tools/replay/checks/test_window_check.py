"""How much an end may have unacknowledged: by agreement, and by what it says of a window that follows its path."""

from tests.tools.replay.acts import following
from tests.tools.replay.faults import ready
from tests.tools.replay.judging import checks_of


def test_a_window_that_is_announced_in_time_may_be_used_up() -> None:
    """One after the other, up to what was agreed on, and down again when so few are left."""
    world = ready()
    for window in (16, 32, 64):
        following(world, window)
        world.ack(world.send("express", world.queue("express", window)))
    following(world, 32)
    world.ack(world.send("express", world.queue("express", 32)))
    assert not checks_of(world) & {"window", "claims", "silent_end"}
