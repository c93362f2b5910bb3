"""Removing what waits here for another node, as an operator wants it: a portion at a time.

Promise: only what was here at the beginning is removed, and all of it, unless it leaves meanwhile or its origin cannot
be told. A portion is in memory at a time, and the next one begins when the words about it, or its dead letters, are
gone. A large message is in one portion, with all that is here of it.
"""

from triack.base.reasons import DeadReason
from triack.ordering.departing import StreamPacketState
from triack.ordering.transit_packet import TransitPacket
from triack.queues.mailboxes.expiry import LETTERS_MAX
from triack.queues.streams.group_commit import Turn
from triack.queues.streams.transit_stream import TransitStream
from triack.queues.transit.transits import Transits

_LIVE = (StreamPacketState.WAITING_TO_SEND, StreamPacketState.SENT)


class TransitPurge:
    """One purge.

    Args:
        final: the node for which messages are removed, as the neighbours that bring them call it.
    """

    def __init__(self, transits: Transits, final: str, queue: str | None = None) -> None:
        self._transits = transits
        # By stream: its sequence, and the last packet of that which is to be removed.
        self._ends = {
            stream: (stream.sequence.sequence, stream.sequence.highest)
            for stream in transits.streams
            if stream.final == final and queue in (None, stream.queue)
        }

    @property
    def has_more(self) -> bool:
        """Whether a further step may remove something."""
        return bool(self._ends)

    def step(self, turn: Turn) -> int:
        """Remove the next portion, if the one before it is gone. Returns its number of messages."""
        for stream, (sequence, end) in list(self._ends.items()):
            if self._transits.letters.waiting:
                return 0
            entries = self._portion(stream, end) if stream.sequence.sequence == sequence else []
            # The origin of a transactional stream has to hear of each packet.
            takes = self._transits.returns.takes(stream, len(entries)) if stream.sequence.ordered else True
            if entries and takes is None:
                return 0
            if entries and takes:
                self._transits.end_by_hand(stream, entries, DeadReason.PURGED, turn)
                return sum([entry.messages for entry in entries])
            del self._ends[stream]
        return 0

    def _portion(self, stream: TransitStream, end: int) -> list[TransitPacket]:
        """The next packets to remove, up to the end of a message."""
        sequence, want = stream.sequence, LETTERS_MAX
        while True:
            self._transits.bodies.bring_back(stream, want)
            on_disk = sequence.on_disk
            live = sorted(number for number, it in sequence.entries.items() if number <= end and it.state in _LIVE)
            entries = [sequence.entries[number] for number in live]
            cut = min(len(entries), LETTERS_MAX)
            while cut < len(entries) and not entries[cut - 1].messages:
                cut += 1
            is_cut = cut == len(entries) and (not entries or not entries[-1].messages)
            if not (is_cut and on_disk and on_disk.first <= end):
                return entries[:cut]
            want += LETTERS_MAX
