"""Names of queues, nodes, streams and memory endpoints."""

from collections.abc import Collection
from typing import NamedTuple

from triack.base.errors import AddressError

__all__ = ["StreamId", "check_name", "nearest", "what_else"]

NAME_BYTES_MAX = 124
"""The queue name limit of MSMQ ([MS-MQMQ] 2.1)."""
NAME_PUNCTUATION = frozenset("._-$")
"""These have no meaning in an address; ``$`` is in MSMQ's own names, such as ``order_queue$``."""

COMPARED_MAX = 100
"""How many names one is compared with.

Each takes as many microseconds as it has letters. Where there are more, programs have made most of them, with numbers:
each is like all others.
"""
TOLD_MAX = 20
"""Names in a message: as many as fit on a screen."""


def check_name(name: object) -> str:
    """Return ``name`` when it can name a queue, a peer or a memory endpoint.

    A name has 1 to 124 bytes of UTF-8: letters, digits, ``.``, ``_``, ``-`` and ``$``, and no ``.`` at its start.

    Raises:
        AddressError: with the name and what is wrong with it.
    """
    if not isinstance(name, str):
        raise AddressError(f"a name is text, not {name!r}")
    if not name:
        raise AddressError("a name must not be empty")
    for char in name:
        if not (char.isalpha() or char.isdecimal() or char in NAME_PUNCTUATION):
            raise AddressError(f"name {name!r}: {char!r} is not a letter, a digit or one of . _ - $")
    if name[0] == ".":
        raise AddressError(f"name {name!r}: it must not start with '.'")
    if len(name.encode()) > NAME_BYTES_MAX:
        raise AddressError(f"name {name!r}: it is longer than {NAME_BYTES_MAX} bytes")
    return name


def nearest(name: str, known: Collection[str]) -> str | None:
    """The known name that the writer of ``name`` most likely meant; None when none is near, or there are many."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for mistyped names

    if len(known) > COMPARED_MAX:
        return None
    return next(iter(get_close_matches(name, sorted(known), n=1)), None)


def what_else(name: str, known: Collection[str]) -> str:
    """The known names, for a caller whose ``name`` is unknown."""
    meant = nearest(name, known)
    if meant is not None:
        return f"did you mean {meant}?"
    told = ", ".join(sorted(known)[:TOLD_MAX]) or "none yet"
    return f"there is {told}" + (f" and {len(known) - TOLD_MAX} more" if len(known) > TOLD_MAX else "")


class StreamId(NamedTuple):
    """Which stream: nothing else tells two apart, at either end or on the way.

    Attributes:
        origin: id of the node that writes it, 16 bytes.
        number: of the stream, unique among those of its origin that have not ended.
    """

    origin: bytes
    number: int
