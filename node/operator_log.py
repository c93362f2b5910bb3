"""The log for operators: the logger ``triack`` of the standard ``logging``, silent until the application asks for it.

Each line is a sentence that names the node, what happened and the cause; its parts are attributes of the record, for
whoever renders it otherwise. A line that cannot be written must not stop a node: standard error may be closed.
"""

import logging
from contextlib import suppress

__all__ = ["NAME", "debug", "error", "info", "warning"]

NAME = "triack"
"""The root of our loggers: what an application configures to see, or not to see, what Triack says."""

_log = logging.getLogger(NAME)
# Without it Python prints warnings of a logger that nobody configured.
_log.addHandler(logging.NullHandler())
_CANNOT_WRITE = (OSError, ValueError)
"""ValueError is what Python raises for a file that is closed."""


def debug(event: str, **fields: object) -> None:
    """Something that only who looks for a mistake wants to see."""
    _write(logging.DEBUG, event, fields)


def info(event: str, **fields: object) -> None:
    """Something that happens in good order."""
    _write(logging.INFO, event, fields)


def warning(event: str, **fields: object) -> None:
    """Something that an operator may want to look at."""
    _write(logging.WARNING, event, fields)


def error(event: str, **fields: object) -> None:
    """Something that an operator must look at."""
    _write(logging.ERROR, event, fields)


def _write(level: int, event: str, fields: dict[str, object]) -> None:
    with suppress(*_CANNOT_WRITE):
        _log.log(level, event, extra=fields)
