"""One connection to a broker of MQTT 5, with the packets of gmqtt.

gmqtt knows what is in packets. What MQTT asks of both ends after a crash it keeps in memory alone, as others do: so
this answers PUBLISH, PUBREC and PUBREL only when the bridge says so, which also chooses the packet ids.
"""

import asyncio
import ssl
from asyncio import open_connection
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from struct import error as StructError
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

from gmqtt.mqtt.constants import MQTTCommands as Kind
from gmqtt.mqtt.package import LoginPackageFactor, SubscribePacket
from gmqtt.mqtt.property import Property
from gmqtt.subscription import Subscription

from triack.base.reasons import BridgeReason
from triack.bridges.framing import PacketReader, length_at, packed_length
from triack.bridges.part import BYTES_MAX, BrokerAway
from triack.node.config.bridge_table import QOS_MAX, BridgeTable
from triack.node.control.tasks import first_of

REFUSED_FROM = 0x80
"""Reason codes from here on are refusals (MQTT 5, section 2.4)."""
QUOTA_EXCEEDED = 0x97
"""The one that is about now, and not about the message."""
ID_BYTES = 2
"""Of a packet id; an answer without more says that all is well."""
SUBSCRIBE_ID = 0xFFFF
LAST_ID = SUBSCRIBE_ID - 1
"""The packet id of a SUBSCRIBE, and the last one of messages, which have those from 1 on."""
MQTT_5 = SimpleNamespace(proto_name=b"MQTT", proto_ver=5, id_generator=SimpleNamespace(next_id=lambda: SUBSCRIBE_ID))
"""What gmqtt asks of a connection when it makes packets for it."""
RECEIVE_MAXIMUM = 0xFFFF
"""What a broker takes at a time when it does not say (MQTT 5, section 3.2.2.3.3)."""
KEEPALIVE_S = 60
"""The broker hears from the bridge twice in this time. One that is silent for half of it after that has gone."""
CONNECT_S = 10.0
"""A broker answers a CONNECT long before, also over a bad link."""
KIND, RETAIN, DUP = 0xF0, 0x01, 0x08
"""Of the first byte of a packet: what it is; and of a PUBLISH its flags."""
ANSWERS = {(1, False): b"\x40\x02", (2, False): b"\x50\x02", (2, True): b"\x70\x02"}
"""PUBACK, PUBREC and PUBCOMP before their packet ids, by what they answer: the QoS, and whether it is a PUBREL."""
FLUSH_PARTS = 100
"""Of packets, four of each PUBLISH: the number sent at a time, so that the broker works meanwhile."""
PUBREL, PINGREQ, DISCONNECT = b"\x62\x02", b"\xc0\x00", b"\xe0\x00"
"""The first one before its packet id, the others whole."""
READ_BYTES, WRITE_BYTES = 64 * 1024, 1024 * 1024
"""Of a read; and of what has not left, before more is sent."""
NO_LOCAL = True
"""What this bridge gives to the broker does not come back by a filter of the same bridge."""
RETAINED_ONCE = 1
"""Retained messages come when a subscription begins, and not again with each connection."""

_REASONS = {
    0x84: "it does not speak MQTT 5",
    0x01: "it does not speak MQTT 5",
    0x85: "it does not take this client id",
    0x86: "user name or password is wrong",
    0x87: "the bridge is not authorised",
    0x8A: "the bridge is banned",
    0x8E: "another client has taken over the session: two bridges have the same client id",
    0x93: "more was in flight than the broker takes",
    0x95: "a packet was too large",
    0x97: "its quota is exceeded",
}


def in_words(code: int) -> str:
    """A reason code of the broker."""
    return f"{_REASONS.get(code, 'it refuses')} (reason code 0x{code:02x})"


NO_PROPERTIES: Mapping[str, Any] = MappingProxyType({})
"""Those of a message that has none."""


class Arrived(NamedTuple):
    """A message of the broker, or with ``released`` the end of the exactly-once exchange of one (PUBREL).

    Attributes:
        packet_id, qos, topic, payload, properties: of a message.
        released: see above.
        too_large: the bytes of one that is too large; it has no payload.
        retain: whether the broker retains it.
        again: whether the broker says that it may have sent it before.
    """

    packet_id: int
    qos: int = 2
    topic: str = ""
    payload: bytes = b""
    properties: Mapping[str, Any] = NO_PROPERTIES
    released: bool = False
    too_large: int = 0
    retain: bool = False
    again: bool = False


