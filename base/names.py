"""Names of queues, nodes, streams and memory endpoints."""

from collections.abc import Collection
from typing import NamedTuple
from unicodedata import category, normalize

from triack.base.errors import AddressError

NAME_BYTES_MAX = 124
"""The queue name limit of MSMQ ([MS-MQMQ] 2.1)."""
NAME_PUNCTUATION = frozenset("._-$")
"""These have no meaning in an address; ``$`` is in MSMQ's own names, such as ``order_queue$``."""

_UNSEEN = frozenset(
    map(chr, (0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F, 0x3164, 0xFFA0))
) | frozenset(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
"""Characters that Unicode shows as nothing (Default_Ignorable_Code_Point): with one, two names look alike."""

TOPIC_PREFIX = "topic:"
"""Marks a topic where a queue could also be named: no queue has a colon in its name."""
LEVEL_END = "."
"""Divides the levels of a topic's name, as in WSO2 Message Broker."""
ONE_LEVEL, ALL_BELOW = "*", "#"
"""Levels of a pattern: any one level; that name, and all names below it."""

COMPARED_MAX = 100
"""Compare a name with no more than this many. Each takes as many microseconds as it has letters. If there are more,
programs have made most of them, with numbers: each looks like all others."""
TOLD_MAX = 20
"""Names in a message: as many as fit on a screen."""


def composed(text: str) -> str:
    """A name in the form in which names are compared and kept (NFC): ``ä`` may be written as one letter or as two."""
    return text if text.isascii() else normalize("NFC", text)


def check_name(name: object) -> str:
    """Return ``name``, composed, if it can name a queue, a peer or a memory endpoint.

    A name has 1 to 124 bytes of UTF-8: letters, the marks that belong to them, digits, ``.``, ``_``, ``-`` and ``$``,
    and no ``.`` at its start.

    Raises AddressError, with the name and what is wrong with it.
    """
    if not isinstance(name, str):
        raise AddressError(f"a name is text, not {name!r}")
    if not name:
        raise AddressError("a name must not be empty")
    name = composed(name)
    before = ""
    for char in name:
        if char in _UNSEEN:
            raise AddressError(f"name {name!r}: {char!a} is shown as nothing, so that it looks like another name")
        # A mark belongs to the letter or digit before it.
        if not (char.isalpha() or char.isdecimal() or char in NAME_PUNCTUATION or _is_mark(char)):
            raise AddressError(f"name {name!r}: {char!r} is not a letter, a digit or one of . _ - $")
        if (not before or before in NAME_PUNCTUATION) and _is_mark(char):
            raise AddressError(f"name {name!r}: the mark {char!a} has no letter before it")
        before = char
    if name[0] == ".":
        raise AddressError(f"name {name!r}: it must not start with '.'")
    if len(name.encode()) > NAME_BYTES_MAX:
        raise AddressError(f"name {name!r}: it is longer than {NAME_BYTES_MAX} bytes")
    return name


def _is_mark(char: str) -> bool:
    return category(char) in ("Mn", "Mc")


def check_topic(name: object) -> str:
    """Return ``name``, composed, if it can name a topic: levels such as ``Games.Cricket.Scores``, each as in a queue.

    With ``topic:`` before it, it has no more bytes than the name of a queue. Raises AddressError.
    """
    checked = check_name(name)
    _check_filled(checked)
    if len(checked.encode()) > NAME_BYTES_MAX - len(TOPIC_PREFIX):
        raise AddressError(f"topic {checked!r}: it is longer than {NAME_BYTES_MAX - len(TOPIC_PREFIX)} bytes")
    return checked


def check_levels(below: str) -> str:
    """Return, composed, what the name of a topic may have below its root; it may be empty. Raises AddressError."""
    return _check_filled(check_name(below)) if below else below


def _check_filled(name: str) -> str:
    if not all(name.split(LEVEL_END)):
        raise AddressError(f"topic {name!r}: a level of it is empty")
    return name


def check_pattern(pattern: object) -> str:
    """Return ``pattern``, composed, if it is a pattern of topics. Raises AddressError.

    ``Games.*`` matches one level below, ``Games.#`` that name and all below. The first level is the name of a root; any
    other may be ``*``, and the last one ``#``.
    """
    if not isinstance(pattern, str):
        raise AddressError(f"a pattern of topics is text, not {pattern!r}")
    pattern = composed(pattern)
    root, *levels = pattern.split(LEVEL_END)
    if root in (ONE_LEVEL, ALL_BELOW):
        raise AddressError(
            f"pattern {pattern!r}: there is no pattern over all roots; its first level must be the name of one, "
            f"such as Games, and each root needs a subscription of its own"
        )
    if ALL_BELOW in levels[:-1]:
        raise AddressError(f"pattern {pattern!r}: {ALL_BELOW} may only be its last level")
    named = [root, *(level for level in levels if level not in (ONE_LEVEL, ALL_BELOW))]
    try:
        check_topic(LEVEL_END.join(named))
    except AddressError as error:
        raise AddressError(f"pattern {pattern!r}: {error}") from None
    if len(pattern.encode()) > NAME_BYTES_MAX:
        raise AddressError(f"pattern {pattern!r}: it is longer than {NAME_BYTES_MAX} bytes")
    return pattern


def check_permitted(pattern: object) -> str:
    """Return ``pattern``, composed, if it can say what a peer may subscribe to. Raises AddressError.

    As ``check_pattern``, but the first level may be ``*``, and ``#`` is every topic.
    """
    if not isinstance(pattern, str):
        raise AddressError(f"a pattern of topics is text, not {pattern!r}")
    pattern = composed(pattern)
    root, below, levels = pattern.partition(LEVEL_END)
    if root == ONE_LEVEL or (root == ALL_BELOW and not below):
        check_pattern(f"any{below}{levels}")
        return pattern
    return check_pattern(pattern)


def covers(permitted: str, pattern: str) -> bool:
    """Whether every topic that ``pattern`` matches also matches ``permitted``."""
    wide, narrow = permitted.split(LEVEL_END), pattern.split(LEVEL_END)
    for at, level in enumerate(wide):
        if level == ALL_BELOW:
            return True
        if at >= len(narrow) or narrow[at] == ALL_BELOW or level not in (ONE_LEVEL, narrow[at]):
            return False
    return len(wide) == len(narrow)


def check_queue(name: object) -> str:
    """Return ``name``, composed, if one can send there: a queue, or a topic after ``topic:``. Raises AddressError."""
    if isinstance(name, str) and name.startswith(TOPIC_PREFIX):
        return TOPIC_PREFIX + check_topic(name.removeprefix(TOPIC_PREFIX))
    return check_name(name)


def split_topic(name: str) -> tuple[str, str | None]:
    """The queue in which messages for a name arrive, and the rest of its topic below the root; None for a queue.

    ``topic:Games.Cricket`` gives ``topic:Games`` and ``Cricket``.
    """
    if not name.startswith(TOPIC_PREFIX):
        return name, None
    root, _, below = name.partition(LEVEL_END)
    return root, below


def nearest(name: str, known: Collection[str]) -> str | None:
    """The known name that the writer of ``name`` most likely meant; None if none is similar, or there are many."""
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
    """Identifies a stream at both ends and on the way. ``number`` is unique among its origin's live streams."""

    origin: bytes
    number: int
