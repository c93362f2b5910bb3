"""Clocks that were set, and what survives an end."""

from typing import Any

import pytest

from triack.base.clock import WALL_NS_MAX, ClockJump, ClockReading, find_jump, in_words, sane_wall_ns
from triack.base.lease_words import LEFT_AT, LIVE_AT, LIVE_WORDS, begin_words, read_marks
from triack.base.log_lines import NS_MAX
from triack.base.survival import SURVIVES
from triack.base.units import MS, SECOND

# The time between two starts, and by how much the clock was set meanwhile.

ONE, OTHER, UNKNOWN = b"1" * 16, b"2" * 16, bytes(16)
NOW_S = 1_800_000_000
HOUR_S = 3_600


def reading(boot: bytes, uptime_s: int, system_s: int, node_s: int | None = None) -> ClockReading:
    node_s = system_s if node_s is None else node_s
    return ClockReading(boot, uptime_s * SECOND, system_s * SECOND, node_s * SECOND)


def jump_s(last: ClockReading, now: ClockReading) -> int:
    """By how many seconds the clock was set; 0 when it was not."""
    jump = find_jump(last, now)
    return 0 if jump is None else jump.by_ms // 1_000


@pytest.mark.parametrize("set_s", [-NOW_S, -HOUR_S, 0, HOUR_S, 10 * NOW_S])
def test_as_long_as_a_machine_runs_its_uptime_tells_how_long_it_was(set_s: int) -> None:
    now = reading(ONE, 1_100, max(0, NOW_S + 100 + set_s))
    assert jump_s(reading(ONE, 1_000, NOW_S), now) == now.system_ns // SECOND - NOW_S - 100
    last = reading(ONE, 1_000, now.system_ns // SECOND - 100, NOW_S)
    assert jump_s(last, now) == now.system_ns // SECOND - NOW_S - 100


@pytest.mark.parametrize(
    ("last", "now", "passed_s"),
    [
        # Off for a week, with a clock that goes on.
        (reading(ONE, 5_000, NOW_S), reading(OTHER, 40, NOW_S + 604_800), 604_800),
        (reading(UNKNOWN, 5_000, NOW_S), reading(UNKNOWN, 40, NOW_S + 604_800), 604_800),
        # Without a battery, before and after: as long as the machine is up, at the least.
        (reading(ONE, 5_000, 100), reading(OTHER, 40, NOW_S), 40),
        (reading(ONE, 5_000, NOW_S), reading(OTHER, 40, 40), 40),
        (reading(ONE, 5_000, 5_000), reading(OTHER, 40, 40), 40),
        # Set back while it was off.
        (reading(ONE, 5_000, NOW_S), reading(OTHER, 40, NOW_S - 10), 40),
        # Nobody knows whether the machine was started again; or its uptime is none.
        (reading(UNKNOWN, 5_000, 100), reading(UNKNOWN, 40, NOW_S), 0),
        (reading(ONE, 5_000, 100), reading(ONE, 40, NOW_S), 0),
        (reading(ONE, -NOW_S, 100), reading(ONE, 40, NOW_S), 0),
    ],
)
def test_a_machine_that_was_off_knows_it_by_a_clock_that_is_set_and_else_the_least(
    last: ClockReading, now: ClockReading, passed_s: int
) -> None:
    assert jump_s(last, now) == now.node_ns // SECOND - last.node_ns // SECOND - passed_s


def test_a_clock_that_was_set_while_the_node_ran_is_noticed_after_the_machine_was_off() -> None:
    """The node went on by the old one: what it wrote down is by that."""
    last = reading(ONE, 5_000, NOW_S, node_s=100)
    assert find_jump(last, reading(OTHER, 40, NOW_S + 60)) == ClockJump((NOW_S - 100) * 1_000, 100_000)


def test_little_is_no_jump_and_nothing_is_known_of_a_first_start() -> None:
    last = reading(ONE, 0, NOW_S)
    assert find_jump(None, last) is None
    for by_ns in (-SECOND, SECOND):
        assert find_jump(last, last._replace(node_ns=last.node_ns + by_ns)) is None
        assert find_jump(last, last._replace(node_ns=last.node_ns + 2 * by_ns)) is not None


def test_it_is_stored_whole() -> None:
    one = reading(ONE, -5, NOW_S, 7)
    assert ClockReading.unpack(one.pack()) == one
    assert ClockReading.unpack(b"") is None
    with pytest.raises(ValueError, match="has 5 bytes"):
        ClockReading.unpack(b"12345")


def test_a_date_that_no_format_has_is_the_nearest_that_is() -> None:
    """A clock of 1946 is 1970; and one that was never set is seen to be so."""
    assert sane_wall_ns(-757_382_400 * SECOND) == 0
    assert sane_wall_ns(1 << 80) == WALL_NS_MAX < NS_MAX
    assert sane_wall_ns(NOW_S * SECOND) == NOW_S * SECOND
    assert not reading(ONE, 1, 86_400).is_set
    assert reading(ONE, 1, NOW_S).is_set


@pytest.mark.parametrize(
    ("length_s", "words"),
    [(1, "1 second"), (119, "119 seconds"), (120, "2 minutes"), (7_200, "2 hours"), (172_800, "2 days")],
)
def test_a_length_is_said_in_words(length_s: int, words: str) -> None:
    assert in_words(length_s * SECOND // MS) == words


# The words in which a process notes messages in hand.


def test_what_is_left_is_read_by_the_start_that_follows() -> None:
    left = {7: (0b10, 0b1), 9: (1 << 200, 0), 11: (0, 1 << 64)}
    assert [read_marks(begin_words(4, 5, left), start) for start in (4, 5, 6)] == [left, left, {}]


def cell(words: Any, *told: int) -> Any:
    """The same words with that in the first cells of this start."""
    words[words[LIVE_AT] : words[LIVE_AT] + len(told)] = type(words)("Q", told)
    return words


def test_a_start_that_the_store_does_not_know_has_handed_nothing_out() -> None:
    """It died between its notes and its first commit; what it says of itself is not to be believed."""
    words = cell(begin_words(4, 5, {7: (1, 0)}), 8, 1, 1, 0)
    assert read_marks(words, 4) == {7: (1, 0)}
    assert read_marks(words, 5) == {7: (1, 0), 8: (1, 0)}


def test_a_cell_of_this_start_adds_to_what_is_left() -> None:
    """Done is done; what was held before the node died again still is. Cells that are free say nothing."""
    words = cell(begin_words(4, 5, {7: (0b110, 0)}), 7, 1, 0b1000, 0b010)
    assert read_marks(words, 5) == {7: (0b1100, 0b010)}
    assert read_marks(cell(begin_words(4, 5, {}), 0, 1, 1, 1, 8, 1, 1, 0), 5) == {8: (1, 0)}


def test_words_that_end_too_early_say_nothing() -> None:
    words = begin_words(4, 5, {7: (1, 0)})
    assert read_marks(words[:2], 5) == {}
    assert (len(words) - words[LIVE_AT], words[LEFT_AT]) == (LIVE_WORDS, 4)


def test_the_codes_stay_as_they_are() -> None:
    """A node that says nothing of it, as older ones do, has the strongest."""
    assert SURVIVES == ("power loss", "process crash", "nothing")
