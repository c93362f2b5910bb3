"""Batches and positions on a stream of bytes."""

import asyncio

import pytest

from triack.tools.bench.systems.framing import POSITION, pack_batch, read_batch, read_position


def stream(*pieces: bytes) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    for piece in pieces:
        reader.feed_data(piece)
    reader.feed_eof()
    return reader


async def test_a_batch_comes_out_as_it_went_in() -> None:
    batches = [(1, [b"a", b"", b"ccc"]), (4, [b"x" * 70_000])]
    reader = stream(*(pack_batch(first, bodies) for first, bodies in batches))
    assert [await read_batch(reader) for _ in batches] == batches


async def test_a_torn_batch_is_none() -> None:
    with pytest.raises(asyncio.IncompleteReadError):
        await read_batch(stream(pack_batch(1, [b"abc"])[:-1]))


async def test_positions_follow_each_other() -> None:
    reader = stream(POSITION.pack(3), POSITION.pack(2**40))
    assert [await read_position(reader) for _ in range(2)] == [3, 2**40]
