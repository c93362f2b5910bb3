"""What the first bytes of a packet body say; its layout is in ``queues.packing``.

A start reads only these of a packet that waits on the disk, and a node that passes a sealed body on sees nothing else.
"""

from struct import Struct

from triack.base.commit import CARES, HEAD_BYTES
from triack.base.delivery import PRIORITY_MAX

HEAD = Struct("!BHQQQ")
"""First byte, count of messages, ordinal of the first one, when it was sent, when it must have been received."""
PLACE = Struct("!II")
"""The size of the text of a large message and the place of a piece in it, behind the head of a piece or of a sealed
body."""
RICH, SEAL, LARGE, TOPIC = 0b1, 0b10, 0b100, 0b1000
"""The bits of the first byte that say whether messages have properties, whether the body is sealed, whether its message
represents a large one, and whether it has the name of a topic."""
OPENED = 0x8000
"""The bit of the count of a body that came sealed and was opened: no packet has room for 32,768 messages."""
PRIORITY_SHIFT = 4
"""The lowest of the three bits of the priority, in the first byte of a body."""
TIME_MAX_MS = (1 << 64) - 1
"""The latest time that the head of a body can hold."""
SEAL_ADDS_BYTES = 96
"""What sealing a text adds: the ephemeral key, 32 bytes, the sealed key of the sealer, 48, and a tag, 16."""
SEALED_BYTES = SEAL_ADDS_BYTES + 1 + PLACE.size
"""By how much longer a body is when it is sealed, at most: its first byte is there twice, and it has a place."""

assert HEAD.size + PLACE.size == HEAD_BYTES, "what ``count_of`` and ``fragment_range`` need to see"


def count_of(head: bytes) -> int:
    """Number of messages in a body, by its first ``HEAD_BYTES``; 1 for a piece of one."""
    return int(HEAD.unpack_from(head)[1]) & ~OPENED or 1


def is_piece(head: bytes) -> bool:
    """Whether a body, by its first ``HEAD_BYTES``, is a piece of a larger message."""
    return len(head) >= HEAD_BYTES and not (head[1] << 8 | head[2]) & ~OPENED


def read_plain(head: bytes) -> tuple[int, int] | None:
    """Count and sending time of whole messages that may be received at any time, by their first ``HEAD_BYTES``.

    None for a piece, a sealed or a large message, and for messages whose life ends.
    """
    if len(head) < HEAD.size:
        return None
    first, count, _, sent_at_ms, receive_by_ms = HEAD.unpack_from(head)
    count &= ~OPENED
    return None if not count or first & (SEAL | LARGE) or receive_by_ms else (count, sent_at_ms)


def large_of(head: bytes) -> int:
    """The ordinal of the large message that the message of a body represents, by its first bytes; 0 for none."""
    return int(HEAD.unpack_from(head)[2]) if head[0] & LARGE else 0


def priority_of(head: bytes) -> int:
    """The priority of the messages of a body, by its first byte."""
    return head[0] >> PRIORITY_SHIFT & PRIORITY_MAX


def ordinal_of(head: bytes) -> int:
    """The ordinal of the first message of a body, by its first ``HEAD_BYTES``."""
    return int(HEAD.unpack_from(head)[2])


def cares_of(head: bytes) -> bool:
    """Whether messages of a body, by its first bytes, have a property of ``CARING``."""
    return head[0] >= CARES


def sent_at_of(head: bytes) -> int:
    """When the messages of a body were sent, by its first ``HEAD_BYTES``: milliseconds of the sender's wall clock."""
    return int(HEAD.unpack_from(head)[3]) if len(head) >= HEAD.size else 0


def receive_by_of(head: bytes) -> int:
    """When the messages of a body must have been received, by its first ``HEAD_BYTES``; 0 for any time."""
    return int(HEAD.unpack_from(head)[4])


def messages_in(body: bytes) -> int:
    """Number of messages that end in a body: all of a run, and one in the last piece of a large one."""
    head = body[:HEAD_BYTES]
    fragment = fragment_range(head, len(body))
    if fragment is None:
        return count_of(head)
    _, offset, length, total_bytes = fragment
    return int(offset + length == total_bytes)


def fragment_range(head: bytes, size_bytes: int) -> tuple[int, int, int, int] | None:
    """Ordinal, offset, length and total of a piece of a larger message; None for whole messages."""
    if not is_piece(head):
        return None
    total_bytes, offset = PLACE.unpack_from(head, HEAD.size)
    length = size_bytes - HEAD_BYTES - (SEAL_ADDS_BYTES + 1 if is_sealed(head) else 0)
    return ordinal_of(head), offset, length, total_bytes


def is_sealed(body: bytes) -> bool:
    """Whether a body, by its first bytes, is sealed."""
    return bool(body) and bool(body[0] & SEAL)


def was_sealed(body: bytes) -> bool:
    """Whether a body, by its first bytes, came sealed and was opened."""
    return len(body) >= HEAD.size and bool(HEAD.unpack_from(body)[1] & OPENED)


def mark_opened(body: bytes) -> bytes:
    """A body with the mark of one that came sealed and was opened."""
    first, count, *rest = HEAD.unpack_from(body)
    return HEAD.pack(first, count | OPENED, *rest) + body[HEAD.size :]


def kept_until(body: bytes, receive_by_ms: int) -> bytes:
    """A body, or one piece of a message, as a journal keeps it: it has no consequences, and ends at that time."""
    first, count, ordinal, sent_at_ms, _ = HEAD.unpack_from(body)
    return HEAD.pack(first & ~CARES, count, ordinal, sent_at_ms, receive_by_ms) + body[HEAD.size :]


def move_times(body: bytes, by_ms: int) -> bytes:
    """A body, or the first bytes of one, with its sending and receive-by times moved."""
    first, count, ordinal, sent_at_ms, receive_by_ms = HEAD.unpack_from(body)
    moved = min(max(1, receive_by_ms + by_ms), TIME_MAX_MS) if receive_by_ms else 0
    sent_at_ms = min(max(0, sent_at_ms + by_ms), TIME_MAX_MS)
    return HEAD.pack(first, count, ordinal, sent_at_ms, moved) + body[HEAD.size :]
