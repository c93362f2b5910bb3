"""Events, triggers and receipts survive the way over the control socket."""

import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triack.base.ack_trigger import AckTrigger
from triack.base.errors import UsageError
from triack.base.news import GapFound, LinkDown, NodeEvent, QueueOverQuota, StoreLow
from triack.node.control.told import (
    describe_event,
    describe_every,
    describe_news,
    describe_receipts,
    read_event,
    read_every,
    read_news,
    read_receipts,
)
from triack.node.handles.acknowledgements import Every
from triack.node.handles.receipt import MessageWaits
from triack.queues.stages import Stage, StageName
from triack.queues.streams.ack_events import AckEvent, AckKind


def sent(value: Any) -> Any:
    return json.loads(json.dumps(value))


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
    assert read_every(sent(describe_every(trigger))) == trigger


@pytest.mark.parametrize("every", [None, "message"])
def test_so_is_what_stands_for_none(every: Every) -> None:
    assert read_every(sent(describe_every(every))) == every


@pytest.mark.parametrize(
    "event", [AckEvent(AckKind.ACK, 1, 7), AckEvent(AckKind.FAILURE, 8, 8, "queue-not-found")], ids=str
)
def test_an_event_is_the_same(event: AckEvent) -> None:
    assert read_event(sent(describe_event(event))) == event


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
    """By its value, or because there is no such setting."""
    with pytest.raises(UsageError, match="window_share must be above 0"):
        read_every({"window_share": 2})
    with pytest.raises(TypeError):
        read_every({"colour": "red"})


class Given(MessageWaits):
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


@pytest.mark.slow
@pytest.mark.gate
def test_receipts_of_one_queue_are_described_as_one() -> None:
    receipts = [Given(ordinal, ordinal - 7) for ordinal in range(10, 100_010)]
    assert describe_receipts(receipts) == [[100_000, 10, 3]]