class Connection:
    """A connection to a broker, from CONNACK on.

    Args:
        arrived: gets the messages and releases that came together, in order.

    Attributes:
        session_present: whether the broker still has the session.
        receive_maximum: how many messages of QoS 1 and 2 it takes at a time.
        packet_bytes_max: how large a packet it takes; None if it does not say.
        may_read: set while what it sends is read.
        answered: gets the packet id of each message that the broker has, or never takes, with the reason.
        completed: gets each packet id that it has released.
    """

    def __init__(self, arrived: Callable[[list[Arrived]], None]) -> None:
        self.session_present = False
        self.receive_maximum = RECEIVE_MAXIMUM
        self.packet_bytes_max: int | None = None
        self.may_read = asyncio.Event()
        self.may_read.set()
        self.answered: Callable[..., None] = lambda *_: None
        self.completed: Callable[[int], None] = lambda _: None
        self._arrived = arrived
        self._came: list[Arrived] = []
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter | None = None
        self._framing = PacketReader(BYTES_MAX)
        self._packets: list[bytes] = []
        self._is_connected = False
        self._has_heard = True
        self._ping_s = KEEPALIVE_S / 2
        self._granted: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    # ---- what the bridge does

    async def open(self, table: BridgeTable, name: str, tls: ssl.SSLContext | None, password: str | None) -> None:
        """Connect, and keep the session that the broker may have of this client. Raises BrokerAway, with the cause."""
        host, port, _ = table.address
        user, secret = table.user.encode() or None, None if password is None else password.encode()
        who = (table.client_id or name).encode(), user, secret
        wanted = {"session_expiry_interval": int(table.session_s), "receive_maximum": table.in_flight}
        try:
            async with asyncio.timeout(CONNECT_S):
                self._reader, self._writer = await open_connection(host, port, ssl=tls)
                self._writer.transport.set_write_buffer_limits(WRITE_BYTES)
                self._write(LoginPackageFactor.build_package(*who, False, KEEPALIVE_S, MQTT_5, **wanted))
                while not self._is_connected:
                    await self._read()
        except TimeoutError:
            raise BrokerAway(f"{host}:{port} has not answered for {CONNECT_S:g} s") from None
        except OSError as error:
            raise BrokerAway(f"{host}:{port}: {error.strerror or error}") from None

    async def run(self) -> None:
        """Handle what the broker sends. Raises BrokerAway, or OSError, at the end of the connection."""
        await first_of(self._read_all(), self._keep_alive())

    async def _read_all(self) -> None:
        while True:
            await self.may_read.wait()
            await self._read()

    async def _keep_alive(self) -> None:
        while self._has_heard or not self.may_read.is_set():
            self._has_heard = False
            self._write(PINGREQ)
            await asyncio.sleep(self._ping_s)
        raise BrokerAway(f"the broker has been silent for {self._ping_s:g} s")

    async def subscribe(self, filters: Sequence[str], qos: int) -> None:
        """Subscribe, or go on with subscriptions of the session. Raises BrokerAway, also when one is refused."""
        how = {"no_local": NO_LOCAL, "retain_as_published": True, "retain_handling_options": RETAINED_ONCE}
        _, packet = SubscribePacket.build_package([Subscription(one, qos, **how) for one in filters], MQTT_5)
        self._write(packet)
        codes = await self._granted
        if len(codes) != len(filters):
            raise BrokerAway(f"the broker has answered {len(codes)} subscriptions of {len(filters)}")
        for one, code in zip(filters, codes, strict=True):
            if code >= REFUSED_FROM:
                raise BrokerAway(f"the broker refuses the subscription to {one}: {in_words(code)}")
            if code < qos:
                raise BrokerAway(f"the broker grants QoS {code} for {one}, and the bridge has {qos}")

    def publish(
        self, packet_id: int, topic: bytes, properties: bytes, payload: bytes, qos: int, *, retain: bool, again: bool
    ) -> None:
        """Send a message with the next ``flush``; ``answered`` hears of PUBACK or PUBREC.

        Args:
            packet_id: of no message without an answer; 0 at QoS 0.
            topic: with its length before it.
            properties: the same.
            payload: of the message.
            qos: of the message.
            retain: whether the broker retains it.
            again: whether the broker may have it.
        """
        head = (topic + packet_id.to_bytes(ID_BYTES) if qos else topic) + properties
        first = Kind.PUBLISH | again << 3 | qos << 1 | retain
        self._packets += (bytes((first,)), packed_length(len(head) + len(payload)), head, payload)
        if len(self._packets) >= FLUSH_PARTS:
            self.flush()

    def flush(self) -> None:
        """Send everything, in one write."""
        if self._packets:
            self._write(b"".join(self._packets))
            self._packets.clear()

    def _write(self, data: bytes) -> None:
        assert self._writer is not None
        self._writer.write(data)

    async def drain(self) -> None:
        """Send everything, and wait until it has left this process, but for some packets.

        Raises BrokerAway if the broker reads nothing, or OSError.
        """
        self.flush()
        assert self._writer is not None
        try:
            async with asyncio.timeout(KEEPALIVE_S / 2):
                await self._writer.drain()
        except TimeoutError:
            raise BrokerAway(f"the broker has read nothing for {KEEPALIVE_S / 2:g} s") from None

    def release(self, packet_id: int) -> None:
        """Send PUBREL with the next ``flush``; ``completed`` hears of PUBCOMP."""
        self._packets.append(PUBREL + packet_id.to_bytes(ID_BYTES))

    async def acknowledge(self, batch: Iterable[Arrived]) -> None:
        """Say that messages are on the disk, or that their ids are forgotten there. Raises as ``drain``."""
        self._packets += [ANSWERS[it.qos, it.released] + it.packet_id.to_bytes(ID_BYTES) for it in batch if it.qos]
        await self.drain()

    async def leave(self) -> None:
        """Leave; the broker keeps the session."""
        if self._writer is None:
            return
        self._write(DISCONNECT)
        transport = self._writer.transport
        if transport.get_write_buffer_size():  # a broker that reads nothing would keep the connection open
            transport.abort()
        transport.close()

    # ---- what the broker says

    async def _read(self) -> None:
        data = await self._reader.read(READ_BYTES)
        if not data:
            raise BrokerAway("the connection is lost")
        self._has_heard = True
        if not self._is_connected and data[0] != Kind.CONNACK:
            raise BrokerAway("what answers there does not speak MQTT")
        try:
            for first, content, too_large in self._framing.feed(data):
                self._handle(first, content, too_large)
        except (LookupError, ValueError, TypeError, StructError) as error:
            raise BrokerAway(f"the broker has sent what cannot be read: {error}") from None
        finally:
            if self._came:
                came, self._came = self._came, []
                self._arrived(came)

    def _handle(self, first: int, packet: bytes, too_large: int) -> None:
        match first & KIND:
            case Kind.PUBLISH:
                self._handle_publish(first, packet, too_large)
            case _ if too_large:
                raise ValueError(f"a packet of {too_large} bytes that is no message")
            case Kind.PUBREL:
                self._came.append(Arrived(_id_in(packet), released=True))
            case Kind.PUBACK | Kind.PUBREC:
                self._handle_answer(packet)
            case Kind.PUBCOMP:
                self.completed(_id_in(packet))
            case Kind.CONNACK if not self._is_connected:
                self._handle_connack(packet)
            case Kind.SUBACK if not self._granted.done():
                self._granted.set_result(_properties_in(packet[ID_BYTES:])[1])
            case Kind.DISCONNECT:
                raise BrokerAway("the broker has left" + (f": {in_words(packet[0])}" if any(packet[:1]) else ""))
            case Kind.PINGRESP:
                pass
            case kind:
                raise ValueError(f"a packet of kind 0x{kind:02x}, which has no place here")

    def _handle_connack(self, packet: bytes) -> None:
        flags, code = packet[0], packet[1]
        if code:
            raise BrokerAway(f"the broker refuses: {in_words(code)}")
        said, _ = _properties_in(packet[2:])
        self._ping_s = min([self._ping_s, *(asked / 2 for asked in said.get("server_keep_alive", ()) if asked)])
        self.session_present = bool(flags & 1)
        (self.receive_maximum,) = said.get("receive_maximum", [RECEIVE_MAXIMUM])
        (self.packet_bytes_max,) = said.get("maximum_packet_size", [None])
        if 0 in (self.receive_maximum, self.packet_bytes_max):
            raise ValueError("a CONNACK by which it takes nothing")
        self._is_connected = True

    def _handle_publish(self, first: int, packet: bytes, too_large: int) -> None:
        qos, end = first >> 1 & 3, 2 + _id_in(packet)
        at = end + ID_BYTES if qos else end
        if qos > QOS_MAX or end == ID_BYTES or len(packet) < at:
            raise ValueError("a message without a topic, or of no QoS")
        properties, payload = NO_PROPERTIES, b""
        if not too_large and packet[at]:
            properties, payload = _properties_in(packet[at:])
        elif not too_large:
            payload = packet[at + 1 :]
        flags = too_large, bool(first & RETAIN), bool(first & DUP)
        packet_id, topic = _id_in(packet[end:at]) if qos else 0, packet[2:end].decode()
        self._came.append(Arrived(packet_id, qos, topic, payload, properties, False, *flags))

    def _handle_answer(self, packet: bytes) -> None:
        """PUBACK, or PUBREC."""
        packet_id, code = _id_in(packet), packet[ID_BYTES] if len(packet) > ID_BYTES else 0
        if code < REFUSED_FROM:
            self.answered(packet_id)
        elif code == QUOTA_EXCEEDED:
            raise BrokerAway(f"the broker takes nothing more: {in_words(code)}")
        else:
            self.answered(packet_id, (BridgeReason.REJECTED, f"the broker does not take it: {in_words(code)}"))


def _id_in(packet: bytes) -> int:
    """A packet id, or a length."""
    return packet[0] << 8 | packet[1]


def _properties_in(packet: bytes) -> tuple[dict[str, list[Any]], bytes]:
    """The properties at the beginning of a part of a packet, as gmqtt names them, and what is behind them."""
    size, at = length_at(packet, 0) or (len(packet), 0)
    rest, behind = packet[at : at + size], packet[at + size :]
    if len(rest) < size or not at:
        raise ValueError("properties that are cut off")
    found: dict[str, list[Any]] = defaultdict(list)
    while rest:
        known = Property.factory(id_=rest[0])
        if known is None:
            raise ValueError(f"a property {rest[0]}, which MQTT has not")
        said, rest = known.loads(rest[1:])
        for name, value in said.items():
            found[name].append(value)
    return found, behind
