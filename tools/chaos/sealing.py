"""Sealed streams in plans with relays, and relays that lie about them.

A hostile relay does all that it can to the sealed transactional packets that it passes on: it changes bits and fields,
gives a packet the body of an earlier one, removes proofs from order acks, raises their numbers, and says in the name of
destinations what they never said. It lies until the faults end, or its process does. Sealed messages may go back to
their origin then; none may be lost, redelivered, out of order, or changed.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, Final

from triack.base.commit import HEAD_BYTES
from triack.base.delivery import Delivery
from triack.base.units import MS
from triack.ordering import wire
from triack.queues.body_head import is_sealed, messages_in
from triack.queues.manager.engine import Engine
from triack.queues.peers.link import Conversation
from triack.queues.streams.departing_stream import DepartingContext
from triack.tools.chaos.plan import Fault, Plan, StreamPlan, by_time

SEALED_SHARE: Final = 1 / 3
HOSTILE_SHARE: Final = 1 / 3
BEGINS_NS: Final = 100 * MS
HOSTILE: Final = "hostile"
FINDINGS: Final = frozenset({"order_ack_made_up", "previous_raised", "rejection_made_up"})
"""The checks of ``triack replay`` that see what a hostile relay does; it records its packets as it sends them."""
SUSPECTED: Final = frozenset({"bad-seal", "relay-denied"})
_TAMPER, _REPLAY, _STRIP, _RAISE, _FORGE = 0.1, 0.05, 0.3, 0.1, 0.1
_BODIES_KEPT = 8


def seal_some(plan: Plan, random: Random) -> Plan:
    """The same plan, in which some streams are sealed, and some relays hostile.

    No recoverable ones: their dead letters at relays are unreadable, so that they cannot be counted.
    """
    if not plan.is_secure:
        return plan
    streams = []
    for stream in plan.streams:
        fit = stream.delivery != "recoverable" and not stream.astray and stream.source < 0
        streams.append(replace(stream, sealed=True) if fit and random.random() < SEALED_SHARE else stream)
    faults = plan.faults
    relays = sorted({relay for stream in streams if stream.sealed for relay in _lied_at(plan, stream)})
    if relays and plan.is_honest and random.random() < HOSTILE_SHARE:
        # From the first messages on: most streams are short.
        at_ns = random.randrange(BEGINS_NS)
        for_ns = plan.faults_end_ns - at_ns
        fault = Fault(at_ns, HOSTILE, random.choice(relays), after=random.getrandbits(16), for_ns=for_ns)
        faults = by_time((*faults, fault))
        streams = [replace(stream, lied_about=stream.sealed) for stream in streams]
    return replace(plan, streams=tuple(streams), faults=faults)


def _lied_at(plan: Plan, stream: StreamPlan) -> list[int]:
    """The relays on the first way of a stream, if it has anything to lie about; others would lie to no node."""
    ways = {(route.host, route.to): route.via for route in plan.routes}
    host, relays = stream.sender, []
    while stream.delivery == "transactional" and (via := ways.get((host, stream.receiver))) is not None:
        relays.append(via)
        host = via
    return relays


class Hostile:
    """A relay that lies for a while, or until its process ends."""

    def __init__(self, engine: Engine, until_ns: int, random: Random) -> None:
        self.lies = 0
        self._until_ns = until_ns
        self._random = random
        self._bodies: list[bytes] = []
        self._engine = engine
        transits: Any = engine.transits
        transits.contents_of = self._passing(transits.contents_of)
        transits.handle_order_ack = self._acking(transits.handle_order_ack)

    def _passing(self, honest: Callable[..., Any]) -> Callable[..., Any]:
        def contents_of(stream: Any, run: Any, arrives_ns: int) -> Any:
            contents, contexts, asks = honest(stream, run, arrives_ns)
            if stream.delivery is Delivery.TRANSACTIONAL and arrives_ns < self._until_ns:
                each = zip(contents, contexts, strict=True)
                contents = [self._change(content, context) for content, context in each]
            return contents, contexts, asks

        return contents_of

    def _change(self, content: bytes, context: DepartingContext) -> bytes:
        header = wire.decode(content)
        if not isinstance(header, wire.RelayedHeader) or not is_sealed(header.body):
            return content
        self._bodies = [*self._bodies[-_BODIES_KEPT:], header.body]
        body, previous, draw = header.body, header.previous, self._random.random()
        if draw < _TAMPER:
            # Not the visible part: nodes record that, and it would differ from what was sent.
            at = self._random.randrange(HEAD_BYTES, len(body))
            body = body[:at] + bytes([body[at] ^ 1 << self._random.randrange(8)]) + body[at + 1 :]
        elif draw < _TAMPER + _REPLAY:
            # Nodes record how many messages a packet has, as its head says.
            alike = [it for it in self._bodies if it[:3] == body[:3] and messages_in(it) == messages_in(body)]
            body = self._random.choice(alike)
        elif draw < _TAMPER + 2 * _REPLAY and previous:
            previous = self._random.randrange(previous)
        else:
            return content
        self.lies += 1
        context.previous = previous
        packet = wire.RelayedPacket(header.number, previous, header.left_ms, header.ack_requested, body)
        names = header.final, header.from_name
        return wire.encode_relayed_run(header, *names, [packet], trace=header.trace, awaited=header.awaited)[0]

    def _acking(self, honest: Callable[..., Any]) -> Callable[..., Any]:
        """Changes order acks on their way back, and says what was never said."""

        def handle_order_ack(conversation: Conversation, packet: wire.RelayedOrderAck, turn: Any) -> None:
            if not packet.mac or turn.now_ns >= self._until_ns:
                honest(conversation, packet, turn)
                return
            draw = self._random.random()
            if draw < _STRIP:
                packet.mac = b""
            elif draw < _STRIP + _RAISE:
                packet.number += self._random.randrange(1, 9)
            if draw < _STRIP + _RAISE:
                self.lies += 1
            if self._random.random() < _FORGE:
                self._say(packet, conversation)
            honest(conversation, packet, turn)

        return handle_order_ack

    def _say(self, packet: wire.RelayedOrderAck, but: Conversation) -> None:
        """Refuse a packet in the name of its destination, to all neighbours but that one."""
        self.lies += 1
        number = packet.number + self._random.randrange(1, 4)
        reason = self._random.choice(["queue-not-found", "too-large", "access-denied"])
        named = packet.origin, packet.stream, packet.sequence, number, reason, 0, packet.by
        word = wire.RelayedReject(*named, self._random.randbytes(wire.MAC_BYTES))
        for other in self._engine.handshakes.conversations.values():
            if other is not but and other.is_open:
                other.say(word)
