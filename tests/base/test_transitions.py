"""A table has all transitions; any other raises."""

from enum import Enum

import pytest

from triack.base.errors import TriackError
from triack.base.transitions import IllegalTransition, next_state


class Door(Enum):
    OPEN = 0
    SHUT = 1


class Push(Enum):
    PUSHED = 0
    PULLED = 1


TABLE = {Door.OPEN: {Push.PULLED: Door.SHUT}, Door.SHUT: {Push.PUSHED: Door.OPEN, Push.PULLED: Door.SHUT}}


def test_the_table_says_what_follows() -> None:
    assert next_state(TABLE, Door.OPEN, Push.PULLED) is Door.SHUT
    assert next_state(TABLE, Door.SHUT, Push.PULLED) is Door.SHUT


def test_what_the_table_does_not_have_is_an_error_with_both_names() -> None:
    with pytest.raises(IllegalTransition, match="Door OPEN: PUSHED cannot happen") as caught:
        next_state(TABLE, Door.OPEN, Push.PUSHED)
    assert isinstance(caught.value, TriackError)
