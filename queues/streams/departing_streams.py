"""Streams that leave this node: what an outbox and a relay do alike.

Only changed streams cost work: a method that changes one calls ``_look_at`` afterwards.
"""

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from typing import Any, Generic, TypeVar

from triack.base.clock import WallClock
from triack.base.delivery import Ack
from triack.base.ranges import Range
from triack.base.reasons import HoldReason
from triack.ordering.hold import HoldState
from triack.ordering.wire import Answer, HoldPacket
from triack.queues.deadlines import Deadlines
from triack.queues.fetching import FETCH_ROWS, Fetch, next_fetch
from triack.queues.pauses import Pause
from triack.queues.peers.link import Conversation, Link, Links
from triack.queues.routes import Way
from triack.queues.streams.departing_stream import DepartingContext, DepartingStream
from triack.queues.streams.group_commit import Turn
from triack.queues.sync_links import SyncLinks
from triack.session.session import Session

FETCH_AHEAD_PACKETS = FETCH_ROWS
"""Packets of a stream whose bodies are fetched together."""
FETCH_AHEAD_BYTES = 8 * 1024 * 1024
"""Bodies fetched together: two windows of the largest packets, and less than ``body_cache_bytes``."""

Stream = TypeVar("Stream", bound=DepartingStream[Any])


