"""Administration messages of this node: what happened to a message, for the node that sent it.

Promise: an answer is in the commit that holds what it reports, so that a node which dies reports it once, or not at all
because it has not happened. Answers of one packet are submitted together, and so share packets. If no way leads to the
node of an answer, or too many wait for it, the answer is dropped and counted; nothing waits for answers, and none is
sent about an answer.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby, islice

from triack.base.commit import Commit
from triack.base.delivery import LABELS, Delivery
from triack.base.errors import AddressError
from triack.base.names import check_name
from triack.base.peers import Directory
from triack.base.reasons import DropReason
from triack.base.session_log import Record
from triack.ordering.outgoing import StreamPacket
from triack.queues.admin_acks import AdminRequest, Told, answers_to, request_of, wanted_by
from triack.queues.fetching import Fetch, arrived, fetch_packets
from triack.queues.mailboxes.local_commit import LocalTurn
from triack.queues.mailboxes.local_queues import LocalQueues
from triack.queues.mailboxes.system_queues import is_reserved
from triack.queues.messages import JOURNAL, Outgoing, Properties
from triack.queues.node_settings import STREAM_BYTES
from triack.queues.packing import unpack_pieces
from triack.queues.routes import Routes
from triack.queues.schedule import Phase, Schedule
from triack.queues.streams.outbox import Outbox
from triack.queues.streams.outgoing_stream import OutgoingStream
from triack.queues.streams.stream_state import StreamState

MESSAGE_OVERHEAD_BYTES = 64
"""Bytes that each answer counts in limits on memory beside its body."""
WAITING_BYTES_MAX = 16 * 1024 * 1024
"""Up to this memory of answers that wait for a neighbour there are more: as much as a peer may fill by default. It
chooses what it wants to know, and in which queues, and may accept none of it."""
ANSWERING_MIN = 64
"""From this number of streams of answers on, those that have ended are forgotten each time that they have doubled."""
PACKET_BYTES = 512
"""The memory of a waiting packet whose body is only on the disk, measured, and some more."""


@dataclass(eq=False, repr=False)
class Administration:
    """Writes the administration messages of a node.

    Args:
        queues: of the node; answers to its own messages go there.
        routes: the way to each node.
        name_of: the name of a node in destinations; empty for this node.

    Attributes:
        queued: how many answers were queued since the start, by the label of their class.
        unnoted: what the session log says of answers that the next commit holds.
    """

    node_id: bytes
    outbox: Outbox
    queues: LocalQueues
    routes: Routes
    directory: Directory
    name_of: Callable[[bytes], str]
    commit: Callable[[], Commit]
    drops: Counter[DropReason]
    record: Record

    def __post_init__(self) -> None:
        # The streams that answers use, and some that have ended since.
        self._answering: dict[OutgoingStream, None] = {}
        self._look_at = ANSWERING_MIN
        self.queued: Counter[str] = Counter()
        self.unnoted: list[dict[str, object]] = []

    def register(self, schedule: Schedule) -> None:
        """Register when answers are written."""
        schedule.step(Phase.ANSWER, self.tell_whole, self.queues.notices.whole)
        schedule.step(Phase.NOTE_COMMIT, self.note_queued, self.unnoted)
        schedule.source(self.poll_fetch, self.queues.notices.whole)

    def tell(self, told: Told, now_ns: int) -> None:
        """Something happened to messages of a packet: answer those whose senders want to know."""
        for queue, indices in wanted_by(told).items():
            outgoing = self._way_to(told.origin, queue, Delivery(told.delivery), seal=told.content.sealed)
            for first, count in _rows(indices):
                self._note(told, told.place + first, count, now_ns, **({"lost": True} if outgoing is None else {}))
            if outgoing is None:
                self.drops[DropReason.ADMIN_ACK_LOST] += len(indices)
                continue
            answers = answers_to(told, indices)
            if until_ms := self.outbox.unnamed_until_ms(outgoing, now_ns):
                for answer in answers:
                    answer.reach_by_ms = until_ms
            size_bytes = sum(len(it.body) + MESSAGE_OVERHEAD_BYTES for it in answers)
            self.outbox.submit_many(outgoing, list[bytes | Outgoing](answers), size_bytes)
            self.queued[told.message_class.label] += len(indices)

    def _way_to(self, origin: bytes, queue: str, delivery: Delivery, *, seal: bool) -> OutgoingStream | None:
        """The outgoing stream to the node that sent a message; None when no way leads to it.

        An answer about a message that came sealed leaves sealed, or not at all: it has its label.
        """
        name = self.name_of(origin)
        try:
            queue = check_name(queue)
            if is_reserved(queue):
                return None
        except AddressError:
            return None
        if not name:
            if self.queues.is_fixed and queue not in self.queues.mailboxes:
                return None
        elif not self._may_go(name, seal=seal):
            return None
        outgoing = self.outbox.outgoing_stream(name, queue, delivery, self.commit(), seal=seal)
        self._note_answering(outgoing)
        # Express answers wait only in memory.
        return outgoing if outgoing.durable or self.outbox.room_bytes(outgoing) > 0 else None

    def _may_go(self, name: str, *, seal: bool) -> bool:
        way = self.routes.way_of(name)
        if self.directory.named(way.via) is None and any(it.keys for it in self.directory):
            return False  # without keys, nodes without a name here are found by their ids
        return not (self._has_enough(way.via) or (seal and self.outbox.sealing.missing(name, way)))

    def _has_enough(self, neighbour: str) -> bool:
        """Whether too many answers wait for a neighbour, and all behind it, to accept more for them."""
        link = self.outbox.links.get(neighbour)
        streams = [] if link is None else [it for it in link.streams if it in self._answering]
        waiting = sum([len(it.pending) + it.unacknowledged for it in streams])
        return PACKET_BYTES * waiting + STREAM_BYTES * len(streams) >= WAITING_BYTES_MAX

    def _note_answering(self, outgoing: OutgoingStream) -> None:
        if len(self._answering) >= self._look_at:
            self._answering = {it: None for it in self._answering if it.life is StreamState.LIVE}
            self._look_at = max(ANSWERING_MIN, 2 * len(self._answering))
        self._answering[outgoing] = None

    def note_asked(self, outgoing: OutgoingStream, entries: list[StreamPacket], now_ns: int) -> None:
        """Log what messages of packets that are about to be queued ask for."""
        pieces: list[bytes] = []
        for entry in entries:
            if not entry.cares:
                continue
            pieces.append(entry.body or b"")
            if not entry.messages:
                continue  # the others of a large message follow
            properties = unpack_pieces(pieces).properties or []
            pieces = []
            self._note_copies(outgoing, entry.number, properties, now_ns)
            flags = _flags_of(properties)
            place = 0
            for acks, some in groupby(flags):
                count = len(list(some))
                if acks:
                    self.record(
                        "admin_ack_asked",
                        now_ns,
                        origin=self.node_id.hex(),
                        stream=outgoing.stream_number,
                        sequence=outgoing.sequence.sequence,
                        number=entry.number,
                        place=place,
                        count=count,
                        acks=acks,
                        **{"class": outgoing.delivery.label},
                    )
                place += count

    def _note_copies(
        self, outgoing: OutgoingStream, number: int, properties: Sequence[Properties], now_ns: int
    ) -> None:
        """Log which messages of a packet ask for a copy in the journal."""
        asking = [at for at, own in enumerate(properties) if own.get(JOURNAL) is True]
        for first, count in _rows(asking):
            self.record(
                "journal_asked",
                now_ns,
                origin=self.node_id.hex(),
                stream=outgoing.stream_number,
                sequence=outgoing.sequence.sequence,
                number=number,
                place=first,
                count=count,
                **{"class": outgoing.delivery.label},
            )

    def note_queued(self, turn: LocalTurn) -> None:
        """Log the answers that the commit that begins now holds, before what they report."""
        for fields in self.unnoted:
            self.record("admin_ack_queued", turn.now_ns, **fields)
        self.unnoted.clear()

    def _note(self, told: Told, place: int, count: int, now_ns: int, **more: bool) -> None:
        fields = {
            "origin": told.origin.hex(),
            "stream": told.stream,
            "sequence": told.sequence,
            "number": told.number,
            "place": place,
            "count": count,
            "message_class": int(told.message_class),
            **more,
            "class": LABELS[told.delivery],
        }
        if told.delivery == Delivery.EXPRESS:
            self.record("admin_ack_queued", now_ns, **fields)  # no commit holds it
        else:
            self.unnoted.append(fields)

    # ---- large messages

    def tell_whole(self, turn: LocalTurn) -> None:
        """Report the large messages that are whole since the last call and whose bodies are in memory, in order."""
        whole = self.queues.notices.whole
        while whole and whole[0][1].pieces:
            self.queues.tell_whole(*whole.popleft(), turn.now_ns)

    def poll_fetch(self) -> Fetch | None:
        """A fetch of the body that is needed next, or None."""
        return fetch_packets((packet for _, packet in islice(self.queues.notices.whole, 1)), self._load)

    def _load(self, bodies: dict[int, bytes]) -> None:
        """A body has been read; without it the message is gone, and so is its request."""
        whole = self.queues.notices.whole
        packet = whole[0][1]
        for _, pieces in arrived([packet], bodies):
            packet.pieces = pieces
        if not packet.pieces:
            whole.popleft()


def _flags_of(properties: Sequence[Properties]) -> list[int]:
    flags: list[int] = []
    last: Properties | None = None
    request: AdminRequest | None = None
    for own in properties:
        if own is not last:
            last, request = own, request_of(own)
        flags.append(0 if request is None else int(request.acks))
    return flags


def _rows(indices: Sequence[int]) -> list[tuple[int, int]]:
    rows: list[tuple[int, int]] = []
    for index in indices:
        if rows and sum(rows[-1]) == index:
            rows[-1] = rows[-1][0], rows[-1][1] + 1
        else:
            rows.append((index, 1))
    return rows
