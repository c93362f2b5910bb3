"""Notes of the messages that applications have leased. They outlive the process, so that its death counts for them.

Promise: after a death, the next start finds exactly the messages that a handler had leased, and those that were
acknowledged without a commit. A lease costs one write to memory, and no system call. When no memory is left for notes,
packets are handed out without a note, and a death does not count for them.

    free --a run of a packet begins--> cell --its last message is done, and a commit has said so--> free

The caller of the engine owns the memory: words of 64 bits, laid out by ``base/lease_words.py``. It usually maps a file
there, so that the system keeps them when the process is killed. Without words there are no notes.
"""

from collections import defaultdict
from collections.abc import Iterable

from triack.base.lease_words import CELL_HEAD, LEFT_AT, LIVE_AT, WORD_BITS
from triack.queues.mailboxes.queued_packet import QueuedPacket

_WORD = (1 << WORD_BITS) - 1  # all bits of one


class Leases:
    """The notes of one start.

    Attributes:
        words: None when the node has ended.
        cells: position in the words of each packet that has a cell.
    """

    def __init__(self, words: memoryview | None) -> None:
        self.words = words
        self.cells: dict[QueuedPacket, int] = {}
        self._end = 0 if words is None else words[LIVE_AT]
        # Free cells, by the number of words of each of their sets.
        self._free: dict[int, list[int]] = defaultdict(list)

    def open(self, packets: Iterable[QueuedPacket]) -> None:
        """Messages of packets are about to be handed out: give each durable one a cell, if it has none."""
        words, cells = self.words, self.cells
        if words is None:
            return
        for packet in packets:
            if not packet.keys or packet in cells:
                continue
            # Most have one word.
            size = 1 if packet.count <= WORD_BITS else 1 << (-(-packet.count // WORD_BITS) - 1).bit_length()
            if free := self._free[size]:
                at = free.pop()
            elif self._end + CELL_HEAD + 2 * size <= len(words):
                at, self._end = self._end, self._end + CELL_HEAD + 2 * size
                words[at + 1] = size
            else:
                continue
            if size == 1:
                words[at + CELL_HEAD] = words[at + CELL_HEAD + 1] = 0
            else:
                for word in range(at + CELL_HEAD, at + CELL_HEAD + 2 * size):
                    words[word] = 0
            words[at] = packet.keys[0]  # last: until then a reader skips the cell
            cells[packet] = at + CELL_HEAD

    def close(self, packets: Iterable[QueuedPacket]) -> None:
        """A commit has whole packets as done: free their cells."""
        words, cells, free = self.words, self.cells, self._free
        for packet in packets:
            cell = cells.pop(packet, None)
            if cell is not None and words is not None:
                at = cell - CELL_HEAD
                words[at] = 0
                free[words[at + 1]].append(at)

    def hold(self, held: Iterable[tuple[QueuedPacket, int]]) -> None:
        """An application of this process leases messages of packets, message i if bit i is set."""
        words, cells = self.words, self.cells
        if words is None:
            return
        for packet, bits in held:
            cell = cells.get(packet)
            if cell is None:
                continue
            if words[cell - 1] == 1:  # most have one word
                words[cell] |= bits
            else:
                self._change(words, cell, bits)

    def let_go(self, packet: QueuedPacket, bits: int) -> None:
        """Applications no longer have these messages; they are redelivered."""
        cell = self.cells.get(packet)
        if cell is not None and self.words is not None:
            self._change(self.words, cell, bits, clear=True)

    def settle(self, done: list[tuple[QueuedPacket, int]], is_safe: bool) -> None:
        """Messages of packets were acknowledged. ``is_safe``: everything requested before that is on the disk.

        Otherwise the notes must not say that they are done; the commit that holds both will.
        """
        words = self.words
        if words is None:
            return
        for packet, bits in done:
            cell = self.cells.get(packet)
            if cell is None:
                continue
            size = words[cell - 1]
            if size == 1:  # most have one word
                if is_safe:
                    words[cell + 1] |= bits
                else:
                    words[cell] &= ~bits & _WORD
            elif is_safe:
                self._change(words, cell + size, bits)
            else:
                self._change(words, cell, bits, clear=True)

    @staticmethod
    def _change(words: memoryview, at: int, bits: int, *, clear: bool = False) -> None:
        while bits:
            some = bits & _WORD
            if some and clear:
                words[at] &= ~some & _WORD
            elif some:
                words[at] |= some
            bits >>= WORD_BITS
            at += 1

    def forget_left(self) -> None:
        """A commit holds the leases that earlier starts left: forget them."""
        if self.words is not None:
            self.words[LEFT_AT] = 0

    def handle_end(self) -> None:
        """The node ends, but not because of a handler: leased messages are redelivered, and do not count as failed."""
        words = self.words
        if words is None:
            return
        at = words[LIVE_AT]
        while at < self._end:
            size = words[at + 1]
            for word in range(at + CELL_HEAD, at + CELL_HEAD + size):
                words[word] = 0
            at += CELL_HEAD + 2 * size
        self.words = None
