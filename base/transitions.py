"""Tables of transitions, and the one function that moves from a state to the next.

A table has a row for each state: each possible event, and the next state. The row also has the events that change
nothing, so a missing key is always a mistake of our own code.
"""

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

from triack.base.errors import TriackError

S = TypeVar("S", bound=Enum)
E = TypeVar("E", bound=Enum)


class IllegalTransition(TriackError):
    """Our own code reported an event that cannot happen in that state."""


def next_state(table: Mapping[S, Mapping[E, S]], state: S, event: E) -> S:
    """Return the state that follows an event. Raises IllegalTransition: the table has no such pair."""
    try:
        return table[state][event]
    except KeyError:
        raise IllegalTransition(f"{type(state).__name__} {state.name}: {event.name} cannot happen") from None
