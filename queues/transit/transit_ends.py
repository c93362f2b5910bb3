"""Ends of streams that pass through this node: END on its way to the destination, and the answer on its way back.

Promise: END leaves here only when no packet of its stream is here any more, so that it overtakes none on its way. All
of this is in memory, and a restart loses it: the packets are found on the disk, and the origin says again that the
stream has ended, with each session and now and then.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from triack.base.errors import ProtocolError
from triack.base.names import StreamId
from triack.base.reasons import DropReason, RejectReason
from triack.ordering.wire import HOPS_MAX, RelayedEnd, passing
from triack.queues.peers.link import Conversation, Link
from triack.queues.transit.packet_classifier import PacketClassifier
from triack.queues.transit.return_routes import STREAMS_MAX, LastBrought, ReturnRoutes


@dataclass(eq=False, repr=False)
class TransitEnds:
    """The ends that pass through a relay.

    Args:
        is_here: whether packets of a stream are here, or would be after a restart.
    """

    door: PacketClassifier
    returns: ReturnRoutes
    is_here: Callable[[StreamId], bool]

    def __post_init__(self) -> None:
        # Those that were not answered yet, and the neighbours that they came by: of each the last, as of ways back.
        self._ends: dict[StreamId, tuple[RelayedEnd, str]] = {}
        self._brought = LastBrought[StreamId](STREAMS_MAX)

    @property
    def unanswered(self) -> Collection[StreamId]:
        """The streams whose destinations may not know yet that they have ended."""
        return self._ends.keys()

    def handle_end(self, conversation: Conversation, packet: RelayedEnd, from_name: str, now_ns: int) -> None:
        """A stream of another node has ended, which has this name for the next hops.

        Raises ProtocolError ``end-astray`` or ``foreign-origin`` if it may not be passed on.
        """
        way = self.door.judge(conversation, packet)
        if isinstance(way, RejectReason):
            raise ProtocolError(DropReason.END_ASTRAY, f"{packet.final}: {way}")
        stream = StreamId(packet.origin, packet.stream)
        before = self._ends.get(stream)
        if before is not None and before[0].sequence > packet.sequence:
            return
        self.returns.note(stream, conversation.link_name, way.via)
        self._forget(stream)
        self._ends[stream] = replace(packet, from_name=from_name), conversation.link_name
        gone = self._brought.note(conversation.link_name, stream)
        if gone is not None:
            self._ends.pop(gone, None)
        self.pass_on(stream, now_ns)

    def _forget(self, stream: StreamId) -> None:
        found = self._ends.pop(stream, None)
        if found is not None:
            self._brought.forget(found[1], stream)

    def pass_on(self, stream: StreamId, now_ns: int) -> None:
        """Pass an end on, if there is one, nothing of its stream is here, and there is a session with the next hop."""
        found = self._ends.get(stream)
        if found is None or self.is_here(stream):
            return
        packet, came_by = found
        way = self.door.way_of(packet.final)
        if way is None or way.via == came_by:
            self._forget(stream)
            self.returns.drops[DropReason.END_ASTRAY] += 1
            return
        conversation = self.returns.open_with(way.via)
        if conversation is None:
            return
        self.returns.note(stream, came_by, way.via)
        passed = replace(packet, trace=passing(packet.trace, self.door.node_id), final=way.final)
        self.returns.hand_on(passed, conversation, now_ns)

    def handle_answer(self, conversation: Conversation, packet: RelayedEnd, now_ns: int) -> None:
        """A destination has forgotten a stream: pass that on to its origin.

        Raises ProtocolError ``not-our-packet`` if nothing of the stream has gone to that neighbour.
        """
        stream = StreamId(packet.origin, packet.stream)
        self.returns.check(stream, conversation)
        found = self._ends.get(stream)
        if found is not None and found[0].sequence == packet.sequence:
            self._forget(stream)
        if packet.hops < HOPS_MAX:
            packet = replace(packet, trace=passing(packet.trace, self.door.node_id))
            self.returns.pass_forgotten(conversation, packet, now_ns)

    def handle_session_opened(self, link: Link, now_ns: int) -> None:
        """A session serves a link: what goes by it may have been lost with the last one."""
        for stream, (packet, _) in list(self._ends.items()):
            way = self.door.way_of(packet.final)
            if way is not None and way.via == link.peer:
                self.pass_on(stream, now_ns)
