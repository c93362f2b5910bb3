"""The log for operators. A line that cannot be written must not stop a node: standard error may be closed."""

from contextlib import suppress

import structlog

__all__ = ["error", "warning"]

_log = structlog.get_logger("triack")
_CANNOT_WRITE = (OSError, ValueError)
"""ValueError is what Python raises for a file that is closed."""


def warning(event: str, **fields: object) -> None:
    """Something that an operator may want to look at."""
    with suppress(*_CANNOT_WRITE):
        _log.warning(event, **fields)


def error(event: str, **fields: object) -> None:
    """Something that an operator must look at."""
    with suppress(*_CANNOT_WRITE):
        _log.error(event, **fields)
