"""How our own two peers write batches of messages to a TCP connection, as an expert would by hand."""

import asyncio
from collections.abc import Sequence
from itertools import accumulate, pairwise
from struct import Struct, pack, unpack

_HEAD = Struct("!QII")
POSITION = Struct("!Q")
STREAM_BYTES = 1024 * 1024


def pack_batch(first: int, bodies: Sequence[bytes]) -> bytes:
    """Consecutive messages as one piece of bytes."""
    joined = b"".join(bodies)
    lengths = pack(f"!{len(bodies)}I", *map(len, bodies))
    return _HEAD.pack(first, len(bodies), len(joined)) + lengths + joined


async def read_batch(reader: asyncio.StreamReader) -> tuple[int, list[bytes]]:
    """The number of the first message and all bodies. Raises IncompleteReadError when the other end is gone."""
    first, count, size_bytes = _HEAD.unpack(await reader.readexactly(_HEAD.size))
    rest = await reader.readexactly(4 * count + size_bytes)
    lengths = unpack(f"!{count}I", rest[: 4 * count])
    ends = accumulate(lengths, initial=4 * count)
    return first, [rest[start:end] for start, end in pairwise(ends)]


async def read_position(reader: asyncio.StreamReader) -> int:
    """The next acknowledgement. Raises IncompleteReadError when the other end is gone."""
    (position,) = POSITION.unpack(await reader.readexactly(POSITION.size))
    return int(position)
