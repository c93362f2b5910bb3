"""Every call is written and read by one row, and every argument is looked at before anything is done with it."""

import json
from typing import Any

import pytest

import triack
from triack.base.errors import ProtocolError
from triack.node.control.calls import _STEPS
from triack.node.control.verb_table import VERBS, Kind, check_call, row_of
from triack.node.handles.consumer import BATCH_MESSAGES
from triack.node.handles.derived import bind
from triack.node.handles.transaction import Transaction
from triack.node.handles.verbs import Verbs

GOOD: dict[Kind, list[Any]] = {
    Kind.TEXT: ["", "q"],
    Kind.NUMBER: [0, 7],
    Kind.SECONDS: [0, 1.5],
    Kind.TRUTH: [True, False],
    Kind.OBJECT: [{}, {"label": "x"}],
    Kind.TEXTS: [[], ["a", "b"]],
    Kind.NUMBERS: [[], [1, 2]],
    Kind.OBJECTS: [[], [{"to": "*", "via": "hub", "rename": ""}]],
}
BAD: dict[Kind, list[Any]] = {
    Kind.TEXT: [5, ["q"], {}, True],
    Kind.NUMBER: [-1, 1.0, "1", True, [1]],
    Kind.SECONDS: ["1", True, [1], float("nan"), float("inf")],
    Kind.TRUTH: [0, 1, "true", []],
    Kind.OBJECT: ["x", [], 5],
    Kind.TEXTS: ["orders", [5], ["a", None], {}],
    Kind.NUMBERS: [5, ["1"], [True], [-1]],
    Kind.OBJECTS: [{}, ["x"], [None], 5],
}
"""What JSON can say that is none."""


def call(verb: str) -> dict[str, Any]:
    """A good one."""
    return {"do": verb, **{name: GOOD[argument.kind][-1] for name, argument in VERBS[verb].arguments.items()}}


def test_every_step_has_a_row_and_a_handler() -> None:
    """Every other row is a method of the node, or of what it has given out."""
    assert {name for name, row in VERBS.items() if row.on is None} == _STEPS.keys()
    assert [name for name, row in VERBS.items() if row.on is not None and not row.method] == []


@pytest.mark.parametrize("verb", VERBS)
def test_only_arguments_of_their_kind_are_taken(verb: str) -> None:
    """Null in the place of some; none may be missing. The bad value is not repeated: it may be a secret."""
    assert check_call(call(verb)).name == verb
    for name, argument in VERBS[verb].arguments.items():
        nothing = [None] if argument.nullable else []
        for value in GOOD[argument.kind] + nothing:
            assert check_call(call(verb) | {name: value}).name == verb
        for value in BAD[argument.kind] + [None][len(nothing) :]:
            with pytest.raises(ProtocolError, match=rf"bad-frame: {verb}: {name} must be .*, not \w+$"):
                check_call(call(verb) | {name: value})
        with pytest.raises(ProtocolError, match=f"{name} is missing"):
            check_call({key: value for key, value in call(verb).items() if key != name})


@pytest.mark.parametrize("do", ["dance", None, 5, ["send"]])
def test_other_verbs_are_refused(do: object) -> None:
    with pytest.raises(ProtocolError, match="bad-frame: do is"):
        check_call({"do": do})


def written_and_read(declared: Any, *args: Any, **kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
    """The arguments that a method at the node gets of a client's call, after their way as JSON."""
    row = row_of(declared)
    body, fields = row.write(bind(declared, args, kwargs))
    header = json.loads(json.dumps({"do": row.name, **fields, **({row.on.value: 1} if row.on else {})}))
    return check_call(header).read(header, body)


def test_a_call_arrives_as_it_was_made() -> None:
    """By place, by name, several in one place, and properties; the body as it is."""
    assert written_and_read(Verbs.send, "q", b"x", delivery=triack.EXPRESS, until="stored", label="l") == (
        ["q", b"x"],
        {"delivery": triack.EXPRESS, "label": "l"},
    )
    assert written_and_read(Transaction.send_many, "q", [b"1", b"22"]) == (
        ["q", [b"1", b"22"]],
        {"delivery": triack.TRANSACTIONAL, "keys": None, "timeout": None},
    )
    assert written_and_read(Verbs.trust, "b", None, "udp://b:1", "tcp://b:2", send=("in-*",)) == (
        ["b", None, "udp://b:1", "tcp://b:2"],
        {
            "send": ["in-*"],
            "psk": None,
            "keep_alive_s": None,
            "may_relay": None,
            "relays_for": None,
            "may_subscribe": None,
            "seal": None,
            "sealed_only": None,
        },
    )
    routes = [triack.Route("b", via="hub", rename="c"), triack.Route("*", via="hub")]
    assert written_and_read(Verbs.set_routes, routes) == ([routes], {})
    trigger = triack.AckTrigger(count=3)
    assert written_and_read(Verbs.acknowledgements, "q", every=trigger)[1]["every"] == trigger
    assert written_and_read(Transaction.remember, "k", None) == (["k", None], {})
    assert written_and_read(Transaction.remember, "k", b"") == (["k", b""], {})
    assert written_and_read(Verbs.purge, "q", {"id"}) == (["q", ["id"]], {})


def test_a_list_of_messages_is_no_longer_than_a_frame() -> None:
    """Whatever number the other process asks for."""
    assert written_and_read(Transaction.receive_many, "q", 10**9)[0] == ["q", BATCH_MESSAGES, None]


def test_properties_do_not_stand_in_for_arguments() -> None:
    header = call("send") | {"delivery": "EXPRESS", "properties": {"delivery": "x"}}
    with pytest.raises(TypeError, match="properties have delivery"):
        check_call(header).read(header, b"")