class DepartingStreams(Generic[Stream]):
    """All streams of one role.

    Args:
        table: the store's table of their packets.

    Attributes:
        deadlines: when streams, and links, must be checked again.
        sync_links: the synchronous ones, and how far they are behind.
        wanting: the streams whose next bodies are only on the disk.
    """

    def __init__(self, table: str, links: Links, sync_links: SyncLinks, wall: WallClock) -> None:
        self.links = links
        self.sync_links = sync_links
        self.wanting: dict[Stream, None] = {}
        self._wall = wall
        self._table = table
        self.deadlines = Deadlines[Any]()

    # ---- what differs by role

    @property
    @abstractmethod
    def streams(self) -> list[Stream]:
        """Every stream."""

    @abstractmethod
    def contents_of(
        self, stream: Stream, run: list[Any], arrives_ns: int
    ) -> tuple[list[bytes], list[DepartingContext], list[int]]:
        """Contents, contexts and ``Ask`` of each of a run of packets that leave now and arrive at the given time."""

    @abstractmethod
    def handle_acked(self, stream: Stream, entries: list[Any], ack: Ack, by: Conversation, turn: Turn) -> None:
        """A session or store ack of the next hop covers packets."""

    @abstractmethod
    def _streams_by(self, link: Link) -> Iterable[Stream]:
        """The streams that go by a link."""

    @abstractmethod
    def _led_by(self, conversation: Conversation, packet: Answer) -> Stream | None:
        """The stream that a neighbour speaks about, if it is the next hop of that now."""

    @abstractmethod
    def pause_of(self, stream: Stream) -> Pause | None:
        """The pause that an operator has set for what goes to the destination of a stream, or None."""

    @abstractmethod
    def _missing(self) -> Iterator[tuple[Stream, Any]]:
        """Packets whose bodies are needed next."""

    @abstractmethod
    def _key_of(self, stream: Stream, entry: Any) -> int:
        """The key of a packet in the store."""

    @abstractmethod
    def _handle_body(self, stream: Stream, entry: Any, body: bytes) -> None:
        """The body of a stored packet has been read from the disk."""

    @abstractmethod
    def _set_sync(self, stream: Stream, turn: Turn) -> None:
        """The link to the next hop may have changed its mode, or what that has said of its store acks."""

    @abstractmethod
    def _note_held(self, stream: Stream, reason: str, now_ns: int, *, stop: bool, is_new: bool) -> None:
        """The next hop has no room for a stream, or has some again; ``is_new``: it has not said so before."""

    def _bring_back(self, stream: Stream) -> None:
        """The next packets of a stream are needed, some of which only the disk has."""

    # ---- sending

    def _look_at(self, stream: Stream) -> None:
        """A stream has changed: it may have something to send, or another deadline.

        Removing packets needs no call, unless others wait for their place (``ordering.slow_start``): a stream with
        nothing to send loses its turn by itself, and a needless deadline does no harm.
        """
        self.handle_handed_over(stream)
        if stream.way is None or stream.paused or stream in self.wanting:
            return
        if stream.sequence.peek() is not None and (stream.seal is None or self._has_key(stream)):
            self.links[stream.way.via].offer(stream)

    def _has_key(self, _stream: Stream) -> bool:
        return True

    def handle_handed_over(self, stream: Stream) -> None:
        """A session has accepted packets of a stream, or it has changed: it may have another deadline."""
        sequence = stream.sequence
        # The tiers of a paused stream continue: what they schedule leaves when it is resumed. It asks for no room.
        is_going = stream.paused or sequence.hold.state is HoldState.GOING
        hold_ns = None if is_going else sequence.hold.deadline_ns
        at_ns = None if sequence.tier is None else sequence.tier.deadline_ns
        if hold_ns is not None and (at_ns is None or hold_ns < at_ns):
            at_ns = hold_ns
        expiry_ms = stream.next_expiry_ms  # of a relay also what is on the disk alone
        if expiry_ms is not None:
            expiry_ns = self._wall.ns(expiry_ms)
            at_ns = expiry_ns if at_ns is None else min(at_ns, expiry_ns)
        self.deadlines.set(stream, at_ns)

    def give(self, stream: Stream, link: Link, session: Session, limit: int, now_ns: int) -> None:
        """Let a stream have its turn on a link, or as much of it as the window of the session accepts."""
        sequence, left = stream.sequence, limit
        arrives_ns = now_ns + session.one_way_ns
        while left and (run := sequence.peek_run(left)):
            if stream.next_expiry_ms is not None and stream.expire_late(
                run, self._wall.ms(arrives_ns), self._wall.ms(now_ns)
            ):
                link.turns.withdraw(stream)
                break
            if run[0].body is None:
                self.wanting[stream] = None
                link.turns.withdraw(stream)
                break
            packet = session.send_packets(stream.delivery, *self.contents_of(stream, run, arrives_ns))
            if before := sequence.handle_sent(run, now_ns, packet=packet):
                session.handle_freed(before)
            given = len(run)
            link.turns.handle_given(stream, given)
            left -= given
        if left and not run:
            link.turns.withdraw(stream)
        self.handle_handed_over(stream)

    def handle_paused(self) -> None:
        """Some stream was paused or resumed."""
        for stream in self.streams:
            paused = self.pause_of(stream) is not None
            if paused is stream.paused:
                continue
            stream.paused = paused
            if paused and stream.way is not None:
                self.links[stream.way.via].turns.withdraw(stream)
            self._look_at(stream)

    def _forget_sent(self, stream: Stream, entries: Collection[Any]) -> None:
        """Tell the session to stop waiting for store acks of these packets."""
        if not entries or stream.way is None:
            return
        conversation = self.links[stream.way.via].conversation
        if conversation is not None:
            conversation.session.handle_freed([entry.packet for entry in entries if entry.packet])
            conversation.wake()

    # ---- ways

    def _go_by(self, stream: Stream, way: Way | None) -> None:
        """The packets of a stream that are not freed go by a way from now on. What was said on another ends with that.

        The caller tells its sequence of the end of the session, and of the mode of the link.
        """
        self._forget_sent(stream, stream.sequence.entries.values())
        if stream.way is not None:
            self.links[stream.way.via].turns.withdraw(stream)
        self.sync_links.forget(stream)
        stream.go_by(way)
        stream.paused = self.pause_of(stream) is not None
        stream.next_hop.awaited = stream.durable and self.sync_links.awaits(way)
        stream.next_hop.handle_session_closed()

    # ---- holds

    def handle_hold(self, conversation: Conversation, packet: HoldPacket, now_ns: int) -> None:
        """The next hop has no room for a stream, or has some again."""
        stream = self._led_by(conversation, packet)
        if stream is None:
            return
        is_new, crowded = (
            not stream.sequence.hold.is_repeated(packet.turn),
            packet.reason == HoldReason.TOO_MANY_STREAMS,
        )
        sendings = stream.sequence.handle_flow_control(packet.turn, now_ns, stop=packet.stop, crowded=crowded)
        self._note_held(stream, packet.reason, now_ns, stop=packet.stop, is_new=is_new)
        carrier = self.links.carrier_to(stream.via)
        if carrier is not None:
            carrier.session.handle_freed(sendings)
            carrier.wake()
        self._look_at(stream)

    def ask_for_room(self, link: Link) -> bool:
        """Let one of the held streams send a packet now. Returns whether there is one that will."""
        for stream in self._streams_by(link):
            hold = stream.sequence.hold
            if hold.state is not HoldState.GOING and not stream.paused and stream.sequence.ask_for_room():
                self._look_at(stream)
                return True
        return False

    def relies_on(self, link: Link) -> bool:
        """Whether the next hop has said that it answers for packets, or is to say it, as long as its session lasts."""
        return any(it.sequence.waits_until or it.sequence.awaits_onward for it in self._streams_by(link))

    # ---- synchronous links

    def handle_link_mode(self, peer: str, turn: Turn) -> None:
        """A synchronous link is asynchronous for now, or synchronous again."""
        for stream in list(self._streams_by(self.links[peer])):
            self._set_sync(stream, turn)
            self._look_at(stream)

    def _note_stored(self, stream: Stream, ranges: list[Range], now_ns: int) -> None:
        """Packets are on the disk here: over a synchronous link they wait from now on."""
        if stream.next_hop.awaited:
            self.sync_links.add(stream.way, stream, ranges, now_ns)

    def _is_sync(self, stream: Stream) -> bool:
        return stream.next_hop.awaited and not stream.next_hop.is_async and self.sync_links.is_sync(stream.way)

    def _handle_word_lost(self, stream: Stream) -> None:
        """A session has ended: its relay says nothing more of what is not here, and has to say anew what is."""
        self.sync_links.keep(stream, stream.sequence.ranges())
        stream.next_hop.handle_session_closed()
        stream.sequence.set_sync(self._is_sync(stream))

    # ---- bodies on the disk

    def poll_fetch(self) -> Fetch | None:
        """Which bodies to fetch next, or None."""
        fetching: dict[int, tuple[Stream, Any]] = {}

        def needed() -> Iterator[tuple[list[int], int]]:
            for stream, entry in self._missing():
                key = self._key_of(stream, entry)
                fetching[key] = stream, entry
                yield [key], entry.size_bytes

        return next_fetch(self._table, needed(), partial(self._handle_fetched, fetching), FETCH_AHEAD_BYTES)

    def _missing_of_streams(self) -> Iterator[tuple[Stream, Any]]:
        """Packets of the streams that want some."""
        for stream in list(self.wanting):
            self._bring_back(stream)
            missing = [entry for entry in stream.sequence.upcoming(FETCH_AHEAD_PACKETS) if entry.body is None]
            yield from ((stream, entry) for entry in missing)
            if not missing:
                # The packets it waited for were freed or given up.
                del self.wanting[stream]
                self._look_at(stream)

    def _handle_fetched(self, fetching: dict[int, tuple[Stream, Any]], bodies: dict[int, bytes]) -> None:
        """Bodies have been read from the disk."""
        for key, (stream, entry) in fetching.items():
            body = bodies.get(key)
            # A packet that has moved has another body.
            if body is not None and entry.body is None and key == self._key_of(stream, entry):
                self._handle_body(stream, entry, body)
        for stream in dict.fromkeys(stream for stream, _ in fetching.values()):
            self.wanting.pop(stream, None)
            self._look_at(stream)
