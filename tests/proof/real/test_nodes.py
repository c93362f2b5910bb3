"""Bodies that say which message they are, and a queue's numbers."""

import pytest

import triack
from proof.real.nodes import body, number_of, queue_numbers, quick
from tests.machine import PATIENCE_S


@pytest.mark.parametrize("size_bytes", [0, 1, 7, 1_000])
def test_a_body_is_that_of_its_number_alone(size_bytes: int) -> None:
    """And no other message's; large ones are filled, so that a piece of another one shows."""
    bodies = [body(number, size_bytes) for number in range(120)]
    assert len(set(bodies)) == len(bodies)
    assert min(map(len, bodies)) >= size_bytes
    assert [number_of(one, size_bytes) for one in bodies] == list(range(120))


@pytest.mark.parametrize("damaged", [b"", b"7", b"x " + b"7" * 98, b"7 " + b"8" * 98, b"7 " + b"7" * 97, b"-7 "])
def test_what_is_no_body_has_no_number(damaged: bytes) -> None:
    """Cut, mixed or made up."""
    assert number_of(damaged, 100) == -1


async def test_a_queue_tells_its_numbers_in_order() -> None:
    """With -1 for what is not ours."""
    async with triack.open("a", data=None, insecure=True, settings=quick()) as node:
        for sent in (body(3), body(1), b"stray"):
            await (await node.send("orders", sent)).queued(timeout=PATIENCE_S)
        assert await queue_numbers(node, "orders") == [3, 1, -1]
        assert await queue_numbers(node, "orders") == []
