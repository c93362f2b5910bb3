"""One connection to a broker of MQTT 5, over gmqtt.

gmqtt connects, and knows what is in packets. What MQTT asks of both ends after a crash it keeps in memory alone, as
others do: so this answers PUBLISH, PUBREC and PUBREL only when the bridge says so, which also chooses the packet ids.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterable, Mapping
from struct import error as StructError
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

from gmqtt.mqtt.connection import MQTTConnection
from gmqtt.mqtt.handler import MqttPackageHandler
from gmqtt.mqtt.package import CommandWithMidPacket
from gmqtt.mqtt.utils import ConnectionState
from gmqtt.subscription import Subscription

from triack.base.reasons import BridgeReason
from triack.bridges.framing import Packet, PacketReader, packed_length
from triack.bridges.remembered import BYTES_MAX, BrokerAway
from triack.node.config.bridge_table import QOS_MAX

REFUSED_FROM = 0x80
"""Reason codes from here on are refusals (MQTT 5, section 2.4)."""
QUOTA_EXCEEDED = 0x97
"""The one that is about now, and not about the message."""
ID_BYTES = 2
"""Of a packet id; an answer without more says that all is well."""
SUBSCRIBE_ID = 0xFFFF
LAST_ID = SUBSCRIBE_ID - 1
"""The packet id of a SUBSCRIBE, and the last one of messages, which have those from 1 on."""
RECEIVE_MAXIMUM = 0xFFFF
"""What a broker takes at a time when it does not say (MQTT 5, section 3.2.2.3.3)."""
KEEPALIVE_S = 30
"""A broker that is silent for twice as long has gone."""
CONNECT_S = 10.0
"""A broker answers a CONNECT long before, also over a bad link."""
KIND, PUBLISH, RETAIN, DUP = 0xF0, 0x30, 0x01, 0x08
"""Of the first byte of a packet: what it is; and of a PUBLISH its flags."""
ANSWERS = {(1, False): b"\x40\x02", (2, False): b"\x50\x02", (2, True): b"\x70\x02"}
"""PUBACK, PUBREC and PUBCOMP before their packet ids, by what they answer: the QoS, and whether it is a PUBREL."""
FLUSH_PARTS = 100
"""Of packets, four of each PUBLISH: the number sent at a time, so that the broker works meanwhile."""
WRITE_BYTES = 1024 * 1024
DRAIN_S = 0.01
"""Between two looks at what has not left: a mebibyte takes as long on a fast link."""
NO_LOCAL = True
"""What this bridge gives to the broker does not come back by a filter of its own."""
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


logging.getLogger("gmqtt").setLevel(logging.CRITICAL)  # the bridge tells what happens itself


def in_words(code: int) -> str:
    """A reason code of the broker."""
    return f"{_REASONS.get(code, 'it refuses')} (reason code 0x{code:02x})"


NO_PROPERTIES: Mapping[str, Any] = MappingProxyType({})
"""Those of a message that has none."""


class Arrived(NamedTuple):
    """A message of the broker, or with ``released`` its word that the exactly-once exchange of one is over (PUBREL).

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


