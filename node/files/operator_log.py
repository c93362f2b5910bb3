"""The log for operators: the logger ``triack`` of the standard ``logging``, silent until the application asks for it.

Each line is a sentence that names the node, what happened and the cause; its parts are attributes of the record, for
other renderings.

Text from outside never passes unchanged: a line stays one line, without control characters and without secrets. Nor can
others fill a disk: each place in the code that logs has a limit of lines a second. The last line says that more may be
left out, and the next one after that how many were.

A line that standard error does not accept now is left out: no reader that has stopped, full disk or closed stream stops
a node. Before the next line that it accepts comes one that says how many were left out.
"""

import logging
import os
import select
import sys
import time
from contextlib import suppress
from functools import partial
from typing import TextIO

from triack.base.printable import counted, printable

NAME = "triack"
"""The root of our loggers: an application configures it to see, or not to see, the lines of Triack."""

_log = logging.getLogger(NAME)
# Without it Python prints the warnings of a logger that is not configured.
_log.addHandler(logging.NullHandler())
LINES_PER_SECOND = 10
"""For one place in the code, and so for one cause: more than a person reads."""

_CANNOT_WRITE = (OSError, ValueError)
"""Python raises ValueError for a file that is closed."""


PIPE_BUF_BYTES = getattr(select, "PIPE_BUF", 512)
"""A pipe that is ready accepts this many bytes without waiting (pipe(7))."""

_CALLER = 2
"""The caller of ``warning`` and the like is that far from ``Logger.log``: the line shows it as its place."""


def write_within(stream: TextIO, text: str, seconds: float = 0) -> bool:
    """Write to a stream of the process, such as standard error, if it accepts all in time. Returns whether it did.

    A stream that is no file of the system, or a system that cannot tell what a file accepts, is written to as ever.

    Raises:
        OSError, ValueError: it cannot be written to.
    """
    try:
        fd = stream.fileno()
    except (OSError, ValueError, AttributeError):
        fd = -1
    if fd < 0 or not hasattr(select, "poll"):
        stream.write(text)
        stream.flush()
        return True
    stream.flush()
    ready, left = select.poll(), memoryview(text.encode(errors="backslashreplace"))
    ready.register(fd, select.POLLOUT)
    while left:
        if not ready.poll(seconds * 1_000):
            return False
        left = left[os.write(fd, left[:PIPE_BUF_BYTES]) :]
    return True


class PatientHandler(logging.StreamHandler[TextIO]):
    """Writes lines to a stream whose reader may have stopped: it counts what is left out, and never waits."""

    left_out = 0
    """Lines left out since the last one that was written."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line, or leave it out."""
        try:
            if not (self._tell_left_out() and write_within(self.stream, self.format(record) + self.terminator)):
                self.left_out += 1
        except _CANNOT_WRITE:
            self.left_out += 1

    def flush(self) -> None:
        """Report how many lines were left out, if the stream accepts that by now."""
        self.acquire()
        try:
            with suppress(*_CANNOT_WRITE):
                self._tell_left_out()
        finally:
            self.release()

    def _tell_left_out(self) -> bool:
        if not self.left_out:
            return True
        # It begins with a newline: the line before may have been cut.
        said = f"{counted(self.left_out, 'line')} of this log left out, as no process read them"
        record = logging.makeLogRecord({"name": NAME, "levelno": logging.WARNING, "levelname": "WARNING", "msg": said})
        if not write_within(self.stream, self.terminator + self.format(record) + self.terminator):
            return False
        self.left_out = 0
        return True


class _Limit(logging.Filter):
    """Passes ``LINES_PER_SECOND`` for each place in the code."""

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


def _write(level: int, event: str, /, **fields: object) -> None:
    if not _log.isEnabledFor(level):
        return
    safe = {name: printable(value) if isinstance(value, str) else value for name, value in fields.items()}
    with suppress(*_CANNOT_WRITE):
        # A message without arguments, so that percent signs mean nothing.
        _log.log(level, printable(event), extra=safe, stacklevel=_CALLER)


debug, info, warning, error = (
    partial(_write, level) for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)
)
"""They log a sentence, and its parts by name: what matters only to a person who looks for a mistake, what happens in
normal operation, what an operator may want to look at, and what an operator must look at."""


def notice(event: str, **fields: object) -> None:
    """Warn of the last moment of a node, which a script without any logging would never see.

    If the application has set up no logging at all, the line goes to standard error, as Python does with the warnings
    of programs (``logging.lastResort``).
    """
    _write(logging.WARNING, event, **fields)
    if _is_unheard() and sys.stderr is not None:
        with suppress(*_CANNOT_WRITE):
            write_within(sys.stderr, f"triack: {printable(event)}\n")


def _is_unheard() -> bool:
    """Whether no handler of the application gets our warnings, though it has not switched them off."""
    at: logging.Logger | None = _log
    while at is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in at.handlers):
            return False
        at = at.parent if at.propagate else None
    return _log.isEnabledFor(logging.WARNING) and _log.propagate
