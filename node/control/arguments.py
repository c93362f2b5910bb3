"""What the arguments of a call must be, before anything is done with them.

Each call has those that its verb names here, each of its kind; what is beside them is of no account.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from math import isfinite
from typing import Any

from triack.base.errors import ProtocolError
from triack.base.reasons import DropReason

__all__ = ["ARGUMENTS", "Kind", "check_arguments"]


def _is_number(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_list_of(fits: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, value))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_duration(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


class Kind(Enum):
    """What a value may be: in words, and by a test."""

    TEXT = "text", _is_text
    NUMBER = "a number from 0 on", _is_number
    SECONDS = "a number of seconds", _is_duration
    TRUTH = "true or false", lambda value: isinstance(value, bool)
    OBJECT = "an object", lambda value: isinstance(value, dict)
    TEXTS = "a list of texts", _is_list_of(_is_text)
    NUMBERS = "a list of numbers", _is_list_of(_is_number)

    def __init__(self, words: str, fits: Callable[[object], bool]) -> None:
        self.words = words
        self.fits = fits


_MESSAGE = {"destination": Kind.TEXT, "delivery": Kind.TEXT, "properties": Kind.OBJECT}
_LIST = {**_MESSAGE, "sizes": Kind.NUMBERS}
_IDS = {"ids?": Kind.TEXTS}

ARGUMENTS: Mapping[str, Mapping[str, Kind]] = {
    "send": _MESSAGE,
    "send_many": _LIST,
    "request": {**_MESSAGE, "timeout?": Kind.SECONDS},
    "wait": {"receipt": Kind.NUMBER, "at?": Kind.NUMBER, "stage": Kind.TEXT, "timeout?": Kind.SECONDS},
    "flush": {},
    "drain": {"timeout?": Kind.SECONDS},
    "events": {},
    "watch": {"destination": Kind.TEXT, "delivery": Kind.TEXT, "every?": Kind.OBJECT},
    "told": {"watch": Kind.NUMBER},
    "read": {"queue": Kind.TEXT, "redelivery?": Kind.OBJECT},
    "get": {"reader": Kind.NUMBER, "timeout?": Kind.SECONDS},
    "get_many": {"reader": Kind.NUMBER, "most": Kind.NUMBER, "timeout?": Kind.SECONDS},
    "close": {"reader": Kind.NUMBER},
    "begin": {},
    "tx_send": {"transaction": Kind.NUMBER, **_MESSAGE},
    "tx_send_many": {"transaction": Kind.NUMBER, **_LIST},
    "tx_receive": {"transaction": Kind.NUMBER, "queue": Kind.TEXT, "timeout?": Kind.SECONDS},
    "tx_receive_many": {
        "transaction": Kind.NUMBER,
        "queue": Kind.TEXT,
        "most": Kind.NUMBER,
        "timeout?": Kind.SECONDS,
    },
    "tx_remember": {"transaction": Kind.NUMBER, "key": Kind.TEXT, "forget": Kind.TRUTH},
    "commit": {"transaction": Kind.NUMBER},
    "rollback": {"transaction": Kind.NUMBER, "failed": Kind.TRUTH},
    "key": {},
    "trust": {
        "name": Kind.TEXT,
        "key?": Kind.TEXT,
        "addresses": Kind.TEXTS,
        "send?": Kind.TEXTS,
        "psk?": Kind.TEXT,
        "keep_alive_s?": Kind.SECONDS,
    },
    "revoke": {"name": Kind.TEXT},
    "reread": {},
    "invite": {"name?": Kind.TEXT, "send?": Kind.TEXTS},
    "enrolled": {"invitation": Kind.NUMBER, "timeout?": Kind.SECONDS},
    "withdraw": {"invitation": Kind.NUMBER},
    "enrol": {
        "code": Kind.TEXT,
        "url": Kind.TEXT,
        "name?": Kind.TEXT,
        "send?": Kind.TEXTS,
        "timeout?": Kind.SECONDS,
    },
    "stats": {},
    "queue_lengths": {},
    "recall": {"key": Kind.TEXT},
    "browse": {"queue": Kind.TEXT, "after": Kind.NUMBERS},
    "requeue": _IDS,
    "move": {"queue": Kind.TEXT, "destination": Kind.TEXT, **_IDS},
    "purge": {"queue": Kind.TEXT, **_IDS},
    "release": {"queue": Kind.TEXT},
}
"""The verbs, and what each is told; an argument with a question mark may be null."""


def check_arguments(header: Mapping[str, Any]) -> str:
    """Check a call.

    Returns:
        Its verb.

    Raises:
        ProtocolError: there is no such verb, or an argument is missing or of a wrong kind.
    """
    verb = str(header.get("do"))
    wanted = ARGUMENTS.get(verb)
    if wanted is None:
        raise ProtocolError(DropReason.BAD_FRAME, f"do is {header.get('do')!r}")
    for told, kind in wanted.items():
        name = told.removesuffix("?")
        if name not in header:
            raise ProtocolError(DropReason.BAD_FRAME, f"{verb}: {name} is missing")
        value = header[name]
        if not kind.fits(value) and (value is not None or name == told):
            # Not what it is: it may be a secret.
            raise ProtocolError(
                DropReason.BAD_FRAME, f"{verb}: {name} must be {kind.words}, not {type(value).__name__}"
            )
    return verb
