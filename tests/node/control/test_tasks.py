"""Tasks that end together."""

import asyncio

import pytest

from triack.node.control.tasks import first_of


async def test_the_first_end_ends_all() -> None:
    """And an error is raised."""
    ended: list[str] = []

    async def for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("for ever")

    async def fail() -> None:
        raise LookupError("at once")

    await first_of(for_ever(), asyncio.sleep(0))
    with pytest.raises(LookupError):
        await first_of(for_ever(), fail())
    assert ended == ["for ever", "for ever"]
