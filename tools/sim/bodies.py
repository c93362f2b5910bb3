"""Large bodies through the engine of a simulated host: sent and read as ``node.handles.streaming`` does.

Nothing here waits: each step follows the end of the one before, and none is done in a later process.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from triack.base.delivery import Delivery
from triack.base.errors import ProtocolError
from triack.base.units import MS
from triack.node.shell.prepared import MESSAGE_OVERHEAD_BYTES
from triack.queues.fetching import Fetch
from triack.queues.mailboxes.large_bodies import ANNOUNCED_BYTES, open_part
from triack.queues.mailboxes.mailbox import Lease
from triack.queues.mailboxes.system_queues import large_queue
from triack.queues.messages import LargeMessage
from triack.queues.stages import Stage
from triack.queues.streams.outbox import BODY_STATE
from triack.queues.streams.outgoing_stream import OutgoingStream
from triack.tools.sim.host import SimHost

ROOM_GAP_NS, ROOM_GAP_MAX_NS = 20 * MS, 10_000 * MS


@dataclass(slots=True)
class BodySender:
    """Sends one large body, and says when the message that represents it is to be sent."""

    host: SimHost
    where: str
    queue: str
    body: bytes
    on_whole: Callable[[int], object]
    on_refused: Callable[[str], object]
    ordinal: int = 0
    _life: int = 0
    _sent: int = 0
    _unacked: int = 0
    _ended: bool = False
    _wakes: bool = False
    _gap_ns: int = ROOM_GAP_NS
    _held: OutgoingStream | None = None
    _pieces: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._life = self.host.lives
        size = self.host.settings.large.part_bytes
        self._pieces = [self.body[at : at + size] for at in range(0, len(self.body), size)]

    @property
    def is_under_way(self) -> bool:
        """Whether it continues: neither it nor its process has ended."""
        return not self._ended and self.host.engine is not None and self.host.lives == self._life

    @property
    def _parts(self) -> OutgoingStream:
        return self.host.live.outgoing_stream(self.where, large_queue(self.queue), Delivery.TRANSACTIONAL)

    def go_on(self) -> None:
        """Do the next possible steps: announce it, send parts, or say that it is whole."""
        self._wakes = False
        if not self.is_under_way:
            return
        engine, parts = self.host.live, self._parts
        if not self.ordinal:
            body_room = engine.inbox.admission.body_room
            if not self.where and not body_room.has_room(self.queue, engine.node_id, len(self.body)):
                if len(self.body) > body_room.most_bytes(self.queue):
                    self._refused("too-large")
                self._await_room()
                return
            # The stream of the parts must not end meanwhile.
            self._held = parts
            parts.senders += 1
            self.ordinal = engine.take_ordinal()
            engine.set_state(f"{BODY_STATE}{self.ordinal}", f"{parts.peer}/{self.queue}".encode())
            self._submit(parts, LargeMessage(len(self.body).to_bytes(ANNOUNCED_BYTES), ordinal=self.ordinal), 0)
            return
        if self._sent == 0 and self._unacked:
            return
        while self._sent < len(self._pieces) and self._ahead_bytes <= self.host.settings.large.ahead_bytes:
            if engine.outbox.room_bytes(parts) <= 0:
                self._await_room()
                return
            self._gap_ns = ROOM_GAP_NS
            piece = self._pieces[self._sent]
            self._sent += 1
            self._submit(parts, piece, len(piece))
        if self._sent == len(self._pieces) and not self._unacked:
            self.on_whole(self.ordinal)

    @property
    def _ahead_bytes(self) -> int:
        return sum(len(piece) for piece in self._pieces[max(0, self._sent - self._unacked) : self._sent])

    def _submit(self, parts: OutgoingStream, message: bytes | LargeMessage, size_bytes: int) -> None:
        self._unacked += 1
        ticket = self.host.live.submit(parts, message, size_bytes + MESSAGE_OVERHEAD_BYTES)
        self.host.live.await_stage(parts, ticket, Stage.ORDERED, self._settle)

    def _settle(self, reason: str | None) -> None:
        self._unacked -= 1
        if self._ended:
            return
        if reason is not None:
            self._refused(reason)
        self._wake(1)

    def _wake(self, after_ns: int) -> None:
        if not self._wakes:
            self._wakes = True
            self.host.later(after_ns, self.go_on)

    def _await_room(self) -> None:
        """Check again for room, more and more rarely: a relay may be away for days."""
        self._wake(self._gap_ns)
        self._gap_ns = min(2 * self._gap_ns, ROOM_GAP_MAX_NS)

    def _refused(self, reason: str) -> None:
        def tell() -> None:
            self.give_up()
            self.on_refused(reason)

        self.host.later(1, lambda: None if self._ended else tell())

    def finished(self) -> None:
        """The message was submitted, in the same commit."""
        self._end()

    def give_up(self) -> None:
        """Send no more of it: the destination frees what it has."""
        if self.is_under_way and self.ordinal:
            self.host.live.give_up_body(self._parts, self.ordinal)
        self._end()

    def _end(self) -> None:
        if self.is_under_way and self.ordinal:
            self.host.live.set_state(f"{BODY_STATE}{self.ordinal}", None)
        if self._held is not None and not self._ended:
            self._held.senders -= 1
        self._ended = True


def read_body(host: SimHost, lease: Lease, gap_ns: int, done: Callable[[bytes | None], object]) -> None:
    """Read the body of a large message part by part."""
    got: list[bytes] = []

    def step() -> None:
        engine = host.live
        bodies = engine.queues.bodies
        body = bodies.by_id.get((lease.packet.origin, lease.packet.large))
        if body is None or not bodies.is_whole(*body.id):
            done(None)
            return
        if len(got) == len(body.parts):
            done(b"".join(got))
            return
        keys = [key for first, last in body.parts[len(got)].keys for key in range(first, last + 1)]
        engine.fetch(Fetch("messages", keys, take=lambda bodies: host.later(gap_ns, lambda: take(keys, bodies))))

    def take(keys: list[int], bodies: dict[int, bytes]) -> None:
        try:
            got.append(open_part([bodies[key] for key in keys]))
        except (ProtocolError, KeyError):
            done(None)
            return
        step()

    step()
