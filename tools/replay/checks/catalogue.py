"""The catalogue: every check of replay by its id, what must hold, why it matters, the source of the rule, the evidence.

It is the first table of ``docs/checks.md``, which the wheel has: a check is a line there. A rule of a machine has its
check there, too.
"""

from __future__ import annotations

from importlib import resources
from itertools import dropwhile, islice, takewhile
from typing import Final, NamedTuple


class Check(NamedTuple):
    """One promise that session logs can prove or disprove; ``why``: what a user loses when it does not hold."""

    sentence: str
    why: str
    source: str
    evidence: str


def rows_of(heading: str) -> list[list[str]]:
    """Return the cells of each row of the first table below a heading of ``docs/checks.md``."""
    page = resources.files("triack.docs").joinpath("checks.md").read_text(encoding="utf-8")
    below = dropwhile(lambda line: line[:1] != "|", page.partition(f"# {heading}\n")[2].splitlines())
    rows = takewhile(lambda line: line[:1] == "|", islice(below, 2, None))
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]


CHECKS: Final = {name.strip("`"): Check(*said) for name, *said in rows_of("Checks")}
"""All checks, in the order in which the report shows them."""

IN_TIME: Final = (
    "ack_wait", "none_rule", "slowest_rule", "topic_lost",
    "at_once", "half_window", "idle_delay", "idle_open", "order_ack_late", "resend_tiers", "silence", "store_ack_late",
    "store_silence", "unsent",
)  # fmt: skip
"""The checks of limits of time: what a process that stands still cannot keep."""
