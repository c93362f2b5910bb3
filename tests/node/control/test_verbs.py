"""The verbs of the control socket: what travels, and what it does at the node."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import triack
from triack.base.ack_trigger import AckTrigger
from triack.base.errors import ProtocolError, UsageError
from triack.base.news import GapFound, LinkDown, NodeEvent, QueueOverQuota, StoreLow
from triack.node.client.asking import with_rows
from triack.node.client.client import Client
from triack.node.control.codec import (
    TEXTS,
    describe_events,
    describe_every,
    describe_news,
    describe_receipts,
    read_events,
    read_every,
    read_news,
    read_receipts,
)
from triack.node.control.control_frames import encode
from triack.node.control.steps import Steps
from triack.node.control.verb_table import _ROWS, VERBS, Kind, Verb, _row, check_call, row_of
from triack.node.handles.consumer import BATCH_MESSAGES
from triack.node.handles.derived import bind
from triack.node.handles.receipt import Receipt
from triack.node.handles.transaction import Transaction
from triack.node.handles.verbs import CommonVerbs, Verbs
from triack.queues.stages import Stage, StageName
from triack.queues.streams.ack_events import AckEvent, AckKind

# Every call is written and read by one row, and every argument is looked at before anything is done with it.

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
    return {"do": verb, **{name: GOOD[argument.kind][-1] for name, argument in VERBS[verb].arguments.items()}}


def test_every_step_has_a_row_and_a_handler() -> None:
    """Every other row is a method of the node, or of what it has given out."""
    steps = {name for name in vars(Steps) if not name.startswith("_")}
    assert {name for name, row in VERBS.items() if row.on is None} == steps
    assert [name for name, row in VERBS.items() if row.on is not None and not row.method] == []


async def greet(self: CommonVerbs, whom: str, *, times: int = 1) -> list[str]:
    """Say hello."""
    return [f"hello {whom}"] * times


async def test_a_new_verb_is_one_method_and_one_row(
    node: triack.Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client has it from there: arguments, defaults and checks by its signature, text and result too."""
    row = _row(greet, TEXTS)
    monkeypatch.setitem(cast("dict[str, Verb]", VERBS), "greet", row)
    monkeypatch.setitem(_ROWS, greet, row)
    monkeypatch.setattr(CommonVerbs, "greet", greet, raising=False)
    newer: Any = with_rows(type("Newer", (Client,), {}))
    async with newer(tmp_path / "a") as client:
        assert await client.greet("bob", times=2) == ["hello bob"] * 2
        with pytest.raises(triack.TriackError, match="greet: times must be a number"):
            await client.greet("bob", times="two")
    assert newer.greet.__doc__ == "Say hello."


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
        {"delivery": triack.TRANSACTIONAL, "keys": None, "each": None, "timeout": None},
    )
    trusted = "send", "psk", "keep_alive_s", "may_relay", "relays_for", "may_subscribe", "seal", "sealed_only"
    assert written_and_read(Verbs.trust, "b", None, "udp://b:1", "tcp://b:2", send=("in-*",)) == (
        ["b", None, "udp://b:1", "tcp://b:2"],
        dict.fromkeys(trusted) | {"send": ["in-*"]},
    )
    routes = [triack.Route("b", via="hub", rename="c"), triack.Route("*", via="hub")]
    assert written_and_read(Verbs.set_routes, routes) == ([routes], {})
    trigger = triack.AckTrigger(count=3)
    assert written_and_read(Verbs.acknowledgements, "q", every=trigger)[1]["every"] == trigger
    assert written_and_read(Transaction.remember, "k", None) == (["k", None], {})
    assert written_and_read(Transaction.remember, "k", b"") == (["k", b""], {})
    assert written_and_read(Verbs.purge, "q", {"id"}) == (["q", ["id"]], {})
    # A list is no longer than a frame, whatever number the other process asks for.
    assert written_and_read(Transaction.receive_many, "q", 10**9)[0] == ["q", BATCH_MESSAGES, None]


def test_properties_do_not_stand_in_for_arguments() -> None:
    header = call("send") | {"delivery": "EXPRESS", "properties": {"delivery": "x"}}
    with pytest.raises(TypeError, match="properties have delivery"):
        check_call(header).read(header, b"")


# Events, triggers and receipts survive the way over the control socket.


def sent(value: Any) -> Any:
    return json.loads(encode(value))


@given(
    st.builds(
        AckTrigger,
        window_share=st.none() | st.fractions(Fraction(1, 1_000), 1, max_denominator=1_000),
        count=st.none() | st.integers(1, 1_000),
        bytes_=st.none() | st.integers(1, 2**40),
        delay_s=st.integers(0, 100_000).map(lambda value: value / 1_000),
        piggyback_after=st.none() | st.floats(0, 1),
        on_gap=st.booleans(),
    )
)
def test_a_trigger_is_the_same_at_the_other_end(trigger: AckTrigger) -> None:
    """Shares are exact: a third of a window is not a little less."""
    for every in (trigger, None, "message"):
        assert read_every(sent(describe_every(every))) == every


def test_events_of_acknowledgements_are_the_same_and_name_the_same_messages() -> None:
    events = [
        AckEvent(AckKind.ACK, 1, 7, None, "0a", [range(4, 6), range(90, 92)]),
        AckEvent(AckKind.FAILURE, 8, 8, "queue-not-found", "0a", [range(92, 93)]),
    ]
    read = read_events(sent(describe_events("0a", events)))
    assert read == events
    assert [event.ids for event in read] == [["0a-4", "0a-5", "0a-90", "0a-91"], ["0a-92"]]


@pytest.mark.parametrize(
    "event",
    [
        LinkDown("udp://b:1", "b", "00" * 16, "idle"),
        GapFound("b", "00" * 16, "11" * 16, ("orders", "invoices"), halts=True, cause="another node answers"),
        QueueOverQuota("orders", 10, 2**31),
        StoreLow(is_low=False, room_bytes=2**40),
    ],
    ids=lambda event: type(event).__name__,
)
def test_so_is_one_of_the_node(event: NodeEvent) -> None:
    assert read_news(sent(describe_news(event))) == event


def test_a_trigger_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="window_share must be above 0"):
        read_every({"window_share": 2})
    with pytest.raises(TypeError):
        read_every({"colour": "red"})


class Given(Receipt):
    """The receipt of a message that is long forgotten."""

    def __init__(self, ordinal: int, number: int | None) -> None:
        self._ordinal = ordinal
        self._number = number

    @property
    def id(self) -> str:
        return f"ab-{self._ordinal}"

    @property
    def number(self) -> int | None:
        return self._number

    async def reached(self, stage: Stage | StageName, timeout: float | None = None) -> None:
        raise AssertionError((stage, timeout))


@given(st.lists(st.tuples(st.integers(1, 4), st.none() | st.integers(1, 4))))
def test_receipts_are_the_same(told: list[tuple[int, int | None]]) -> None:
    receipts = [Given(*one) for one in told]
    read = read_receipts("ab", sent(describe_receipts(receipts)))
    assert read == {"ids": [it.id for it in receipts], "numbers": [it.number for it in receipts]}


@pytest.mark.gate
def test_receipts_of_one_queue_are_described_as_one() -> None:
    receipts = [Given(ordinal, ordinal - 7) for ordinal in range(10, 100_010)]
    assert describe_receipts(receipts) == [[100_000, 10, 3]]
