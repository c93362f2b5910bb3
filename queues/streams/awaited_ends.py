"""Streams that have ended at their origins, while relays may still have packets of them.

The END of a stream follows the packets that wait at each relay. If its route was changed meanwhile, some of them may
wait at another one. So a destination that lacks packets of the stream continues to accept them, until it has all or
``REST_NS`` have passed. Only then it forgets the stream, and answers. What comes later is refused, and ends as a dead
letter at the relay that has it: nothing is lost silently, and nothing is accepted twice.

All of this is in memory: until it is answered, the origin says again that the stream has ended.
"""

from collections import Counter

from triack.base.names import StreamId
from triack.base.units import SECOND
from triack.ordering.wire import RelayedEnd
from triack.queues.deadlines import Deadlines
from triack.queues.peers.link import Conversation

REST_NS = 7 * 86_400 * SECOND
"""A week: how long a relay that is no longer on any way may be without a session. If a message expired before it
arrived, the stream needs a place for this long, unless that is needed."""
ENDS_MAX = 2_048
"""Streams awaited, of those that one neighbour says have ended: as many as it may have here by default. More are not
noted: it could invent them, and a true origin repeats its END. Each may keep a closed session, some 8 KB."""


class AwaitedEnds:
    """The streams of a node that are awaited so.

    Attributes:
        due: when ``poll_due`` returns something.
        ends: what the origin of each has said, by which conversation, and until when to wait.
    """

    def __init__(self) -> None:
        self.ends: dict[StreamId, tuple[Conversation, RelayedEnd, int]] = {}
        # How many each neighbour has said.
        self._by: Counter[str] = Counter()
        self.due = Deadlines[StreamId]()

    def wait(self, conversation: Conversation, packet: RelayedEnd, now_ns: int) -> None:
        """A stream has ended, and packets of it are missing. The first statement about it counts."""
        stream = StreamId(packet.origin, packet.stream)
        before, by = self.ends.get(stream), conversation.link_name
        if before is None or before[0].link_name != by:
            if self._by[by] >= ENDS_MAX:
                return
            self._by[by] += 1
            if before is not None:
                self._uncount(before[0])
        is_same = before is not None and before[1].sequence == packet.sequence
        until_ns = before[2] if before is not None and is_same else now_ns + REST_NS
        self.ends[stream] = conversation, packet, until_ns
        self.due.set(stream, until_ns)

    def handle_stored(self, stream: StreamId, now_ns: int) -> None:
        """More of a stream is on the disk."""
        if stream in self.ends:
            self.due.set(stream, now_ns)

    def hasten(self, relay: str) -> None:
        """There is no place for another stream that a relay brings: the one that waits longest must end now."""
        waiting = ((stream, end) for stream, end in self.ends.items() if end[0].link_name == relay)
        found = next(waiting, None)
        if found is not None:
            stream, (conversation, packet, _) = found
            self.ends[stream] = conversation, packet, 0
            self.due.set(stream, 0)

    def poll_due(self, now_ns: int) -> list[tuple[Conversation, RelayedEnd, bool]]:
        """What is due now: which conversation has said it, what it said, and whether to wait no longer.

        Hand a stream that still lacks something to ``wait`` again.
        """
        due = [(stream, self.ends[stream]) for stream in self.due.poll_due(now_ns)]
        return [(conversation, packet, until_ns <= now_ns) for _, (conversation, packet, until_ns) in due]

    def forget(self, stream: StreamId) -> None:
        """A stream is forgotten."""
        ended = self.ends.pop(stream, None)
        if ended is not None:
            self._uncount(ended[0])
        self.due.set(stream, None)

    def _uncount(self, conversation: Conversation) -> None:
        by = conversation.link_name
        self._by[by] -= 1
        if not self._by[by]:
            del self._by[by]
