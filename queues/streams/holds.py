"""The streams that wait for room at their destination or at a relay, and why.

Promise: each wait has an event for its beginning and one for its end, shared by all streams of a peer that wait for the
same reason. If the reason is a full queue, each queue has other events. Both ends of a link know which streams wait:
``Holds`` of its own streams, ``HoldsHere`` of those that come to this node, to stay or to be passed on.
"""

from collections import Counter
from collections.abc import Callable
from operator import attrgetter
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from triack.base.delivery import Delivery
from triack.base.names import StreamId
from triack.base.news import StreamHeld
from triack.base.reasons import HoldReason
from triack.queues.peers.link import Conversation
from triack.queues.peers.peer_limits import HoldSender

TOLD_APART = (HoldReason.QUEUE_FULL, HoldReason.STORE_LOW)
"""Reasons with other events at the node that has no room: ``QueueOverQuota`` and ``StoreLow``."""


class HeldStream(NamedTuple):
    """A stream that waits: the node at its other end, its destination queue, the class of its messages, and why."""

    peer: str
    queue: str
    delivery: Delivery
    reason: HoldReason

    @property
    def told_as(self) -> tuple[str, HoldReason, str]:
        """Key of the event: streams with the same key share it."""
        return self.peer, self.reason, self.queue if self.reason is HoldReason.QUEUE_FULL else ""


class Holds:
    """The streams of one end that wait. ``here``: this node lets them wait."""

    def __init__(self, *, here: bool) -> None:
        self._here = here
        self._streams: dict[object, HeldStream] = {}
        self._told: Counter[tuple[str, HoldReason, str]] = Counter()
        self.news: list[StreamHeld] = []

    def hold(self, stream: object, held: HeldStream) -> None:
        """A stream waits, or continues to wait for another reason."""
        if self._streams.get(stream) != held:
            self.free(stream)
            self._streams[stream] = held
            self._told[held.told_as] += 1
            if self._told[held.told_as] == 1:
                self._tell(held, is_held=True)

    def free(self, stream: object) -> None:
        """End the wait of a stream, if it waits."""
        held = self._streams.pop(stream, None)
        if held is None:
            return
        self._told[held.told_as] -= 1
        if not self._told[held.told_as]:
            del self._told[held.told_as]
            self._tell(held, is_held=False)

    def _tell(self, held: HeldStream, *, is_held: bool) -> None:
        if not self._here or held.reason not in TOLD_APART:
            self.news.append(StreamHeld(held.peer, held.queue, held.reason.value, self._here, is_held))

    def of(self, stream: object) -> HoldReason | None:
        """Why a stream waits, or None."""
        held = self._streams.get(stream)
        return None if held is None else held.reason

    @property
    def streams(self) -> list[HeldStream]:
        """All that wait."""
        return list(self._streams.values())


class _Arriving(Protocol):
    """A stream that comes here."""

    id: StreamId
    delivery: Delivery
    priority: int


Stream = TypeVar("Stream", bound=_Arriving)
_priority_of = attrgetter("priority")


class Stop(NamedTuple):
    """The last hold of a stream that a neighbour has got: its turn, and why."""

    turn: int
    reason: HoldReason


class HoldsHere(Holds, Generic[Stream]):
    """The streams that neighbours were asked to hold back: each by itself, so that one full queue stops no other.

    Attributes:
        stopped: these streams, by the conversations in which that was said.
    """

    def __init__(self, sender: HoldSender) -> None:
        super().__init__(here=True)
        self._sender = sender
        self.stopped: dict[Stream, dict[Conversation, Stop]] = {}

    def stop(
        self, stream: Stream, conversation: Conversation, queue: str, reason: HoldReason, refuses: tuple[int, ...] = ()
    ) -> bool:
        """Ask a neighbour to wait with a stream, which goes to a queue. Returns whether that left, as ``say`` does.

        If nothing is refused, and it was asked before, this repeats the turn of that.
        """
        stops = self.stopped.get(stream, {})
        known = stops[conversation].turn if conversation in stops and not refuses else 0
        turn = self._sender.say(conversation, stream.id, reason, refuses, stop=True, turn=known)
        if turn:
            self.stopped.setdefault(stream, stops)[conversation] = Stop(turn, reason)
            self.hold((stream, conversation), HeldStream(conversation.peer_label, queue, stream.delivery, reason))
        return turn > 0

    def stop_again(self, conversation: Conversation) -> bool:
        """Repeat the hold of one stream that a neighbour was asked to wait with. Returns False when there is none."""
        for stream, stops in self.stopped.items():
            if conversation in stops:
                turn, reason = stops[conversation]
                return self._sender.say(conversation, stream.id, reason, stop=True, turn=turn) > 0
        return False

    def go(self, waits: Callable[[Stream, Conversation, HoldReason], bool]) -> bool:
        """Let all streams continue that need not wait any more, by ``waits`` and why they were stopped.

        Returns False when a hold found no room: these streams continue with the next call.
        """
        are_told = True
        for stream in sorted(self.stopped, key=_priority_of, reverse=True):
            for conversation, (_, reason) in list(self.stopped[stream].items()):
                if waits(stream, conversation, reason):
                    continue
                if self._sender.say(conversation, stream.id, stop=False):
                    self._let_go(stream, conversation)
                else:
                    are_told = False
        return are_told

    def forget(self, stream: Stream) -> None:
        """A stream is forgotten: let its neighbours continue, which begins it again if there is more of it."""
        for conversation in list(self.stopped.get(stream, ())):
            self._sender.say(conversation, stream.id, stop=False)
            self._let_go(stream, conversation)

    def handle_session_closed(self, conversation: Conversation) -> None:
        """Holds end with their session: its streams are stopped anew if there is still no room."""
        for stream in [stream for stream, stops in self.stopped.items() if conversation in stops]:
            self._let_go(stream, conversation)

    def _let_go(self, stream: Stream, conversation: Conversation) -> None:
        del self.stopped[stream][conversation]
        self.free((stream, conversation))
        if not self.stopped[stream]:
            del self.stopped[stream]

    def of(self, stream: Any) -> HoldReason | None:
        """Why a stream waits, or None."""
        return next((stop.reason for stop in self.stopped.get(stream, {}).values()), None)
