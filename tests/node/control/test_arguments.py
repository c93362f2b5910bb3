"""Every argument of every call is looked at before anything is done with it."""

from typing import Any

import pytest

from triack.base.errors import ProtocolError
from triack.node.control.arguments import ARGUMENTS, Kind, check_arguments
from triack.node.control.calls import _VERBS

GOOD: dict[Kind, list[Any]] = {
    Kind.TEXT: ["", "q"],
    Kind.NUMBER: [0, 7],
    Kind.SECONDS: [0, 1.5],
    Kind.TRUTH: [True, False],
    Kind.OBJECT: [{}, {"label": "x"}],
    Kind.TEXTS: [[], ["a", "b"]],
    Kind.NUMBERS: [[], [1, 2]],
}
BAD: dict[Kind, list[Any]] = {
    Kind.TEXT: [5, ["q"], {}, True],
    Kind.NUMBER: [-1, 1.0, "1", True, [1]],
    Kind.SECONDS: ["1", True, [1], float("nan"), float("inf")],
    Kind.TRUTH: [0, 1, "true", []],
    Kind.OBJECT: ["x", [], 5],
    Kind.TEXTS: ["orders", [5], ["a", None], {}],
    Kind.NUMBERS: [5, ["1"], [True], [-1]],
}
"""What JSON can say that is none."""


def call(verb: str) -> dict[str, Any]:
    """A good one."""
    return {"do": verb, **{name.removesuffix("?"): GOOD[kind][-1] for name, kind in ARGUMENTS[verb].items()}}


def test_every_verb_is_described() -> None:
    assert ARGUMENTS.keys() == _VERBS.keys()


@pytest.mark.parametrize("verb", ARGUMENTS)
def test_only_arguments_of_their_kind_are_taken(verb: str) -> None:
    """Null in the place of some; none may be missing. What it was is not repeated: it may be a secret."""
    assert check_arguments(call(verb)) == verb
    for told, kind in ARGUMENTS[verb].items():
        name = told.removesuffix("?")
        nothing = [None] if told != name else []
        for value in GOOD[kind] + nothing:
            assert check_arguments(call(verb) | {name: value}) == verb
        for value in BAD[kind] + [None][len(nothing) :]:
            with pytest.raises(ProtocolError, match=rf"bad-frame: {verb}: {name} must be .*, not \w+$"):
                check_arguments(call(verb) | {name: value})
        with pytest.raises(ProtocolError, match=f"{name} is missing"):
            check_arguments({key: value for key, value in call(verb).items() if key != name})


@pytest.mark.parametrize("do", ["dance", None, 5, ["send"]])
def test_other_verbs_are_refused(do: object) -> None:
    with pytest.raises(ProtocolError, match="bad-frame: do is"):
        check_arguments({"do": do})
