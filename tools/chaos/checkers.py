"""The checkers: independent judges of what the nodes of a world wrote into their session logs.

They are written from docs/session-log.md and share nothing with the engines of ``triack replay`` but the names of the
checks, so that their agreement says something (tests/tools/chaos/test_agreement.py).
"""

from collections.abc import Iterable

from triack.tools.chaos.checker import Record, parse, review
from triack.tools.chaos.extra_checkers import EXTRA_CHECKERS
from triack.tools.chaos.session_checkers import SESSION_CHECKERS
from triack.tools.chaos.stream_checkers import STREAM_CHECKERS
from triack.tools.replay.schema import Violation

__all__ = ["check", "check_more", "parse"]


def check(records: Iterable[Record]) -> list[Violation]:
    """Return what breaks a promise of ``triack replay``: the same findings, each once.

    Args:
        records: those of all nodes; the records of one node in the order in which it wrote them.
    """
    return review((*STREAM_CHECKERS, *SESSION_CHECKERS), records)


def check_more(records: Iterable[Record]) -> list[Violation]:
    """Return what breaks a rule that ``triack replay`` does not know; the arguments are those of ``check``."""
    return review(EXTRA_CHECKERS, records)
