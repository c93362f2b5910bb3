"""Redis Streams: a stream with a group of readers; the server syncs every write before it answers."""

import asyncio
from collections.abc import Sequence
from typing import Any, Self

from redis.asyncio import Redis

from triack.tools.bench.application import Facts, Inlet, Outlet, Sink
from triack.tools.bench.work import Work

BATCH = 1_000
"""Messages of one round trip, and so of one sync, as its fastest users send them."""
WAIT_MS = 1_000
_STREAM, _GROUP, _FIELD = "bench", "readers", b"b"


class RedisOutlet(Outlet):
    """Adds batches; each is synced when it returns."""

    batch = BATCH

    def __init__(self, options: dict[str, Any]) -> None:
        self._redis = Redis(port=options["server"]["port"])
        self._synced = False

    async def __aenter__(self) -> Self:
        asked = await self._redis.config_get("append*")
        self._synced = (asked.get("appendonly"), asked.get("appendfsync")) == ("yes", "always")
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._redis.aclose()

    async def put(self, bodies: Sequence[bytes]) -> None:
        """One pipeline."""
        pipeline = self._redis.pipeline(transaction=False)
        for body in bodies:
            pipeline.xadd(_STREAM, {_FIELD: body})
        await pipeline.execute()

    def facts(self) -> Facts:
        """The server's own counts of its syncs."""
        return {"synced": self._synced}


class RedisInlet(Inlet):
    """Reads as the one member of a group, and acknowledges what it has read."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._redis = Redis(port=options["server"]["port"])
        self._readers = Work(**options["work"]).readers
        self._count = 1 if Work(**options["work"]).mode == "single" else BATCH

    async def __aenter__(self) -> Self:
        await self._redis.delete(_STREAM)
        for group in (_GROUP, *map(_group_of, range(self._readers))):
            await self._redis.xgroup_create(_STREAM, group, id="0", mkstream=True)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._redis.aclose()

    async def run(self, sink: Sink) -> None:
        """Read, look, acknowledge."""
        await self._read(_GROUP, sink)

    async def run_all(self, sinks: Sequence[Sink]) -> None:
        """The same with a group for each."""
        await asyncio.gather(*(self._read(_group_of(number), sink) for number, sink in enumerate(sinks)))

    async def _read(self, group: str, sink: Sink) -> None:
        while True:
            found: Any = await self._redis.xreadgroup(group, "one", {_STREAM: ">"}, count=self._count, block=WAIT_MS)
            entries = _entries(found)
            if not entries:
                continue
            sink.take([fields[_FIELD] for _, fields in entries])
            await self._redis.xack(_STREAM, group, *(number for number, _ in entries))


def _group_of(number: int) -> str:
    return f"{_GROUP} {number}"


def _entries(found: Any) -> list[tuple[bytes, dict[bytes, bytes]]]:
    if isinstance(found, dict):
        return [entry for batches in found.values() for entries in batches for entry in entries]
    return [entry for _stream, entries in found or [] for entry in entries]
