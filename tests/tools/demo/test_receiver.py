"""The receiver finds the faults of a broken transport."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any, Self

import pytest

from triack.tools.demo.bodies import Bodies
from triack.tools.demo.receiver import Receiver

BODIES = Bodies(100, seed=3)


class Node:
    """Hands these bodies out, two at a time."""

    def __init__(self, *bodies: bytes) -> None:
        self._messages = [SimpleNamespace(body=body) for body in bodies]

    def receive(self, queue: str) -> Self:
        assert queue == "demo"
        return self

    async def get_many(self) -> list[SimpleNamespace]:
        if not self._messages:
            raise asyncio.CancelledError
        taken, self._messages = self._messages[:2], self._messages[2:]
        return taken


async def receive(count: int, *bodies: int | bytes) -> dict[str, Any]:
    """What the receiver has seen in the end, without the time."""
    receiver = Receiver({"messages": count, "size": 100, "seed": 3})
    node: Any = Node(*(BODIES.make(body) if isinstance(body, int) else body for body in bodies))
    with pytest.raises(asyncio.CancelledError):
        await receiver.receive(node)
    seen = receiver.progress()
    assert (seen.pop("last_ns") > 0) == (seen["delivered"] == count)
    return seen


@pytest.mark.parametrize(
    ("bodies", "seen"),
    [
        ((0, 1, 2, 3), (4, 0, 0, 0)),
        ((0, 1, 2), (3, 0, 0, 0)),
        ((0, 1, 1, 2, 0, 3, 3), (4, 3, 0, 0)),
        ((0, 2, 1, 3), (4, 0, 1, 0)),
        ((3, 2, 1, 0), (4, 0, 3, 0)),
        ((0, 3, 1, 2), (4, 0, 2, 0)),
        ((0, 1, 3), (3, 0, 0, 0)),
        ((0, 1, 2, 3, 4), (4, 0, 0, 1)),
        ((0, b"", 1, b"x" * 100, BODIES.make(2)[:-1], 2, Bodies(100, seed=4).make(3), 3), (4, 0, 0, 4)),
    ],
    ids=["all", "one-lacks", "repeated", "overtaken", "backwards", "two-overtaken", "gap", "one-too-many", "corrupt"],
)
async def test_what_the_application_sees_is_counted(
    bodies: tuple[int | bytes, ...], seen: tuple[int, int, int, int]
) -> None:
    """Different ones, repeated ones, ones behind a later one, and ones that nobody sent."""
    names = ("delivered", "duplicates", "out_of_order", "corrupt")
    assert await receive(4, *bodies) == dict(zip(names, seen, strict=True))


async def test_the_last_one_is_reported_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    """The clock stops with it; what comes after it is still seen, but told with the next report."""
    await receive(2, 1, 0, 0)
    (line,) = capsys.readouterr().out.splitlines()
    told = json.loads(line)
    assert (told["delivered"], told["duplicates"], told["out_of_order"]) == (2, 0, 1)
