"""Triack itself, through its public interface."""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any, Self

import triack
from triack.base.commit import Commit
from triack.base.paths import UdpSockets
from triack.node.files import operator_log
from triack.node.shell.platform import PLATFORM, Platform
from triack.queues.stages import STAGES
from triack.store.store import Store
from triack.tools.bench.application import Facts, Inlet, Outlet, Sink
from triack.tools.bench.process import is_memory
from triack.tools.bench.work import Work, is_plain, noise_of
from triack.transport.connection import NO_WAITS, Waits
from triack.transport.endpoint import Endpoint
from triack.transport.tcp import Tls

SENDER, RECEIVER, HUB, QUEUE = "sender", "receiver", "hub", "bench"
TOPIC = "Bench"
ACKS = "acks"
WANTED = triack.Acks.POSITIVE_ARRIVAL | triack.Acks.POSITIVE_RECEIVE
ARRIVED, RECEIVED = triack.MessageClass.ACK_REACH_QUEUE, triack.MessageClass.ACK_RECEIVE
JOURNAL = triack.Journal(messages=100_000_000, size_bytes=64 * 1024**3)
LOOK_AGAIN_S = 0.01
LOOK_FIRST, LOOK_EVERY = 16, 64
"""The first bursts are searched for readable bodies, and one in this many of the others."""
_FULL = 2


class _Store(Store):
    """A store that counts its commits; each is synced before it returns."""

    commits = 0
    stored_bytes = 0

    def apply(self, commit: Commit) -> None:
        super().apply(commit)
        self.commits += 1
        self.stored_bytes += sum(len(body) for row in commit.messages for body in row.bodies)

    @property
    def is_synced(self) -> bool:
        """Whether SQLite is set to sync every commit, of a file on a disk."""
        on_disk = not self.in_memory and not is_memory(Path(self.path))
        return on_disk and self._db.pragma("synchronous") == _FULL


class Counting(Platform):
    """This machine, counting what a node has written to its disk and its sockets."""

    def __init__(self, noise: bytes) -> None:
        self._noise = noise
        self._store: _Store | None = None
        self.bursts = self.datagrams = self.bytes = self.looked = self.plain = 0

    def open_store(
        self,
        data: Path | None,
        log_bytes: int | None = None,  # noqa: ARG002 - the default
        *,
        torn: bool = False,  # noqa: ARG002 - all is synced
    ) -> Store:
        """The node's store."""
        self._store = _Store(data)
        return self._store

    async def open_endpoint(
        self,
        scheme: str,
        listen: str | None,
        *,
        loopback_only: bool,
        tls: Tls | None = None,
        waits: Waits = NO_WAITS,
        udp: UdpSockets | None = None,
    ) -> Endpoint:
        """An endpoint whose bursts are counted."""
        endpoint = await super().open_endpoint(
            scheme, listen, loopback_only=loopback_only, tls=tls, waits=waits, udp=udp
        )
        send = endpoint.send

        def counted(datagrams: list[bytes], to: str) -> Awaitable[None]:
            self.bursts += 1
            self.datagrams += len(datagrams)
            self.bytes += sum(map(len, datagrams))
            if self.bursts <= LOOK_FIRST or self.bursts % LOOK_EVERY == 0:
                self.looked += 1
                self.plain += any(is_plain(datagram, self._noise) for datagram in datagrams)
            return send(datagrams, to)

        endpoint.send = counted  # type: ignore[method-assign]
        return endpoint

    def facts(self) -> Facts:
        """Its counts."""
        store = self._store
        return {
            "commits": store.commits if store is not None else 0,
            "stored_bytes": store.stored_bytes if store is not None else 0,
            "synced": store is not None and store.is_synced,
            "datagrams": self.datagrams,
            "wire_bytes": self.bytes,
            "looked": self.looked,
            "plain": self.plain,
        }


def settings_of(work: Work) -> triack.NodeSettings:
    """Default settings, except those that the row names."""
    limits = triack.Limits(queue_journal={QUEUE: JOURNAL} if work.journal else {})
    if work.transport == "tcp":
        session = triack.SessionSettings(max_unacked_packet=work.window)
        return triack.NodeSettings(session=session, limits=limits, stream_datagram_bytes=work.datagram_bytes)
    session = triack.SessionSettings(
        max_unacked_packet=work.window, max_datagram_bytes=work.datagram_bytes, congestion=work.congestion
    )
    return triack.NodeSettings(session=session, limits=limits, udp=work.udp)


def _log_bytes(log: str | None) -> int:
    return sum(file.stat().st_size for file in Path(log).iterdir()) if log and Path(log).is_dir() else 0


