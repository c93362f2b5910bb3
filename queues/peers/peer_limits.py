"""How many streams and queues a peer may have here, and the streams for which there is no place.

Each costs memory that only this node can free: a peer pays for all that it begins, under however many names. A stream
without a place is not refused: its origin is asked to wait with it, and asked to go on when another one has ended.
"""

from collections import OrderedDict
from dataclasses import dataclass

from triack.base.names import StreamId
from triack.base.news import StreamsNearLimit
from triack.base.reasons import HoldReason
from triack.ordering.wire import HoldPacket, SequenceHeader
from triack.queues.mailboxes.local_queues import LocalQueues
from triack.queues.mailboxes.quotas import Account, Payer, PayerOf
from triack.queues.mailboxes.system_queues import SUBSCRIPTIONS_QUEUE, large_queue, large_target
from triack.queues.node_settings import STREAM_BYTES, NodeSettings, streams_limit
from triack.queues.peers.control import key_of
from triack.queues.peers.link import Conversation

KEPT_OUT_MAX = 256
"""Streams of one session that the node notifies when there is a place; any others ask again by themselves."""


class HoldSender:
    """Tells neighbours that a stream has to wait, or may continue.

    Of two holds of a stream the later one has the greater turn, in any session, and even if the stream was forgotten
    between them and has begun again.
    """

    def __init__(self) -> None:
        self._turn = 0

    def say(
        self,
        conversation: Conversation,
        stream: StreamId,
        reason: str = "",
        refuses: tuple[int, ...] = (),
        *,
        stop: bool,
        turn: int = 0,
    ) -> int:
        """Say so to a neighbour. Returns the turn of the hold; 0 when too many other answers wait.

        ``refuses``: the session's numbers of the packets that were not taken. They stay unanswered when too many
        answers wait, and their session retransmits them. ``turn``: that of the hold which this one only repeats.
        """
        if not turn:
            turn = self._turn = self._turn + 1
        if conversation.session.is_closed:
            return turn  # a hold ends with its session
        return turn if conversation.say(HoldPacket(*stream, turn, stop, reason), refuses) else 0


class _KeptOut:
    """The streams of one session that are not known here because there is no place for them.

    Attributes:
        streams: those to notify when there is a place, the longest waiting first.
        overflowed: whether there were too many to remember all.
    """

    __slots__ = ("overflowed", "streams")

    def __init__(self) -> None:
        self.streams: OrderedDict[StreamId, None] = OrderedDict()
        self.overflowed = False


