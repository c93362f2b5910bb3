"""How outgoing streams end, so that queue names which are used once cost neither end anything lasting.

Promise: a stream ends only while nothing of it is outstanding: each packet was acknowledged, or its dead letter is on
the disk here. The destination forgets the stream only when its origin says so. The origin forgets it only when the
destination has answered. No late copy of a packet can begin the stream again.

Each stream has another sequence, and sequences only grow. When a stream ends, its origin names a range of sequences,
from ``since`` to that of the stream, in which no stream to this destination is live or ever will be. The destination
adds the range to those that have ended, and rejects each packet of an ended sequence whose stream it does not know
(``queues.streams.incoming_ends``). Only live streams are left out of the ranges, so there is at most one more range
than there are live streams.

A stream ends after an hour without messages, or to make room for others. It ends immediately if its last message was a
large one of which only some pieces were sent: its destination keeps these, and nothing else says that they are not
wanted any more.

Recoverable packets of a stream that has used a relay may still wait there when its origin has nothing outstanding. So
its END follows them by the same way (``queues.transit.transit_ends``), and says which number was the last
(``queues.streams.incoming_ends``). Until it is answered, the stream counts as live for all destinations, as its own may
also be reached by another name. Relays keep END only in memory: its origin repeats it now and then.

    origin                                                destination
    choose a stream; commit that it has ended
    END stream, sequence, since                    --->     commit: delete its position, keep the range
    commit: delete its stream                      <---     END, as an answer

Each step is on the disk before the next one. After a crash, or when a session is lost, the last step is repeated: after
a restart an ended stream does not continue, but its origin sends END again. Express streams have the same steps without
a disk.

The next message for the same queue has a new stream. As nothing of the old one is outstanding, it overtakes nothing.
"""

from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from struct import Struct

from triack.base.commit import OWN_STATE, OutgoingStreamRow
from triack.base.delivery import Delivery
from triack.base.errors import StoreDamaged
from triack.base.news import StreamsNearLimit
from triack.base.transitions import next_state
from triack.base.units import SECOND, in_ns
from triack.ordering.wire import EndPacket, RelayedEnd
from triack.queues.deadlines import Deadlines
from triack.queues.node_settings import NodeSettings, streams_limit
from triack.queues.peers.link import Link, Links
from triack.queues.routes import Way
from triack.queues.schedule import Schedule
from triack.queues.streams.group_commit import Turn
from triack.queues.streams.outgoing_stream import OutgoingStream
from triack.queues.streams.stream_records import StreamRecords
from triack.queues.streams.stream_state import EXPRESS_STREAMS, TRANSITIONS, StreamEvent, StreamState

EXPRESS_SEQUENCE_BITS = 32
"""Express sequences of a start are above those of all starts before it, with 2^32 sequences for each start."""
ENDED = 0
"""Replaces the next number in the row of a stream that has ended. If it uses relays, the last number with a minus does,
as END names that."""
ROOM_SHARE = 2
"""Idle streams end immediately when a peer has more than half of its limit. That leaves enough streams for those in
use, and enough room for a burst of new names."""
AGAIN_NS = 1_800 * SECOND
"""How often an END by relays is repeated, which may have lost it: as the resend tiers before the last."""

AGAIN_HELD_NS = 1 * SECOND
"""The least time until the next check of an idle stream that is held."""

_SEQUENCE = f"{OWN_STATE}sequence"
_NUMBER = Struct("!Q")


