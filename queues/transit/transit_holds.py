"""Holds that this node sends upstream: per stream and hop, so that one full queue stops no other."""

from collections.abc import Callable
from operator import attrgetter

from triack.base.reasons import HoldReason
from triack.ordering.wire import encode_hold
from triack.queues.peers.control import Control
from triack.queues.peers.link import Conversation
from triack.queues.peers.peer_limits import HOLD_KEY
from triack.queues.streams.holds import HeldStream, Holds
from triack.queues.streams.transit_stream import TransitStream


class TransitHolds:
    """The streams that neighbours were asked to hold back.

    Args:
        why: why a packet of a stream cannot be taken now from a neighbour, or None.

    Attributes:
        waiting: the streams that wait, and why, for stats and events.
    """

    def __init__(self, why: Callable[[TransitStream, Conversation], HoldReason | None]) -> None:
        self._why = why
        self._stopped: dict[TransitStream, None] = {}
        self.relieved = False
        self.waiting = Holds(here=True)

    def stop(
        self, stream: TransitStream, conversation: Conversation, reason: HoldReason, refuses: tuple[int, ...] = ()
    ) -> bool:
        """Ask a neighbour to wait with a stream.

        ``refuses``: the session's numbers of the packets that were not taken. Returns False when too many other answers
        wait. The packet stays unanswered then, and its session retransmits it.
        """
        if refuses or conversation not in stream.stopped:
            stream.turn += 1
        if not self._tell(stream, conversation, reason, refuses, stop=True):
            return False
        stream.stopped[conversation] = reason
        self._stopped[stream] = None
        self.waiting.hold(
            (stream, conversation), HeldStream(conversation.peer_label, stream.destination, stream.delivery, reason)
        )
        return True

    def go(self) -> None:
        """Let streams go on when there is room for them again."""
        if not self.relieved:
            return
        self.relieved = False
        for stream in sorted(self._stopped, key=attrgetter("priority"), reverse=True):
            for conversation in list(stream.stopped):
                if self._waits(stream, conversation):
                    continue
                stream.turn += 1
                if self._tell(stream, conversation, "", (), stop=False):
                    self._free(stream, conversation)
                else:
                    self.relieved = True

    def _waits(self, stream: TransitStream, conversation: Conversation) -> bool:
        comes_here = stream.came_by == conversation.link_name
        if not comes_here or stream.stopped[conversation] == HoldReason.OTHER_WAY:
            return not stream.sequence.is_empty
        return self._why(stream, conversation) is not None

    def stop_again(self, conversation: Conversation) -> bool:
        """Repeat the hold of one stream that a neighbour was asked to wait with. Returns False when there is none."""
        for stream in self._stopped:
            if conversation in stream.stopped:
                return self._tell(stream, conversation, stream.stopped[conversation], (), stop=True)
        return False

    def handle_session_closed(self, conversation: Conversation) -> None:
        """Holds end with their session: its streams are stopped anew if there is still no room."""
        for stream in [stream for stream in self._stopped if conversation in stream.stopped]:
            self._free(stream, conversation)

    def forget(self, stream: TransitStream) -> None:
        """A stream is forgotten: let its neighbours go on, which begins it again."""
        for conversation in list(stream.stopped):
            stream.turn += 1
            self._tell(stream, conversation, "", (), stop=False)
            self._free(stream, conversation)

    def _free(self, stream: TransitStream, conversation: Conversation) -> None:
        del stream.stopped[conversation]
        self.waiting.free((stream, conversation))
        if not stream.stopped:
            del self._stopped[stream]

    @staticmethod
    def _tell(
        stream: TransitStream, conversation: Conversation, reason: str, refuses: tuple[int, ...], *, stop: bool
    ) -> bool:
        if conversation.session.is_closed:
            return True
        content = encode_hold(*stream.id, stream.turn, stop=stop, reason=reason)
        return conversation.put_control((conversation.name_of(stream.id), HOLD_KEY), Control(content, refuses))
