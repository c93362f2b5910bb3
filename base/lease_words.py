"""The layout of a node's notes of leased messages: words of 64 bits that the process writes outside of any commit.

The words outlive the process but not the machine: only the next start, in the same boot of the system, may read them
(``store/lease_file.py``).

    header  the start that wrote them, the start before it, words of the section LEFT, where the section LIVE begins
    LEFT    cells of earlier starts that no commit has recorded yet
    LIVE    cells of this start
    cell    key of the packet's first row (0: free), how many words each of the two sets has,
            the set of leased messages, the set of acknowledged messages; message i is bit i
"""

from array import array
from collections.abc import Iterator

WORD_BITS = 64
"""Of a memoryview's format ``Q``."""
START_AT, BEFORE_AT, LEFT_AT, LIVE_AT = range(4)
HEADER_WORDS = 4
"""All of them."""
CELL_HEAD = 2
"""Words of a cell before its sets."""
LIVE_WORDS = 32 * 1024
"""256 KiB, which each start writes: 8,192 packets of up to 64 messages, leased or done since the last commit."""

Marks = dict[int, tuple[int, int]]
"""By the key of a packet: its messages that were leased when the process ended, and those that were acknowledged."""


def begin_words(before: int, start: int, left: Marks) -> "array[int]":
    """The words of a new start, with those that earlier ones left; ``before`` was the last of these."""
    cells = [word for key, marks in left.items() for word in _cell(key, *marks)]
    return array("Q", [start, before, len(cells), HEADER_WORDS + len(cells), *cells]) + array("Q", [0]) * LIVE_WORDS


def read_marks(words: "memoryview | array[int]", start: int) -> Marks:
    """Read the words of the last start that the store knows; nothing if another start wrote them.

    A start that died before its first commit is unknown to the store; its words repeat those that it had found.
    """
    found: Marks = {}
    if len(words) < HEADER_WORDS or start not in (words[START_AT], words[BEFORE_AT]):
        return found
    sections = [(HEADER_WORDS, HEADER_WORDS + words[LEFT_AT])]
    if words[START_AT] == start:
        sections.append((words[LIVE_AT], len(words)))
    for first, end in sections:
        for key, held, acked in _cells(words, first, end):
            before = found.get(key, (0, 0))
            found[key] = (before[0] | held) & ~acked, before[1] | acked
    return {key: marks for key, marks in found.items() if any(marks)}


def _cell(key: int, held: int, acked: int) -> list[int]:
    size = -(-max(held.bit_length(), acked.bit_length()) // WORD_BITS)
    mask = (1 << WORD_BITS) - 1
    sets = [bits >> at * WORD_BITS & mask for bits in (held, acked) for at in range(size)]
    return [key, size, *sets]


def _cells(words: "memoryview | array[int]", at: int, end: int) -> Iterator[tuple[int, int, int]]:
    while at + CELL_HEAD <= end and words[at + 1]:
        key, size = words[at], words[at + 1]
        held_at, acked_at = at + CELL_HEAD, at + CELL_HEAD + size
        if key:
            yield key, _set(words, held_at, size), _set(words, acked_at, size)
        at = acked_at + size


def _set(words: "memoryview | array[int]", at: int, size: int) -> int:
    return sum(words[at + index] << index * WORD_BITS for index in range(size))