class Connection(MqttPackageHandler):  # type: ignore[misc] # gmqtt has no types
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
        async def never(*_: object, **__: object) -> None:
            """The bridge connects again itself."""

        def nothing(*_: object, **__: object) -> None:
            """The bridge remembers what is in flight itself."""

        super().__init__(
            connack_event=asyncio.Event(),
            connection_lost_event=asyncio.Event(),
            connection_state=ConnectionState(),
            reconnect_callback=never,
            disconnect_callback=never,
            resend_qos_callback=never,
            clear_qos_callback=nothing,
            connect_properties={},
            subscriptions_getter=list,
            remove_message_callback=nothing,
            store_message_callback=nothing,
            send_command_with_mid_callback=self._send_command,
        )
        self.id_generator = SimpleNamespace(next_id=lambda: SUBSCRIBE_ID)
        self.session_present = False
        self.receive_maximum = RECEIVE_MAXIMUM
        self.packet_bytes_max: int | None = None
        self.may_read = asyncio.Event()
        self.may_read.set()
        self.answered: Callable[..., None] = nothing
        self.completed: Callable[[int], None] = nothing
        self._arrived = arrived
        self._came: list[Arrived] = []
        self._loop = asyncio.get_running_loop()
        self._waiting: set[asyncio.Future[Any]] = set()
        self._lost: asyncio.Future[None] = self._future()
        self._connected: asyncio.Future[None] = self._future()
        self._subscribed: asyncio.Future[list[int]] | None = None
        self._link: Any = None
        self._packets: list[bytes] = []
        self._reader = PacketReader(BYTES_MAX)

    # ---- what the bridge does

    async def open(
        self,
        host: str,
        port: int,
        tls: ssl.SSLContext | None,
        *,
        client_id: str,
        user: str,
        password: str | None,
        session_s: int,
        in_flight: int,
    ) -> None:
        """Connect, and keep the session that the broker may have of this client id.

        Raises:
            BrokerAway: that did not succeed; with the cause.
        """
        try:
            async with asyncio.timeout(CONNECT_S):
                self._link = await MQTTConnection.create_connection(
                    host, port, tls or False, False, KEEPALIVE_S, self._connection_state, self
                )
                self._take_over(self._link._protocol)  # noqa: SLF001 - it has no other way
                await self._link.auth(
                    client_id,
                    user.encode() if user else None,
                    password,
                    session_expiry_interval=session_s,
                    receive_maximum=in_flight,
                )
                await self._connected
        except TimeoutError:
            self.close()
            raise BrokerAway(f"{host}:{port} has not answered for {CONNECT_S:g} s") from None
        except OSError as error:
            raise BrokerAway(f"{host}:{port}: {error.strerror or error}") from None
        except BrokerAway:
            self.close()
            raise

    async def subscribe(self, filters: list[str], qos: int) -> None:
        """Subscribe, or go on with subscriptions of the session. Raises BrokerAway, also when one is refused."""
        self._subscribed = self._future()
        how = {"no_local": NO_LOCAL, "retain_as_published": True, "retain_handling_options": RETAINED_ONCE}
        self._link.subscribe([Subscription(one, qos, **how) for one in filters])
        for one, code in zip(filters, await self._subscribed, strict=True):
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
        first = PUBLISH | again << 3 | qos << 1 | retain
        self._packets += (bytes((first,)), packed_length(len(head) + len(payload)), head, payload)
        if len(self._packets) >= FLUSH_PARTS:
            self.flush()

    def flush(self) -> None:
        """Send everything, in one write."""
        if self._packets:
            self._link.send_package(b"".join(self._packets))
            self._packets.clear()

    async def drain(self) -> None:
        """Send everything, and wait until it has left this process, but for some packets. Raises BrokerAway."""
        self.flush()
        transport = self._link._transport  # noqa: SLF001 - gmqtt does not wait
        while transport.get_write_buffer_size() > WRITE_BYTES:  # noqa: ASYNC110 - it sets no event
            await asyncio.sleep(DRAIN_S)

    def _take_over(self, protocol: Any) -> None:
        """Have what comes read as far as there is room: gmqtt reads on, and keeps packets of whatever size."""
        read = protocol.read

        async def read_when_there_is_room(*given: Any, **named: Any) -> bytes:
            await self.may_read.wait()
            data: bytes = await read(*given, **named)
            return data

        protocol.read, protocol._read_packet = read_when_there_is_room, self._handle_bytes  # noqa: SLF001 - the same

    def release(self, packet_id: int) -> None:
        """Send PUBREL with the next ``flush``; ``completed`` hears of PUBCOMP."""
        self._send_pubrel(packet_id, False)

    def acknowledge(self, batch: Iterable[Arrived]) -> None:
        """Say that messages are on the disk, or that their ids are forgotten there, in one write."""
        self._packets += [ANSWERS[it.qos, it.released] + it.packet_id.to_bytes(ID_BYTES) for it in batch if it.qos]
        self.flush()

    async def wait_lost(self) -> None:
        """Wait for the end. Raises BrokerAway then."""
        await asyncio.shield(self._lost)

    def _future(self) -> "asyncio.Future[Any]":
        """A future whose result comes by this connection; BrokerAway when the connection ends before."""
        future = self._loop.create_future()
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        return future

    def close(self) -> None:
        """Leave; the broker keeps the session."""
        self._fail("the bridge has left")
        if self._link is not None:
            self._link.send_disconnect()
            self._link._keep_connection_callback.cancel()  # noqa: SLF001 - its own `close` waits for the peer
            self._link._transport.close()  # noqa: SLF001 - the same

    async def leave(self) -> None:
        """The same, as the bridge calls it."""
        self.close()

    def _fail(self, why: str) -> None:
        for future in list(self._waiting):
            if not future.done():
                future.set_exception(BrokerAway(why))
                future.exception()  # a wait that was cancelled has not looked

    # ---- what gmqtt calls

    def __call__(self, package: Any) -> None:
        """Handle a packet of gmqtt's own: the connection has ended."""
        self._handle([Packet(package.cmd, package.data)])

    def _handle_bytes(self, data: bytes) -> int:
        """Handle what came. Returns how much of it that was: all."""
        self._link._last_data_in = self._loop.time()  # noqa: SLF001 - gmqtt tells a broker that has gone by it
        self._handle(self._reader.feed(data))
        return len(data)

    def _handle(self, packets: Iterable[Packet]) -> None:
        """Handle packets. What cannot be read ends the connection, and comes again with the next one."""
        try:
            for first, content, too_large in packets:
                if too_large or first & KIND == PUBLISH:
                    self._handle_publish_packet(first, content, too_large)
                else:
                    self.__get_handler__(first)(first, content)
        except (LookupError, ValueError, TypeError, StructError) as error:
            self._fail(f"the broker has sent what cannot be read: {error}")
            self.close()
        if self._came:
            came, self._came = self._came, []
            self._arrived(came)

    def _parse_properties(self, packet: bytes) -> tuple[dict[str, Any], bytes]:
        properties, rest = super()._parse_properties(packet)
        if properties is None:
            raise ValueError("properties that MQTT has not")
        return properties, rest

    def _handle_publish_packet(self, first: int, packet: bytes, too_large: int = 0) -> None:
        qos, end = first >> 1 & 3, 2 + _id_in(packet)
        at = end + ID_BYTES if qos else end
        if first & KIND != PUBLISH:
            raise ValueError(f"a packet of {too_large} bytes that is no message")
        if qos > QOS_MAX or end == ID_BYTES or len(packet) < at:
            raise ValueError("a message without a topic, or of no QoS")
        properties, payload = NO_PROPERTIES, b""
        if not too_large and packet[at]:
            properties, payload = self._parse_properties(packet[at:])
        elif not too_large:
            payload = packet[at + 1 :]
        flags = too_large, bool(first & RETAIN), bool(first & DUP)
        topic, packet_id = packet[2:end].decode(), _id_in(packet[end:at])
        self._came.append(Arrived(packet_id, qos, topic, payload, properties, False, *flags))

    def _send_command(self, command: int, packet_id: int, again: bool, reason_code: int = 0) -> None:
        self._packets.append(CommandWithMidPacket.build_package(command, packet_id, again, reason_code))

    def _handle_connack_packet(self, _command: int, packet: bytes) -> None:
        flags, code = packet[0], packet[1]
        if code:
            self._fail(f"the broker refuses: {in_words(code)}")
            return
        self._connack_properties, _ = self._parse_properties(packet[2:])
        self._update_keepalive_if_needed()
        self.session_present = bool(flags & 1)
        self.receive_maximum = self._connack_properties.get("receive_maximum", [RECEIVE_MAXIMUM])[0]
        self.packet_bytes_max = self._connack_properties.get("maximum_packet_size", [None])[0]
        self._connected.set_result(None)

    def _handle_disconnect_packet(self, _command: int, packet: bytes) -> None:
        """The broker leaves, with a reason, or the connection has ended, with none."""
        self._fail(f"the broker has left: {in_words(packet[0])}" if packet and packet[0] else "the connection is lost")

    def _handle_suback_packet(self, _command: int, packet: bytes) -> None:
        _, codes = self._parse_properties(packet[2:])
        if self._subscribed is not None and not self._subscribed.done():
            self._subscribed.set_result(list(codes))

    def _handle_pubrel_packet(self, _command: int, packet: bytes) -> None:
        self._came.append(Arrived(_id_in(packet), released=True))

    def _handle_puback_packet(self, _command: int, packet: bytes) -> None:
        code = packet[ID_BYTES] if len(packet) > ID_BYTES else 0
        if code < REFUSED_FROM:
            self.answered(_id_in(packet))
        elif code == QUOTA_EXCEEDED:
            self._fail(f"the broker takes nothing more: {in_words(code)}")
        else:
            self.answered(_id_in(packet), (BridgeReason.REJECTED, f"the broker does not take it: {in_words(code)}"))

    _handle_pubrec_packet = _handle_puback_packet

    def _handle_pubcomp_packet(self, _command: int, packet: bytes) -> None:
        self.completed(_id_in(packet))


def _id_in(packet: bytes) -> int:
    return int.from_bytes(packet[:2])