class Retirement:
    """Numbers the streams of a node, and ends them.

    Args:
        forget: called with an outgoing stream that ends, to unregister it.
        prove: adds to the end of a stream the proof that this node says so, if its packets are sealed.

    Attributes:
        deadlines: when ``handle_timer`` must be called.
    """

    def __init__(
        self,
        node_id: bytes,
        incarnation: int,
        settings: NodeSettings,
        links: Links,
        records: StreamRecords,
        *,
        forget: Callable[[OutgoingStream], None],
        prove: Callable[[OutgoingStream, RelayedEnd], RelayedEnd],
    ) -> None:
        self._prove = prove
        self._node_id = node_id
        self._links = links
        self._records = records
        self._forget = forget
        self._wait_ns = in_ns(settings.retire_after_s) if settings.retire_after_s else None
        self._limit = streams_limit(settings)
        # Each by durable or not: the next sequence, the lowest number that was never used, and free numbers.
        self._sequences = {True: 1, False: incarnation << EXPRESS_SEQUENCE_BITS | 1}
        self._numbers = {True: 1, False: EXPRESS_STREAMS + 1}
        self._free: dict[bool, deque[int]] = {True: deque(), False: deque()}
        self._drained: dict[OutgoingStream, None] = {}
        self._torn: list[OutgoingStream] = []
        # By peer: the streams that have nothing outstanding, and since when, the longest idle first.
        self._idle: dict[str, OrderedDict[OutgoingStream, int]] = {}
        # By peer; None: when unanswered ``_relayed_ends`` are repeated.
        self.deadlines = Deadlines[str | None]()
        self._pressed: dict[str, None] = {}
        self._crowded: set[str] = set()
        # By number: the streams that are ENDING or TOLD.
        self._ended: dict[int, OutgoingStream] = {}
        # The same that have used relays.
        self._relayed_ends: dict[int, OutgoingStream] = {}
        # Those of which it was not looked yet whether they have a time to be repeated.
        self._untimed: dict[int, OutgoingStream] = {}
        self._near: set[str] = set()
        self.news: list[StreamsNearLimit] = []

    def register(self, schedule: Schedule) -> None:
        """Register when streams are looked at that may end."""
        stirred = self._drained, self._torn, self._pressed, self._untimed
        schedule.timer(self.handle_timer, self.deadlines, needs=stirred)
        schedule.tell(self.news)

    # ---- numbers

    def restore(self, rows: Iterable[OutgoingStreamRow], state: Mapping[str, bytes]) -> None:
        """Restore the numbers from the store. Raises StoreDamaged."""
        used = {row.stream: row.sequence for row in rows}
        kept = state.get(_SEQUENCE, _NUMBER.pack(1))
        if len(kept) != _NUMBER.size:
            raise StoreDamaged(f"what the store has of {_SEQUENCE} cannot be read")
        self._sequences[True] = max([*_NUMBER.unpack(kept), *(sequence + 1 for sequence in used.values())])
        self._numbers[True] = max(used, default=0) + 1
        self._free[True].extend(stream for stream in range(1, self._numbers[True]) if stream not in used)

    @property
    def unanswered(self) -> Collection[int]:
        """The streams, by number, whose destinations may not know yet that they have ended."""
        return self._ended.keys()

    def handle_ended(self, outgoing: OutgoingStream) -> None:
        """Restore a stream that had ended; its destination may or may not know."""
        _move(outgoing, StreamEvent.ENDS)
        _move(outgoing, StreamEvent.END_STORED)
        outgoing.sequence.next_number = 1 - outgoing.sequence.next_number
        self._add_ended(outgoing)

    def number(self, *, durable: bool) -> tuple[int, int]:
        """Number and sequence of a new stream. No two streams of this node ever share both."""
        sequence = self._sequences[durable]
        self._sequences[durable] = sequence + 1
        if self._free[durable]:
            return self._free[durable].popleft(), sequence
        stream = self._numbers[durable]
        self._numbers[durable] = stream + 1
        return stream, sequence

    # ---- events of streams

    def handle_crowded(self, peer: str) -> None:
        """The destination has reached its limit of streams of this node: all idle ones must end."""
        self._pressed[peer] = None
        if peer not in self._crowded:
            self._crowded.add(peer)
            streams = len(self._links[peer].streams)
            self.news.append(StreamsNearLimit(peer, streams, streams, incoming=False, is_full=True))

    def handle_room(self, peer: str) -> None:
        """The destination may have room for streams again."""
        self._crowded.discard(peer)

    def look_at(self, peer: str) -> None:
        """There is one stream more to a peer, or one less: check their number against its limit."""
        streams = len(self._links[peer].streams)
        if ROOM_SHARE * streams > self._limit:
            self._pressed[peer] = None
        if 4 * streams >= 3 * self._limit and peer not in self._near:
            self._near.add(peer)
            self.news.append(StreamsNearLimit(peer, streams, self._limit, incoming=False, is_full=False))
        elif 2 * streams <= self._limit:
            self._near.discard(peer)

    def handle_freed(self, outgoing: OutgoingStream) -> None:
        """Packets have left a stream, or it has none yet: note it if nothing is outstanding."""
        if not outgoing.busy and outgoing.life is StreamState.LIVE:
            self._drained[outgoing] = None

    # ---- choosing

    def handle_timer(self, turn: Turn) -> None:
        """End streams that have been idle for long enough, or have to make room."""
        if self._drained:
            self._take_drained(turn.now_ns)
        if self._torn:
            # Their destinations wait for the rest of a message that has ended here.
            torn = [outgoing for outgoing in self._torn if not outgoing.is_held]
            self._torn[:] = [outgoing for outgoing in self._torn if outgoing.is_held]
            self._end(torn, turn)
        due = self.deadlines.poll_due(turn.now_ns) if self.deadlines.soonest_ns <= turn.now_ns else ()
        if None in due:
            self._tell_again()
        if self._untimed:
            self._untimed.clear()
        if self._relayed_ends and self.deadlines.of(None) is None:
            self.deadlines.set(None, turn.now_ns + AGAIN_NS)
        for peer in due:
            if peer is not None:
                self._end_due(peer, turn)
        if self._pressed:
            pressed = list(self._pressed)
            self._pressed.clear()
            for peer in pressed:
                self._end_surplus(peer, turn)

    def _take_drained(self, now_ns: int) -> None:
        drained = list(self._drained)
        self._drained.clear()
        for outgoing in drained:
            if outgoing.busy or outgoing.life is not StreamState.LIVE:
                continue
            peer = outgoing.via
            if outgoing.torn and peer:
                self._torn.append(outgoing)
                continue
            idle = self._idle.setdefault(peer, OrderedDict())
            idle[outgoing] = now_ns
            idle.move_to_end(outgoing)
            if peer in self._crowded or (peer and ROOM_SHARE * len(self._links[peer].streams) > self._limit):
                self._pressed[peer] = None
            if self.deadlines.of(peer) is None:
                self._set_deadline(peer)

    def _set_deadline(self, peer: str) -> None:
        idle = self._idle[peer]
        if idle and self._wait_ns is not None:
            self.deadlines.set(peer, next(iter(idle.values())) + self._wait_ns)

    def _end_due(self, peer: str, turn: Turn) -> None:
        idle = self._idle[peer]
        chosen: list[OutgoingStream] = []
        while idle and self._wait_ns is not None and next(iter(idle.values())) + self._wait_ns <= turn.now_ns:
            outgoing, _ = idle.popitem(last=False)
            if outgoing.is_held:
                # Check it again after another wait, and a second at least: with a short wait it would wake the node.
                idle[outgoing] = turn.now_ns + max(0, AGAIN_HELD_NS - self._wait_ns)
            else:
                chosen.append(outgoing)
        self._set_deadline(peer)
        self._end(chosen, turn)

    def _end_surplus(self, peer: str, turn: Turn) -> None:
        """End all idle streams when the destination is full; else those beyond the share, the longest idle first."""
        idle = self._idle.get(peer)
        if not idle:
            return
        most = len(idle) if peer in self._crowded else len(self._links[peer].streams) - self._limit // ROOM_SHARE
        chosen = [outgoing for outgoing in list(idle)[: max(0, most)] if not outgoing.is_held]
        for outgoing in chosen:
            del idle[outgoing]
        self._end(chosen, turn)

    # ---- ending

    def _end(self, chosen: list[OutgoingStream], turn: Turn) -> None:
        for outgoing in chosen:
            if outgoing.busy or outgoing.life is not StreamState.LIVE:
                continue
            _move(outgoing, StreamEvent.ENDS if outgoing.peer else StreamEvent.ENDS_HERE)
            self._records.ended(outgoing, turn.now_ns)
            self._forget(outgoing)
            if not outgoing.peer:
                self._delete(outgoing, turn)
                continue
            self._add_ended(outgoing)
            if outgoing.durable:
                row = outgoing.row()
                last = row.next_number - 1 if outgoing.relayed else ENDED
                turn.commit.streams[outgoing.stream_number] = row._replace(next_number=-last)
                turn.ending.append(outgoing)
            else:
                self.handle_stored([outgoing])

    def handle_stored(self, ending: list[OutgoingStream]) -> None:
        """The end of these streams is on the disk: notify their destinations."""
        for outgoing in ending:
            _move(outgoing, StreamEvent.END_STORED)
        for via in {outgoing.via: None for outgoing in ending}:
            self._tell(self._links[via], [outgoing for outgoing in ending if outgoing.via == via])

    def _add_ended(self, outgoing: OutgoingStream) -> None:
        self._ended[outgoing.stream_number] = outgoing
        if outgoing.relayed:
            self._relayed_ends[outgoing.stream_number] = self._untimed[outgoing.stream_number] = outgoing

    def handle_session_opened(self, link: Link) -> None:
        """A session serves a link: tell its peer again which streams have ended, as far as it may still know them."""
        told = (outgoing for outgoing in self._ended.values() if outgoing.via == link.peer)
        self._tell(link, [outgoing for outgoing in told if outgoing.life is StreamState.TOLD])

    def handle_routes_changed(self, way_of: Callable[[str], Way]) -> None:
        """Routes have changed: what was sent by the ways before may have no effect."""
        for outgoing in self._ended.values():
            way = way_of(outgoing.peer)
            if way != outgoing.way:
                outgoing.go_by(way)
                if outgoing.relayed:
                    self._relayed_ends[outgoing.stream_number] = self._untimed[outgoing.stream_number] = outgoing
                self._tell(self._links[way.via], [outgoing] if outgoing.life is StreamState.TOLD else [])

    def _tell_again(self) -> None:
        for via in {outgoing.via: None for outgoing in self._relayed_ends.values()}:
            self.handle_session_opened(self._links[via])

    def _tell(self, link: Link, ended: list[OutgoingStream]) -> None:
        conversation = link.conversation
        if not ended or conversation is None or not conversation.is_open:
            return
        for relayed in (False, True):
            chosen = [outgoing for outgoing in ended if outgoing.relayed is relayed]
            live = self._live(link, relayed=relayed) if chosen else []
            for outgoing in chosen:
                at = bisect_left(live, outgoing.sequence.sequence)
                conversation.say(self._end_of(outgoing, live[at - 1] + 1 if at else 1))

    def _live(self, link: Link, *, relayed: bool) -> list[int]:
        """The sequences of all streams that may be live at the destinations of those that use a link, in order.

        With a relay on the way that may be any node.
        """
        live = (it for each in self._links.values() for it in each.streams if relayed or it.relayed or each is link)
        # A stream whose end is not on the disk yet may continue after a restart, so it counts as live.
        ending = (
            it for it in self._ended.values() if it.life is StreamState.ENDING and (relayed or it.via == link.peer)
        )
        return sorted({outgoing.sequence.sequence for outgoing in (*live, *ending, *self._relayed_ends.values())})

    def _end_of(self, outgoing: OutgoingStream, since: int) -> EndPacket:
        number, sequence, way = outgoing.stream_number, outgoing.sequence.sequence, outgoing.way
        if not outgoing.relayed or way is None:
            return EndPacket(self._node_id, number, sequence, since, answer=False)
        # Its destination has acknowledged all that is transactional; lost express packets do not come any more.
        last = outgoing.sequence.next_number - 1 if outgoing.delivery is Delivery.RECOVERABLE else 0
        end = RelayedEnd(self._node_id, number, sequence, since, False, last, b"", self._node_id, way.final)
        return self._prove(outgoing, end)

    def handle_answer(self, stream: int, sequence: int, peer_id: bytes, turn: Turn) -> bool:
        """A neighbour says that a stream is forgotten. Returns False when it is not the one that would know."""
        outgoing = self._ended.get(stream)
        if outgoing is None or outgoing.sequence.sequence != sequence or outgoing.life is not StreamState.TOLD:
            return True
        if not self._links.leads(outgoing, peer_id):
            return False
        del self._ended[stream]
        self._relayed_ends.pop(stream, None)
        self._untimed.pop(stream, None)
        _move(outgoing, StreamEvent.FORGOTTEN)
        self._delete(outgoing, turn)
        return True

    def _delete(self, outgoing: OutgoingStream, turn: Turn) -> None:
        if not outgoing.durable:
            self.handle_deleted([outgoing])
            return
        turn.commit.streams.pop(outgoing.stream_number, None)
        turn.commit.stream_deletes.append(outgoing.stream_number)
        # There may be no row left from which the next start could derive the next sequence.
        turn.commit.state[_SEQUENCE] = _NUMBER.pack(self._sequences[True])
        turn.over.append(outgoing)

    def handle_deleted(self, over: list[OutgoingStream]) -> None:
        """These streams are no longer on the disk: their numbers are free."""
        for outgoing in over:
            _move(outgoing, StreamEvent.ROW_DELETED)
            self._free[outgoing.durable].append(outgoing.stream_number)
            if outgoing.via:
                self.look_at(outgoing.via)

    # ---- queries

    @property
    def near_limit(self) -> list[tuple[str, bool]]:
        """The peers near their limit of streams, and whether messages for further queues have to wait."""
        return [(peer, peer in self._crowded) for peer in sorted(self._near | self._crowded)]

    def ended(self, stream: int) -> OutgoingStream | None:
        """An ended stream that its destination may still know, or None."""
        return self._ended.get(stream)


def _move(outgoing: OutgoingStream, event: StreamEvent) -> None:
    outgoing.life = next_state(TRANSITIONS, outgoing.life, event)
