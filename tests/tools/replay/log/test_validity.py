"""What is believed of a record."""

from typing import Any

import pytest

from tests.tools.replay.builder import healthy
from triack.base.log_lines import NS_MAX
from triack.base.session_log import COMMON, EVENTS, FIELDS
from triack.tools.replay.log.validity import NUMBER_MAX, complaint

HALF = "a\ud800"


def sample(name: str) -> Any:
    """A value that the field may have."""
    field = (COMMON | FIELDS)[name]
    ids = {"node": "a" * 32, "origin": "b" * 32, "peer": "c" * 32, "session": "d" * 16, "class": "transactional"}
    values = {int: 1, bool: False, str: "text", list: [[1, 1]]}
    return {"v": 6, **ids}.get(name, values[field.type])


def held(more: tuple[str, ...], name: str) -> dict[str, Any]:
    """What a record of a stream that is held says: a reason, if it is held."""
    why = {"reason": "queue-full"} if more else {}
    return {"stop": bool(more), **why} if name == "hold_received" else {}


def records() -> list[dict[str, Any]]:
    """One of each event, in each of its forms."""
    return [
        {**{name: sample(name) for name in (*COMMON, *event.fields, *more)}, "event": name, **held(more, name)}
        for name, event in EVENTS.items()
        for more in event.variants
        if (name, more) != ("position_recovered", ("ranges",))
    ]


def test_a_record_of_each_event_is_believed() -> None:
    assert [complaint(record) for record in records()] == [""] * len(records())


HARM: dict[type, list[Any]] = {
    int: [-1, -(10**30), NUMBER_MAX + 1, 10**4000],
    str: ["a\tb" * 400, HALF, "x" * 1_000_000],
    list: [[[-1, 1]], [[1, -(10**30)]], [[1, 1 << 70]], [[1]], [[1, True]], [7]],
}
"""What is no value of any field of a type."""


@pytest.mark.parametrize("name", sorted((COMMON | FIELDS).keys() - {"v", "event", "class"}))
def test_no_field_of_any_event_is_believed_whatever_it_says(name: str) -> None:
    """It is refused, and in few words."""
    kind = (COMMON | FIELDS)[name].type
    for record in records():
        for value in HARM.get(kind, []) if name in record else []:
            if value == -1 and name in ("at_ns", "wall_ns", "receive_by_ms"):
                continue
            said = complaint({**record, name: value})
            assert said.startswith("is damaged: ")
            assert len(said) < 300


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("node", "a\tb", "is damaged: field 'node' is 'a\\tb', and not 32 hex digits"),
        ("origin", "A" * 32, f"is damaged: field 'origin' is '{'A' * 32}', and not 32 hex digits"),
        ("first", -(10**30), f"is damaged: field 'first' is {-(10**30)}, which nothing counts to"),
        ("first", 7, "is damaged: a range from 7 to 1"),
        ("last", 10**4000, "is damaged: field 'last' is a number of 13,288 bits, which nothing counts to"),
        ("queue", "q" * 1_001, f"is damaged: field 'queue' is '{'q' * 100}'..., and has 1,001 letters"),
        ("reason", "a\tb", "is damaged: field 'reason' is 'a\\tb', which is no word of a log"),
        ("queue", HALF, "is damaged: field 'queue' is 'a\\ud800', which is no text"),
        ("receive_by_ms", -(10**30), f"is damaged: field 'receive_by_ms' is {-(10**30)}, which no clock gives"),
        ("wall_ns", NS_MAX, f"is damaged: field 'wall_ns' is {NS_MAX}, which no clock gives"),
    ],
)
def test_what_is_wrong_is_said(name: str, value: Any, said: str) -> None:
    record = next(record for record in records() if {name} <= record.keys())
    assert complaint({**record, name: value}) == said


def test_of_a_range_the_first_number_is_not_above_the_last() -> None:
    acked = next(record for record in records() if record["event"] == "ack_received")
    assert complaint({**acked, "ranges": [[3, 2]]}) == "is damaged: a range from 3 to 2"


def test_a_clock_may_be_before_1970() -> None:
    for record in records():
        assert complaint({**record, "wall_ns": -NS_MAX + 1}) == ""


def test_a_class_is_one_of_three() -> None:
    """And a position is what its class has."""
    world = healthy()
    world.number()
    recovered = world.beta.one("position_recovered")
    assert complaint(recovered) == ""
    assert complaint({**recovered, "class": "magic"}) == "is damaged: unknown class 'magic'"
    assert complaint({**recovered, "class": "recoverable"}).endswith(
        "a position of class 'recoverable' that is not one"
    )


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"stop": True, "reason": "peer-quota"}, ""),
        ({"stop": False}, ""),
        ({"stop": True, "reason": "no-mood"}, "is damaged: no room for a stream, and why is 'no-mood'"),
        ({"stop": True}, "is damaged: no room for a stream, and why is None"),
        ({"stop": False, "reason": "peer-quota"}, "is damaged: a reason why there is room"),
    ],
)
def test_a_destination_without_room_says_why(fields: dict[str, object], said: str) -> None:
    hold = next(record for record in records() if record["event"] == "hold_received" and "reason" not in record)
    assert complaint({**hold, **fields}) == said
