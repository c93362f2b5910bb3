"""Another wire protocol over real TCP: its own codec and framer, and the same machines of a session."""

import asyncio
from contextlib import suppress
from time import monotonic_ns

from tests.machine import PATIENCE_S
from tests.session.text_dialect import LineFramer, TextCodec
from triack.base.delivery import Delivery
from triack.base.units import SECOND
from triack.session.protocol.codec import Codec
from triack.session.protocol.events import (
    Event,
    PacketArrived,
    PacketsAcked,
    PacketsStored,
    SessionClosed,
    Transmit,
    TransmitKind,
)
from triack.session.protocol.frames import Hello
from triack.session.protocol.path_traits import TCP
from triack.session.protocol.settings import SessionSettings
from triack.session.protocol.states import CloseReason
from triack.session.session import Session
from triack.transport.address import Address
from triack.transport.tcp import TcpEndpoint, Tls

CODEC: Codec = TextCodec()
PATIENT = SessionSettings(
    max_datagram_bytes=60_000,
    ack_timeout_s=PATIENCE_S,
    store_ack_timeout_s=PATIENCE_S,
    connect_timeout_s=PATIENCE_S,
    drain_timeout_s=PATIENCE_S,
)
MESSAGES = [b"message %d; of many" % number for number in range(300)]


class Recorded(LineFramer):
    """Keeps what passes."""

    stream = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Bytes from a peer."""
        Recorded.stream += data
        return super().feed(data)


class End:
    """A session on an endpoint: what is stored here is on the disk at once."""

    def __init__(self, endpoint: TcpEndpoint, session: Session | None = None, peer: str = "") -> None:
        self.endpoint, self.session, self.peer = endpoint, session, peer
        self.events: list[Event] = []
        self.unsent: list[bytes] = []

    async def talk(self) -> None:
        """Until the session is closed, and its last frame is sent."""
        while self.session is None or not self.session.is_closed:
            deadline_ns = None if self.session is None else self.session.next_deadline()
            wait_s = PATIENCE_S if deadline_ns is None else max(0, deadline_ns - monotonic_ns()) / SECOND
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    for line, sender in await self.endpoint.receive():
                        self.handle_line(line, sender)
            await self.pump()

    def handle_line(self, line: bytes, sender: str) -> None:
        """A datagram, or the end of the connection."""
        self.peer = sender
        self.endpoint.vouch(sender)
        if not line:
            return
        kind, counter, payload = line.split(b" ", 2)
        if kind == b"DATA":
            assert self.session is not None
            self.session.handle_datagram(payload, int(counter), monotonic_ns())
        elif self.session is None:
            self.session = make_session(2, CODEC.decode_hello(payload))
        else:
            self.session.handle_hello(CODEC.decode_hello(payload), monotonic_ns())

    async def pump(self) -> None:
        """Take what the session reports, and send what it says. When all messages are stored at the peer, it drains."""
        if self.session is None:
            return
        now_ns, session = monotonic_ns(), self.session
        session.handle_timer(now_ns)
        self.take_events(session, now_ns)
        if sum(len(event.packets) for event in self.events if isinstance(event, PacketsStored)) == len(MESSAGES):
            session.drain(now_ns)
            self.take_events(session, now_ns)
        while self.unsent and session.room:
            session.send_packet(Delivery.TRANSACTIONAL, self.unsent.pop(0), None)
        while (run := session.poll_run(now_ns)) is not None:
            numbered = enumerate(run.payloads, run.counter)
            await self.send(*(Transmit(TransmitKind.DATA, 0, counter, payload) for counter, payload in numbered))
        while (transmit := session.poll_transmit(now_ns)) is not None:
            await self.send(transmit)

    def take_events(self, session: Session, now_ns: int) -> None:
        """Store every packet that arrived."""
        while (event := session.poll_event()) is not None:
            self.events.append(event)
            if isinstance(event, PacketArrived) and not event.duplicate:
                session.handle_stored([event.number], now_ns)

    async def send(self, *said: Transmit) -> None:
        """Each as a line."""
        lines = [f"{one.kind.name} {one.counter} ".encode() + one.payload for one in said]
        await self.endpoint.send(lines, self.peer)


def make_session(node: int, peer: Hello | None = None) -> Session:
    return Session(
        PATIENT,
        CODEC,
        session_id=7 if peer is None else peer.session_id,
        connection_id=node,
        introduction=b"node %d" % node,
        peer=peer,
        overhead_bytes=len("DATA 18446744073709551615 "),
        traits=TCP,
        now_ns=monotonic_ns(),
    )


async def test_sessions_speak_a_text_protocol_over_tcp() -> None:
    """Every packet arrives once, is acknowledged and stored; then the sender drains, and both ends close."""
    place = Address.parse("tcp://127.0.0.1:0", listening=True)
    there = await TcpEndpoint.open(place, loopback_only=True, tls=Tls(), framer=Recorded)
    here = await TcpEndpoint.open(None, loopback_only=True, tls=Tls(), framer=LineFramer)
    session = make_session(1)
    a, b = End(here, session, there.address), End(there)
    a.unsent = list(MESSAGES)
    try:
        await a.pump()
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as ends:
            ends.create_task(a.talk())
            ends.create_task(b.talk())
    finally:
        await asyncio.gather(here.close(), there.close())
    assert [event.content for event in b.events if isinstance(event, PacketArrived) and not event.duplicate] == MESSAGES
    assert sum(len(event.packets) for event in a.events if isinstance(event, PacketsAcked)) == len(MESSAGES)
    assert [closed(a), closed(b)] == [CloseReason.DRAINED, CloseReason.PEER_CLOSED]
    assert Recorded.stream.startswith(b"CONNECT 1 7 1 ")
    assert Recorded.stream.endswith(b"BYE drained;\n")
    assert Recorded.stream.isascii()


def closed(end: End) -> CloseReason:
    """Why the session of that end is over."""
    (reason,) = [event.reason for event in end.events if isinstance(event, SessionClosed)]
    return reason