class End:
    """A node of a run."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.work = Work(**options["work"])
        self._platform = Counting(noise_of(self.work.size))
        self._stack = contextlib.AsyncExitStack()
        self._log: str | None = options["log"] if self.work.log else None

    async def open(self, name: str, **further: Any) -> triack.Node:
        """Open the node, until ``close``."""
        if not self.work.complete:  # it ends with messages in flight on purpose
            logging.getLogger(operator_log.NAME).setLevel(logging.ERROR)
        token = PLATFORM.set(self._platform)
        try:
            node = triack.open(
                name,
                data=self.options["data"],
                log=self._log,
                insecure=self.work.insecure,
                settings=settings_of(self.work),
                **further,
            )
        finally:
            PLATFORM.reset(token)
        return await self._stack.enter_async_context(node)

    async def close(self) -> None:
        """Close it."""
        await self._stack.aclose()

    def facts(self) -> Facts:
        """The counts of the node."""
        found = self._platform.facts()
        # Express messages are on no disk, whatever else the node writes there.
        is_kept = self.work.delivery != "express"
        return {**found, "synced": found["synced"] and is_kept, "log_bytes": _log_bytes(self._log)}


class OwnOutlet(Outlet):
    """A node that sends."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._end = End(options)
        work, found = self._end.work, options["found"]
        self._delivery = triack.Delivery[work.delivery.upper()]
        self._destination = f"{found['address'] if work.insecure else RECEIVER}/{place_of(work)}"
        self._in_flight = work.in_flight
        self.batch = max(1, min(Outlet.batch, work.in_flight // 8))
        self._marks: deque[tuple[int, triack.Receipts]] = deque()
        self._sent = self._done = self._read = 0
        self._answers: asyncio.Task[None] | None = None
        self._first_s = self._answered_s = 0.0
        self._properties: triack.MessageProperties = {"admin_queue": ACKS, "acks": WANTED} if work.acks else {}

    async def __aenter__(self) -> Self:
        found = self._end.options["found"]
        is_relayed = bool(found.get("is_hub"))
        self._node = await self._end.open(SENDER, routes=[triack.Route(RECEIVER, HUB)] if is_relayed else [])
        if not self._end.work.insecure:
            await self._node.trust(HUB if is_relayed else RECEIVER, found["key"], found["address"])
        if self._properties:
            self._answers = asyncio.create_task(self._read_answers())
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._answers is not None:
            self._answers.cancel()
        await self._end.close()

    async def _read_answers(self) -> None:
        async with self._node.receive(ACKS) as answers:
            while True:
                for answer in await answers.get_many():
                    self._read += answer.message_class in (ARRIVED, RECEIVED)
                self._answered_s = time.monotonic() - self._first_s

    async def put(self, bodies: Sequence[bytes]) -> None:
        """Send messages; wait when too many are not acknowledged by the ack of their class."""
        while self._sent + len(bodies) - self._done > self._in_flight and self._marks:
            await self._pass_mark()
        self._first_s = self._first_s or time.monotonic()
        receipts = await self._node.send_many(self._destination, bodies, delivery=self._delivery, **self._properties)
        self._sent += len(bodies)
        self._marks.append((self._sent, receipts))

    async def _pass_mark(self) -> None:
        sent, receipts = self._marks.popleft()
        await receipts.reached(STAGES[self._delivery])
        self._done = sent

    async def settle(self) -> None:
        """Wait for the ack of the class for all of them."""
        while self._marks:
            await self._pass_mark()
        while self._answers is not None and self._read < 2 * self._sent:
            if self._answers.done():
                self._answers.result()
            await asyncio.sleep(LOOK_AGAIN_S)

    async def flush(self) -> None:
        """Wait until everything that was put is on this node's disk."""
        await self._node.flush()

    def facts(self) -> Facts:
        """The counts of the node."""
        return {**self._end.facts(), "answered_s": self._answered_s}


def place_of(work: Work) -> str:
    """Where messages go: to a queue, or to a topic where each has many readers."""
    return f"topic:{TOPIC}" if work.readers else QUEUE


async def _read(messages: triack.Consumer, sink: Sink) -> None:
    while True:
        sink.take((await messages.get_many()).bodies)


class OwnInlet(Inlet):
    """A node that receives."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._end = End(options)
        self._readers = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        options, work = self._end.options, self._end.work
        listen = f"{work.transport}://{options.get('host', '127.0.0.1')}:{options.get('port', 0)}"
        # The sender would bypass the link between them if it knew the address.
        announce = "" if options.get("is_behind") else None
        place = place_of(work)
        self._node = await self._end.open(RECEIVER, listen=listen, queues=[place], announce=announce)
        if hub_key := options.get("hub_key"):
            await self._node.trust(HUB, hub_key, send=[place], relays_for=[SENDER])
        elif not work.insecure:
            await self._node.trust(SENDER, options["sender_key"], send=[place])
        # Before the sender knows this node: a subscription gets what arrives after it began.
        self._subscriptions = [
            await self._readers.enter_async_context(self._node.subscribe(TOPIC)) for _ in range(work.readers)
        ]
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._readers.aclose()
        await self._end.close()

    def found(self) -> Facts:
        """Its address and its key."""
        return {"address": self._node.address, "key": "" if self._end.work.insecure else self._node.key}

    async def run(self, sink: Sink) -> None:
        """Hand messages to the application as they come, in lists."""
        async with self._node.receive(QUEUE) as messages:
            await _read(messages, sink)

    async def run_all(self, sinks: Sequence[Sink]) -> None:
        """The same with a subscription for each."""
        await asyncio.gather(*map(_read, self._subscriptions, sinks))

    def facts(self) -> Facts:
        """The counts of the node."""
        return self._end.facts()
