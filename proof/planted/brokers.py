"""Brokers in a simulated world that keep the promises of their protocols, and nothing else of them.

Bridges use them in place of the connections of gmqtt and aiormq, so that all code of a bridge runs as it is. A broker
keeps what it has acknowledged, and what was not acknowledged to it, however its connections end: it resends the latter.
Packets travel for some milliseconds, in their order, and are lost with their connection.
"""

import asyncio
import struct
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from aiormq import spec
from aiormq.exceptions import ConnectionClosed

from triack.bridges import amqp_link

DELAY_S = 0.01
PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = 0x30, 0x40, 0x50, 0x60, 0x70
CONNECT, CONNACK, SUBSCRIBE, SUBACK = 0x10, 0x20, 0x80, 0x90
DUP = 0x08
HAS_MORE, LOW_BITS = 0x80, 0x7F


class Broker(ABC):
    """What both protocols have in common."""

    def __init__(self, chance: Random) -> None:
        self.waiting: deque[bytes] = deque()
        self.out: list[bytes] = []
        self.is_up = True
        self.most = 0
        self._chance = chance
        self._open: object = None
        self._at_s = 0.0
        self._end: Callable[[], None] = lambda: None

    def put(self, payload: bytes) -> None:
        """A publisher has a message for the bridge."""
        self.waiting.append(payload)
        self._send_more()

    def drop(self) -> None:
        """The connection ends, if there is one; all that is in flight is lost."""
        self._open, end = None, self._end
        self._end = lambda: None
        end()

    def _accept(self, link: object, end: Callable[[], None]) -> None:
        """A bridge connects; an older connection ends. Raises ConnectionRefusedError."""
        if not self.is_up:
            raise ConnectionRefusedError(111, "Connection refused")
        self.drop()
        self._open, self._end = link, end

    def _later(self, link: object, call: Callable[..., object], *given: object) -> None:
        loop = asyncio.get_running_loop()
        self._at_s = max(self._at_s + 1e-6, loop.time() + DELAY_S * self._chance.random())

        def arrive() -> None:
            if self._open is link:
                call(*given)

        loop.call_at(self._at_s, arrive)

    @property
    def is_empty(self) -> bool:
        """Whether the bridge has acknowledged all messages."""
        return not self.waiting

    @abstractmethod
    def _send_more(self) -> None:
        """Send what waits, as far as the bridge accepts it."""

    @abstractmethod
    def patched(self) -> AbstractContextManager[object]:
        """Have bridges connect to it."""


