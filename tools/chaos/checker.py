"""What every checker is: something that sees the records of a run go by, in order, and reports what breaks its rule."""

import json
from collections.abc import Callable, Iterable
from typing import Any

from triack.tools.replay.schema import Violation

__all__ = ["Checker", "Record", "Report", "Stream", "identity", "parse", "review", "stream_of"]

Record = dict[str, Any]
Report = Callable[[Violation], None]
Handler = Callable[[Record], None]
Stream = tuple[str, int, int]
"""Origin, lane and sequence."""


class Checker:
    """A rule over session-log records.

    Its methods ``on_EVENT`` get each record of that event, ``on_record`` gets every one; ``finish`` comes at the end.

    Args:
        report: takes what is found.
    """

    def __init__(self, report: Report) -> None:
        self.report = report

    def finish(self) -> None:
        """Judge what only the whole record shows."""


def review(kinds: Iterable[type[Checker]], records: Iterable[Record]) -> list[Violation]:
    """Let one checker of each kind see all records.

    Args:
        kinds: the rules.
        records: those of all nodes; the records of one node in the order in which it wrote them.

    Returns:
        What they found, sorted, each finding once.
    """
    found: list[Violation] = []
    checkers = [kind(found.append) for kind in kinds]
    handlers: dict[str, list[Handler]] = {}
    for record in records:
        event = record["event"]
        if event not in handlers:
            names = ("on_record", f"on_{event}")
            handlers[event] = [getattr(it, name) for it in checkers for name in names if hasattr(it, name)]
        for handle in handlers[event]:
            handle(record)
    for checker in checkers:
        checker.finish()
    return sorted({identity(finding): finding for finding in found}.values())


def parse(log: bytes) -> list[Record]:
    """Return the records of a session log; a last line without a newline is torn and no record.

    Raises:
        ValueError: a line that is no JSON.
    """
    lines = log.split(b"\n")[:-1]
    records: list[Record] = json.loads(b"[" + b",".join(lines) + b"]")
    return records


def stream_of(record: Record) -> Stream:
    """The stream that a record speaks of."""
    return record["origin"], record["lane"], record["sequence"]


def identity(finding: Violation) -> tuple[str, str, str, str, int, int, int]:
    """What makes two findings the same: all but the evidence."""
    it = finding
    return it.check, it.node, it.session, it.origin, it.lane, it.sequence, it.number
