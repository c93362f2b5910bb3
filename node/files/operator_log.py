"""The log for operators: the logger ``triack`` of the standard ``logging``, silent until the application asks for it.

Each line is a sentence that names the node, what happened and the cause; its parts are attributes of the record, for
other renderings. A line that cannot be written must not stop a node: standard error may be closed.

Text from outside never gets through unchanged: a line stays one line, without control characters and without secrets.
Nor can others fill a disk: each place in the code that logs has a limit of lines a second. The last line says that more
may be left out, and the next one after that how many were.
"""

import logging
import sys
import time
from contextlib import suppress

from triack.base.printable import printable

__all__ = ["NAME", "debug", "error", "info", "notice", "warning"]

NAME = "triack"
"""The root of our loggers: an application configures it to see, or not to see, the lines of Triack."""

_log = logging.getLogger(NAME)
# Without it Python prints warnings of a logger that nobody configured.
_log.addHandler(logging.NullHandler())
LINES_PER_SECOND = 10
"""For one place in the code, and so for one cause: more than a person reads."""

_CANNOT_WRITE = (OSError, ValueError)
"""Python raises ValueError for a file that is closed."""


_CALLER = 3
"""The caller of ``warning`` and the like is that far from ``Logger.log``: the line shows it as its place."""


class _Limit(logging.Filter):
    """Lets ``LINES_PER_SECOND`` through, for each place in the code."""

    def __init__(self) -> None:
        super().__init__()
        self._windows: dict[tuple[str, int], list[float]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to write the line; if so, it says how many lines before it were left out."""
        now_s = time.monotonic()
        window = self._windows.setdefault((record.pathname, record.lineno), [now_s, 0])
        if now_s >= window[0] + 1:
            left_out = int(window[1]) - LINES_PER_SECOND
            if left_out > 0:
                record.msg = f"{record.msg} (and {left_out} more lines like this one)"
            window[:] = [now_s, 0]
        window[1] += 1
        if window[1] == LINES_PER_SECOND:
            record.msg = f"{record.msg} (for a second no more lines like this one)"
        return window[1] <= LINES_PER_SECOND


_log.addFilter(_Limit())


def debug(event: str, **fields: object) -> None:
    """Something that matters only to a person who looks for a mistake."""
    _write(logging.DEBUG, event, fields)


def info(event: str, **fields: object) -> None:
    """Something that happens in normal operation."""
    _write(logging.INFO, event, fields)


def warning(event: str, **fields: object) -> None:
    """Something that an operator may want to look at."""
    _write(logging.WARNING, event, fields)


def notice(event: str, **fields: object) -> None:
    """A warning about the last moment of a node, which a script without any logging would never see.

    Where the application has set up no logging at all, the line goes to standard error, as Python does it with warnings
    of programs (``logging.lastResort``).
    """
    _write(logging.WARNING, event, fields)
    if _is_unheard() and sys.stderr is not None:
        with suppress(*_CANNOT_WRITE):
            sys.stderr.write(f"triack: {printable(event)}\n")


def _is_unheard() -> bool:
    """Whether no handler of the application gets our warnings, though it has not switched them off."""
    at: logging.Logger | None = _log
    while at is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in at.handlers):
            return False
        at = at.parent if at.propagate else None
    return _log.isEnabledFor(logging.WARNING) and _log.propagate


def error(event: str, **fields: object) -> None:
    """Something that an operator must look at."""
    _write(logging.ERROR, event, fields)


def _write(level: int, event: str, fields: dict[str, object]) -> None:
    if not _log.isEnabledFor(level):
        return
    safe = {name: printable(value) if isinstance(value, str) else value for name, value in fields.items()}
    with suppress(*_CANNOT_WRITE):
        # As a message without arguments, so that no percent sign in it means anything.
        _log.log(level, printable(event), extra=safe, stacklevel=_CALLER)