class MqttBroker(Broker):
    """A broker of MQTT 5 with one session, which outlives its connections.

    Args:
        chance: decides how long packets travel.
        qos: of the subscription.
        most: how many messages it sends that were not acknowledged.
    """

    def __init__(self, chance: Random, qos: int, most: int) -> None:
        super().__init__(chance)
        self.most = most
        self._qos = qos
        # Messages in flight to the bridge, by packet id in the order of sending; None from PUBREC to PUBCOMP.
        self._sent: dict[int, bytes | None] = {}
        # Packet ids of QoS 2 of the bridge, from PUBLISH to PUBREL.
        self._held: set[int] = set()
        self._has_session = self._is_subscribed = False
        self._last_id = 0

    @property
    def is_empty(self) -> bool:
        """See ``Broker``."""
        return not self.waiting and not self._sent

    def patched(self) -> AbstractContextManager[object]:
        """See ``Broker``."""
        return patch("triack.bridges.mqtt_link.open_connection", self._connect)

    async def _connect(self, *_: object, **__: object) -> tuple[asyncio.StreamReader, "_MqttLink"]:
        link = _MqttLink(self)
        self._accept(link, link.reader.feed_eof)
        self._is_subscribed = False
        return link.reader, link

    def _begin(self, link: "_MqttLink") -> None:
        """CONNECT."""
        self._later(link, link.take, CONNACK, bytes((self._has_session, 0, 0)))
        self._has_session = True

    def _subscribe(self, link: "_MqttLink") -> None:
        """SUBSCRIBE: what was not acknowledged is sent first."""
        self._later(link, link.take, SUBACK, b"\xff\xff\0" + bytes([self._qos]))
        self._is_subscribed = True
        for packet_id, payload in self._sent.items():
            if payload is None:
                self._later(link, link.take, PUBREL, struct.pack("!H", packet_id))
            else:
                self._publish(link, packet_id, payload, DUP)
        self._send_more()

    def leave(self, link: "_MqttLink") -> None:
        """The bridge has closed its connection."""
        if self._open is link:
            self.drop()

    def _publish(self, link: "_MqttLink", packet_id: int, payload: bytes, flags: int = 0) -> None:
        data = struct.pack("!H2sH", 2, b"in", packet_id) + b"\0" + payload
        self._later(link, link.take, PUBLISH | flags | self._qos << 1, data)

    def _send_more(self) -> None:
        link = self._open
        while isinstance(link, _MqttLink) and self._is_subscribed and self.waiting and len(self._sent) < self.most:
            self._last_id = self._last_id % 0xFFFE + 1
            self._sent[self._last_id] = payload = self.waiting.popleft()
            self._publish(link, self._last_id, payload)

    def handle(self, link: "_MqttLink", first: int, data: bytes) -> None:
        """A packet of the bridge has arrived."""
        kind, qos = first & 0xF0, first >> 1 & 3
        if kind == PUBLISH:
            self._handle_publish(link, qos, data[2 + int.from_bytes(data[:2]) :])
            return
        packet_id = int.from_bytes(data[:2])
        if kind == CONNECT:
            self._begin(link)
        elif kind == SUBSCRIBE:
            self._subscribe(link)
        elif kind == PUBREC and packet_id in self._sent:
            self._sent[packet_id] = None
            self._later(link, link.take, PUBREL, data[:2])
        elif kind in (PUBACK, PUBCOMP):
            self._sent.pop(packet_id, None)
            self._send_more()
        elif kind == PUBREL:
            self._held.discard(packet_id)
            self._later(link, link.take, PUBCOMP, data[:2])

    def _handle_publish(self, link: "_MqttLink", qos: int, data: bytes) -> None:
        packet_id, data = (data[:2], data[2:]) if qos else (b"", data)
        size, at = _length_in(data, 0)
        number = int.from_bytes(packet_id)
        if qos < 2 or number not in self._held:  # noqa: PLR2004 - exactly once
            self.out.append(data[at + size :])
        if qos:
            self._later(link, link.take, PUBACK if qos == 1 else PUBREC, packet_id)
        if qos > 1:
            self._held.add(number)


