"""A method that is derived from another one is called as that one is."""

import inspect
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from triack.node.handles.derived import Said, as_on, settled, waited


class Shop:
    """What states how it is used."""

    async def sell(self, what: str, *notes: str, count: int = 1) -> str:
        """Sell something."""
        return f"{count} {what} {notes}"

    @property
    def owner(self) -> str:
        """The owner of it."""
        return "ann"


class Counter:
    """What is used in the same way."""

    @as_on(Shop.sell)
    def sell(self, said: Said) -> Said:
        """Repeat it."""
        return said


class Hatch:
    """What waits for the end of it."""

    def _perform(
        self, begin: Callable[[Shop], Coroutine[Any, Any, Any]], wrap: Callable[[str, Any], Any] | None
    ) -> Any:
        with pytest.raises(StopIteration) as ended:
            begin(Shop()).send(None)
        return ended.value.value if wrap is None else wrap("shop", ended.value.value)

    sell = waited(Shop.sell)
    sell_wrapped = waited(Shop.sell, lambda where, given: [where, given])


def test_arguments_come_by_their_names_with_defaults() -> None:
    assert Counter().sell("valves", "a", "b") == {"what": "valves", "notes": ("a", "b"), "count": 1}


def test_signature_and_description_are_those_of_the_method_that_states_them() -> None:
    for method in (Counter.sell, Hatch.sell):
        assert (method.__name__, inspect.getdoc(method)) == ("sell", "Sell something.")
        assert inspect.signature(method) == inspect.signature(Shop.sell)


def test_a_wrong_call_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match=r"sell\(\): missing a required argument: 'what'"):
        Counter().sell()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"sell\(\): got an unexpected keyword argument 'size'"):
        Counter().sell("valves", size=1)  # type: ignore[call-arg]


def test_what_is_waited_for_may_be_wrapped() -> None:
    assert Hatch().sell("valves", count=2) == "2 valves ()"
    assert Hatch().sell_wrapped("valves") == ["shop", "1 valves ()"]


async def test_properties_and_methods_settle_alike() -> None:
    assert await settled(Shop(), "owner", (), {}) == "ann"
    assert await settled(Shop(), "sell", ("valves",), {"count": 3}) == "3 valves ()"
