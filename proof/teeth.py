"""What finds each planted bug and each kind of lie: ``make teeth`` looks, records it, and says what changed.

The file beside this module is the measure for each removal of a test, a seed or a check.
"""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from proof.lies.run import Told
from proof.planted.catalogue import BUGS
from proof.planted.run import Found

TEETH = Path(__file__).with_suffix(".json")
Teeth: TypeAlias = dict[str, dict[str, list[str]]]
"""``planted``, ``tests`` and ``lies``: by bug, or by kind of lie, what finds it."""


def teeth_of(before: Teeth, found: Iterable[Found], tests: Mapping[str, list[str]], told: Told | None = None) -> Teeth:
    """What to record; for what was not tried, and for a bug that was not found, what was known."""
    hunted = before.get("planted", {}) | {result.bug.name: result.finders for result in found if result.whole}
    tested = before.get("tests", {}) | dict(tests)
    lies = before.get("lies", {})
    if told is not None:
        lies = {what: sorted(checks) for what, checks in sorted(told.finders.items())}
    return {
        "planted": {bug.name: hunted[bug.name] for bug in BUGS if bug.name in hunted},
        "tests": {bug.name: tested[bug.name] for bug in BUGS if bug.name in tested},
        "lies": lies,
    }


def known_seeds(teeth: Teeth) -> dict[str, int]:
    """By name of a bug: the seed that found it."""
    finders = [(name, by) for name, some in teeth.get("planted", {}).items() for by in some]
    seeds = [(name, re.match(r"seed (\d+): ", by)) for name, by in finders]
    return {name: int(seed[1]) for name, seed in seeds if seed}


def read(path: Path = TEETH) -> Teeth:
    """The recorded teeth; none if there never were any."""
    teeth: Teeth = json.loads(path.read_text()) if path.exists() else {}
    return teeth


def write(teeth: Teeth, path: Path = TEETH) -> None:
    """Record them, a bug or a kind of lie on each line."""
    parts = []
    for part, finders in teeth.items():
        if not finders:
            continue
        lines = (f"    {json.dumps(what)}: {json.dumps(by)}" for what, by in finders.items())
        parts.append(f"  {json.dumps(part)}: {{\n" + ",\n".join(lines) + "\n  }")
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n")


def changes(before: Teeth, after: Teeth) -> list[str]:
    """What finds something that it did not find before, or no longer finds; a line each."""
    lines = []
    for part in sorted({*before, *after}):
        was, now = before.get(part, {}), after.get(part, {})
        for what in sorted({*was, *now}):
            gone, new = set(was.get(what, ())) - set(now.get(what, ())), set(now.get(what, ())) - set(was.get(what, ()))
            if gone or new:
                told = [*(f"-{by}" for by in sorted(gone)), *(f"+{by}" for by in sorted(new))]
                lines.append(f"{part}: {what}: {' '.join(told)}")
    return lines