@dataclass(eq=False, repr=False)
class StreamPlaces:
    """The places of streams, by the peer that pays.

    Attributes:
        account: the streams themselves, in memory.
        freed: the last stream that has given back its place since the last check for streams that may have it.
        hold_sender: says which streams have to wait, these and others.
    """

    settings: NodeSettings
    queues: LocalQueues
    account: Account
    payer_of: PayerOf

    def __post_init__(self) -> None:
        self.freed: list[object] = []
        self.hold_sender = HoldSender()
        # Peers near their limit of streams, and whether some of their streams had to wait.
        self._told_limit: dict[Payer, bool] = {}
        self._kept_out: dict[Conversation, _KeptOut] = {}

    def has_enough(self, origin: bytes, queue: str = "") -> bool:
        """Whether a peer may have no more streams.

        A stream to a queue may begin beyond the limit for each body that waits there for a message: the body has room
        that the streams within the limit may wait for. The stream may bring that message, or say that it does not come.
        So may the one that says which subscriptions end.
        """
        if not self._has_enough(origin, 0):
            return False
        parts = self.queues.mailboxes.get(large_queue(large_target(queue) or queue)) if queue else None
        bodies = self.queues.bodies
        beyond = int(queue == SUBSCRIPTIONS_QUEUE) if parts is None else bodies.awaiting(origin, parts.fill)
        return not beyond or self._has_enough(origin, STREAM_BYTES * beyond)

    def _has_enough(self, origin: bytes, more_bytes: int) -> bool:
        all_bytes = STREAM_BYTES * self.settings.max_streams + more_bytes
        return self.account.of(origin) >= all_bytes or self.account.has_enough(origin, more_bytes)

    def charge(self, origin: bytes, places: int = 1) -> None:
        """Charge a peer for a stream, or for the record of the ended streams of one of its nodes; with -1 no more."""
        self.account.add(origin, STREAM_BYTES * places)
        self._tell_limit(origin)

    def _tell_limit(self, origin: bytes, *, is_full: bool = False) -> None:
        """Tell the operator, once each, that a peer is near its limit of streams, or that some have to wait."""
        payer, limit = self.payer_of(origin), streams_limit(self.settings)
        streams, told = self.account.of(origin) // STREAM_BYTES, self._told_limit.get(payer)
        if is_full > bool(told) or (told is None and 4 * streams >= 3 * limit):
            self._told_limit[payer] = is_full
            name = payer if isinstance(payer, str) else payer.hex()
            self.queues.notices.news.append(StreamsNearLimit(name, streams, limit, incoming=True, is_full=is_full))
        elif told is not None and 2 * streams <= limit:
            del self._told_limit[payer]

    @property
    def near_limit(self) -> list[tuple[str, bool]]:
        """The peers near their limit of streams, and whether some of their streams had to wait."""
        return [(it if isinstance(it, str) else it.hex(), is_full) for it, is_full in self._told_limit.items()]

    # ---- streams for which there is no place

    def keep_out(self, conversation: Conversation, header: SequenceHeader, packet: int) -> bool:
        """Ask an origin to wait with an unknown stream, for which there is no place.

        Returns False when too many other answers wait.
        """
        self._tell_limit(header.origin, is_full=True)
        stream = StreamId(header.origin, header.stream)
        if not self.hold_sender.say(conversation, stream, HoldReason.TOO_MANY_STREAMS, (packet,), stop=True):
            return False
        kept = self._kept_out.setdefault(conversation, _KeptOut())
        kept.streams[stream] = None
        kept.streams.move_to_end(stream)
        if len(kept.streams) > KEPT_OUT_MAX:
            # Its origin asks by itself, now and then.
            kept.streams.popitem(last=False)
            kept.overflowed = True
        return True

    def let_in(self, conversation: Conversation, stream: StreamId) -> None:
        """A stream is known now: let it continue if it was kept out before in this session."""
        kept = self._kept_out.get(conversation)
        if kept is not None and (stream in kept.streams or kept.overflowed):
            kept.streams.pop(stream, None)
            self._say_go(conversation, stream)

    def _say_go(self, conversation: Conversation, stream: StreamId) -> None:
        key = key_of(HoldPacket(*stream, 0, stop=False))
        # It replaces a stop that has not left: its origin learns by the reason that packets were not accepted.
        unsent = conversation.control is not None and key in conversation.control
        reason = HoldReason.TOO_MANY_STREAMS if unsent else ""
        self.hold_sender.say(conversation, stream, reason, stop=False)

    def give(self) -> None:
        """For each free place, let one stream that was kept out ask again, the longest waiting first."""
        self.freed.clear()
        for conversation, kept in self._kept_out.items():
            origin = conversation.peer_id
            places = streams_limit(self.settings) - self.account.of(origin) // STREAM_BYTES
            while kept.streams and places > 0 and not self.has_enough(origin):
                stream, _ = kept.streams.popitem(last=False)
                self._say_go(conversation, stream)
                places -= 1

    def handle_session_closed(self, conversation: Conversation) -> None:
        """Its origins begin all that they send anew."""
        self._kept_out.pop(conversation, None)


class QueuePlaces:
    """The queues that this node has created for peers, by the peer that pays.

    Attributes:
        account: how many there are since the start that still exist.
        wanted: queues that may not be created, for which streams wait: any queue that becomes idle makes room for them.
    """

    def __init__(self, settings: NodeSettings, queues: LocalQueues, payer_of: PayerOf) -> None:
        self.account = Account(settings.limits.max_peer_queues, settings.max_queues, payer_of)
        self.wanted: list[str] = []
        self._max_queues = settings.max_queues
        self.queues = queues
        self._makers: dict[str, bytes] = {}
        queues.on_removed = self._handle_removed

    def lacks(self, origin: bytes, queue: str) -> bool:
        """Whether a queue is not there, and a peer may have no more of them."""
        if queue in self.queues.mailboxes or not self._is_crowded(origin):
            return False
        self.queues.make_room()
        lacks = self._is_crowded(origin)
        if lacks and not self.wanted:
            self.wanted.append(queue)
        return lacks

    def _is_crowded(self, origin: bytes) -> bool:
        return len(self.queues.mailboxes) >= self._max_queues or self.account.has_enough(origin)

    def handle_made(self, origin: bytes, queue: str) -> None:
        """A queue was created for a peer."""
        self._makers[queue] = origin
        self.account.add(origin, 1)

    def _handle_removed(self, queue: str) -> None:
        """An unused queue was removed, which makes room for others."""
        origin = self._makers.pop(queue, None)
        if origin is not None:
            self.account.add(origin, -1)