class _MqttLink:
    """One connection to it, in place of the writer of a stream."""

    def __init__(self, broker: MqttBroker) -> None:
        self._broker = broker
        self.reader = asyncio.StreamReader()
        nothing: Callable[..., None] = lambda *_: None  # noqa: E731 - several names for it
        self.transport = SimpleNamespace(
            get_write_buffer_size=lambda: 0, set_write_buffer_limits=nothing, close=partial(broker.leave, self)
        )

    async def drain(self) -> None:
        """The network takes all that there is."""

    def write(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            size, begin = _length_in(data, at + 1)
            self._broker._later(self, self._broker.handle, self, data[at], data[begin : begin + size])
            at = begin + size

    def take(self, first: int, data: bytes) -> None:
        """A packet of the broker has arrived."""
        self.reader.feed_data(bytes((first, len(data))) + data)


def _length_in(data: bytes, at: int) -> tuple[int, int]:
    size = shift = 0
    while True:
        size |= (data[at] & LOW_BITS) << shift
        shift += 7
        at += 1
        if not data[at - 1] & HAS_MORE:
            return size, at


class AmqpBroker(Broker):
    """A broker of AMQP 0-9-1 with a queue for the bridge, and one that the bridge fills."""

    def __init__(self, chance: Random) -> None:
        super().__init__(chance)
        self._unacked: dict[int, tuple[bytes, bool]] = {}
        self._again = 0
        self._ids = iter(range(1 << 60))
        self._named: dict[bytes, str] = {}

    @property
    def is_empty(self) -> bool:
        """See ``Broker``."""
        return not self.waiting and not self._unacked

    def patched(self) -> AbstractContextManager[object]:
        """See ``Broker``."""
        return patch.object(amqp_link, "Connection", lambda *_, **__: _AmqpConnection(self))

    def drop(self) -> None:
        """The unacknowledged messages are back in the queue, at its front."""
        back = [payload for payload, _ in self._unacked.values()]
        self._unacked.clear()
        self.waiting.extendleft(reversed(back))
        self._again += len(back)
        super().drop()

    def _send_more(self) -> None:
        link = self._open
        while isinstance(link, _AmqpConnection) and link.reader and self.waiting and len(self._unacked) < self.most:
            payload, again = self.waiting.popleft(), self._again > 0
            self._again -= again
            link.tag += 1
            self._unacked[link.tag] = payload, again
            name = self._named.setdefault(payload, f"m{next(self._ids)}")
            said = spec.Basic.Deliver("0", link.tag, redelivered=again, exchange="", routing_key="in")
            header = SimpleNamespace(properties=spec.Basic.Properties(message_id=name), body_size=len(payload))
            self._later(link, link.deliver, SimpleNamespace(delivery=said, body=payload, header=header))

    def acknowledge(self, tag: int) -> None:
        """basic.ack, of a message and all before it."""
        for one in [one for one in self._unacked if one <= tag]:
            del self._unacked[one]
        self._send_more()

    def take(self, link: "_AmqpConnection", payload: bytes, confirmed: "asyncio.Future[object]") -> None:
        """basic.publish: it is confirmed when it is on the disk."""
        self.out.append(payload)

        def confirm() -> None:
            if not confirmed.done():
                confirmed.set_result(spec.Basic.Ack(1))

        self._later(link, confirm)


class _AmqpConnection:
    """One connection to it, and its channels, in place of aiormq's."""

    def __init__(self, broker: AmqpBroker) -> None:
        self._broker = broker
        self._confirms: list[asyncio.Future[Any]] = []
        self.closing: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.connection_tune = SimpleNamespace(frame_max=131_072)
        self.on_consumer_cancel_callbacks: set[object] = set()
        self.reader: Any = None
        self.tag = 0
        self._read_content = self._on_deliver_frame = None

    async def connect(self) -> None:
        self._broker._accept(self, self._fail)

    async def channel(self, **_: object) -> "_AmqpConnection":
        return self

    async def basic_qos(self, *, prefetch_count: int) -> None:
        self._broker.most = prefetch_count

    async def basic_consume(self, _queue: str, reader: object, **_: object) -> None:
        self.reader = reader
        self._broker._send_more()

    async def basic_ack(self, tag: int, **_: object) -> None:
        self._broker._later(self, self._broker.acknowledge, tag)

    async def exchange_declare(self, *_: object, **__: object) -> None:
        """Each exchange exists."""

    async def basic_publish(self, payload: bytes, **_: object) -> object:
        if self.closing.done():
            raise ConnectionClosed(320, "the broker has gone")
        confirmed: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._confirms.append(confirmed)
        self._broker._later(self, self._broker.take, self, payload, confirmed)
        return await confirmed

    def deliver(self, message: object) -> None:
        """A message of the broker has arrived."""
        _finish(self.reader(message))

    async def close(self) -> None:
        if self._broker._open is self:
            self._broker.drop()

    def _fail(self) -> None:
        for future in (self.closing, *self._confirms):
            if not future.done():
                future.set_exception(ConnectionClosed(320, "the broker has gone"))
                future.exception()


def _finish(handler: Any) -> None:
    try:
        handler.send(None)
    except StopIteration:
        return
    raise AssertionError("the bridge waits where it handles what has arrived")
