"""Sessions with their paths (conversations), and the way to one address (links)."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from triack.base.datagram import Channel
from triack.base.errors import RollbackDetected
from triack.queues.history import KnownPeer
from triack.queues.introduction import NO_NODE, Introduction
from triack.queues.outgoing_queue import OutgoingQueue
from triack.queues.settings import NodeSettings
from triack.session.session import Session
from triack.session.states import State

if TYPE_CHECKING:
    from random import Random

__all__ = ["Control", "Conversation", "Link"]


CONTROL_MAX = 8_192
"""Order acks and rejections that wait for one peer to take them."""


@dataclass(slots=True)
class Control:
    """The token of an order ack or a rejection on its way."""


@dataclass(slots=True, eq=False)
class Conversation:
    """A session, and where its datagrams go.

    Attributes:
        channel: what protects its datagrams.
        path: the address to send to; follows the peer when it moves.
        own: what this node said of itself last.
        peer: what the other node said of itself; None for an initiator that has not been answered.
        control: order acks, by (lane, 0), and rejections, by (lane, number), that wait for room.
        highest_counter: newest datagram seen, so that an old copy does not move the path.
        known: what is remembered of the peer; None before the session was open.
    """

    session: Session
    channel: Channel
    path: str
    own: Introduction
    peer: Introduction | None = None
    link: "Link | None" = None
    control: dict[tuple[int, int], bytes] = field(default_factory=dict)
    highest_counter: int = 0
    known: KnownPeer | None = None

    def put_control(self, key: tuple[int, int], content: bytes) -> None:
        """Queue an order ack or a rejection; a newer one takes the place of an older.

        Beyond the limit it is dropped: its packet will come again.
        """
        if key in self.control or len(self.control) < CONTROL_MAX:
            self.control[key] = content

    @property
    def label(self) -> str:
        """The session's id as the log writes it."""
        return f"{self.session.hello.session_id:016x}"

    @property
    def peer_id(self) -> bytes:
        """The other node, empty while unknown."""
        return self.peer.node_id if self.peer is not None else b""

    @property
    def peer_start(self) -> int:
        """Which start of the other node's store it is, 0 while unknown."""
        return self.peer.point.start if self.peer is not None else 0

    def introduce(self, own: Introduction) -> None:
        """Say something else of this node, if that is something else."""
        if own != self.own:
            self.own = own
            self.session.introduce(own.encode())

    @property
    def is_open(self) -> bool:
        """Whether packets may flow."""
        return self.session.state is State.OPEN


class Link:
    """All lanes to one address, and the session that serves them, if there is one.

    Reconnects with a jittered wait that doubles up to ``wait_time``; after a success it begins small again.

    Attributes:
        peer_id: the node that was found there last, so that it can be told at once what is remembered of it.
        halted: why nothing may be sent to that node any more, or None.
    """

    __slots__ = (
        "_attempts",
        "_random",
        "_settings",
        "_told",
        "address",
        "conversation",
        "halted",
        "lanes",
        "peer_id",
        "retry_at_ns",
        "silent",
        "turn",
    )

    def __init__(self, address: str, settings: NodeSettings, random: "Random") -> None:
        self.address = address
        self.lanes: list[OutgoingQueue] = []
        self.conversation: Conversation | None = None
        self.peer_id = NO_NODE
        self.halted: RollbackDetected | None = None
        self._told = False
        self.retry_at_ns = 0
        self.silent = False
        self.turn = 0
        self._attempts = 0
        self._settings = settings
        self._random = random

    @property
    def busy(self) -> bool:
        """Whether there is a reason to connect: something to send, or a rollback that the peer may not know of yet."""
        if self.halted is not None:
            return not self._told
        return any(lane.sequence.entries for lane in self.lanes)

    @property
    def is_connecting(self) -> bool:
        """Whether a connect of ours is on its way."""
        return self.conversation is not None and self.conversation.session.state is State.CONNECTING

    def wants_session(self, now_ns: int) -> bool:
        """Whether it is time to connect."""
        return self.conversation is None and now_ns >= self.retry_at_ns and self.busy

    def add(self, lane: OutgoingQueue) -> None:
        """One more lane to that address."""
        self.lanes.append(lane)
        lane.receipts.halt(self.halted)

    def halt(self, error: RollbackDetected | None, *, told: bool) -> None:
        """Send nothing any more, and say so to everyone who waits; None: go on. ``told``: the peer knows."""
        self._told = told or (self._told and error is self.halted)
        self.halted = error
        for lane in self.lanes:
            lane.receipts.halt(error)

    def handle_opened(self) -> None:
        """A session is open."""
        self._attempts = 0
        self.silent = False

    def handle_closed(self, now_ns: int, *, unanswered: bool) -> None:
        """The session is gone; wait a little longer each time in a row.

        Args:
            now_ns: the clock.
            unanswered: it was never open because nobody answered: then its attempts were a wait already, and a
                peer that comes back must not wait for ours.
        """
        self.conversation = None
        settings = self._settings
        wait_ns = min(settings.reconnect_min_ns << min(self._attempts, 16), settings.reconnect_max_ns)
        self._attempts += 1
        if unanswered:
            wait_ns = min(settings.reconnect_min_ns, wait_ns)
        self.retry_at_ns = now_ns + wait_ns // 2 + self._random.randrange(wait_ns // 2 + 1)

    def next_lanes(self) -> list[OutgoingQueue]:
        """The lanes, beginning with another one each time, so that none starves."""
        self.turn += 1
        at = self.turn % len(self.lanes) if self.lanes else 0
        return self.lanes[at:] + self.lanes[:at]
