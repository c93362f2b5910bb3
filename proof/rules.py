"""The rules of the machines and the checks of each by their ids, or a sentence that says why no log can show it.

They are tables of ``docs/checks.md``. A machine has its rules as lists: the events of its table of transitions, the
fields of its settings, its reasons. A test compares these lists with the tables, so that each new rule gets its check.
"""

from __future__ import annotations

import re
from typing import Final

from triack.tools.replay.checks.catalogue import rows_of

Watch = tuple[str, ...] | str
"""Ids of checks, or why there is none."""

_CODE: Final = re.compile(r"`([^`]*)`")


def _watch(cell: str) -> Watch:
    return tuple(_CODE.findall(cell)) if not _CODE.sub("", cell).strip(", ") else cell


MACHINES: Final = {name.strip("`"): tuple(_CODE.findall(checks)) for name, checks in rows_of("Machines")}
"""The machines that make a promise, and the checks that watch them."""

RULES: Final[dict[str, dict[str, Watch]]] = {name.strip("`"): {} for name, *_ in rows_of("Rules")}
"""By machine (its file, and the class of its settings), each rule."""
for _name, _rules, _cell in rows_of("Rules"):
    RULES[_name.strip("`")] |= dict.fromkeys(_CODE.findall(_rules), _watch(_cell))
