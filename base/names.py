"""Names of queues, nodes and memory endpoints."""

from collections.abc import Iterable

from triack.base.errors import AddressError

__all__ = ["check_name", "nearest"]

NAME_BYTES_MAX = 124
"""The queue name limit of MSMQ ([MS-MQMQ] 2.1)."""
NAME_PUNCTUATION = frozenset("._-$")
"""It means nothing in an address; ``$`` stands in MSMQ's own names, such as ``order_queue$``."""


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


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that somebody who wrote ``name`` most likely meant, or None when none is near."""
    from difflib import get_close_matches  # noqa: PLC0415 - for what was mistyped

    return next(iter(get_close_matches(name, sorted(known), n=1)), None)
