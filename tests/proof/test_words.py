"""What the proof reads of the sources: rules, tables of docs, paths of errors."""

import ast
import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType

import pytest

import proof.docs
from proof.docs import pages
from proof.error_paths import error_paths
from proof.rules import MACHINES, RULES
from triack.base.reasons import DeadReason, DropReason, FreedReason, RejectReason
from triack.base.session_log import COMMON, EVENTS, FIELDS, Event
from triack.session.protocol.states import CloseReason
from triack.tools.replay.checks.catalogue import CHECKS

# Every rule that a machine has is watched by a check, or has a reason why none can: the two lists are compared.

ROOT = Path(__file__).parents[2]
ROOMS = ("base", "session", "ordering", "queues", "node")
TABLE = "TRANSITIONS"


def modules() -> Iterator[tuple[str, ModuleType]]:
    for room in ROOMS:
        for file in sorted((ROOT / room).rglob("[a-z]*.py")):
            path = file.relative_to(ROOT)
            name = ".".join(("triack", *path.with_suffix("").parts))
            yield path.as_posix(), importlib.import_module(name)


def events(table: dict[object, dict[Enum, object]]) -> set[str]:
    """What can happen to a machine, by its table of transitions."""
    return {event.name.lower() for row in table.values() for event in row}


def own_rules() -> dict[str, set[str]]:
    rules = {"base/reasons.py RejectReason": {reason.name.lower() for reason in RejectReason}}
    for path, module in modules():
        if (table := vars(module).get(TABLE)) and makes(path):
            rules[path] = events(table)
        for name, kind in inspect.getmembers(module, dataclasses.is_dataclass):
            if kind.__module__ == module.__name__ and is_settings(name, kind):
                rules[f"{path} {name}"] = {field.name for field in dataclasses.fields(kind) if field.init}
    return rules


def makes(path: str) -> bool:
    """Whether a module makes its table of transitions: others may have imported it."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return any(
        isinstance(it, ast.AnnAssign) and isinstance(it.target, ast.Name) and it.target.id == TABLE for it in tree.body
    )


def is_settings(name: str, kind: object) -> bool:
    """Settings of a user are public and check themselves; so is the policy that two ends agree on."""
    return name == "Policy" or (hasattr(kind, "__post_init__") and "Settings" in name) or name in PARTS


PARTS = {"AckTrigger", "Blocking", "Limits", "Reconnect", "Redelivery", "Topic"}
"""What settings are put together from."""


@pytest.mark.gate
def test_every_rule_of_a_machine_is_watched() -> None:
    """Each move, reason and setting has its check, or a sentence why there is none."""
    own = own_rules()
    assert {machine: set(rules) for machine, rules in RULES.items()} == own
    assert len(own) > 15


def test_only_checks_watch() -> None:
    watched = {check for rules in RULES.values() for it in rules.values() if isinstance(it, tuple) for check in it}
    assert watched <= set(CHECKS)
    assert all(it.endswith(".") for rules in RULES.values() for it in rules.values() if isinstance(it, str))
    by_machine = {check for checks in MACHINES.values() for check in checks}
    assert set(CHECKS) - watched - by_machine == {"clock", "clocks", "engines_disagree", "log_gap"}, (
        "a check of the log itself, or of no rule"
    )


# The parts of docs/ that are written from the code agree with it.

PAGES = pages()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_is_as_the_code_has_it(path: Path) -> None:
    assert path.read_text() == PAGES[path], f"docs/{path.name} is out of date: run `make docs`"


def test_every_reason_is_on_the_page_once_in_its_table() -> None:
    (page,) = (text for path, text in PAGES.items() if path.name == "reasons.md")
    for reason in [*DropReason, *RejectReason, *FreedReason, *DeadReason]:
        assert page.count(f"| `{reason.value}` | {reason.sentence} |") == 1, reason
    for close in CloseReason:
        assert sum(page.count(f"| `{close.value}` | {failure}| {close.sentence} |") for failure in ("", "yes ")) == 1


def test_every_event_and_field_is_in_the_schema_once() -> None:
    (page,) = (text for path, text in PAGES.items() if path.name == "session-log.md")
    said = [(name, field.sentence) for name, field in {**COMMON, **FIELDS}.items()]
    for name, sentence in [*said, *((name, event.sentence) for name, event in EVENTS.items())]:
        rows = [line for line in page.splitlines() if line.startswith(f"| `{name}` |")]
        assert sum(row.endswith(f"{sentence} |") for row in rows) == 1, name


def test_a_change_in_the_code_changes_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table is replaced as a whole, and the text around it stays."""
    (path,) = (path for path in PAGES if path.name == "session-log.md")
    monkeypatch.setattr(proof.docs, "EVENTS", {"fell_asleep": Event("nothing happens", ("stream",), ((), ("number",)))})
    page = pages()[path]
    assert "| `fell_asleep` | `stream`; perhaps `number` | nothing happens |\n" in page
    assert "| `node_started` |" not in page
    text = [line for line in PAGES[path].splitlines() if not line.startswith("|")]
    assert [line for line in page.splitlines() if not line.startswith("|")] == text


SOURCE = """try:
    f()
except (OSError,
        ValueError):
    raise StoreError("raise the roof") from None
except KeyError: pass
"except in a text: raise"
"""


def test_every_raise_and_every_except_is_one() -> None:
    """By the line on which it begins; words in texts are none."""
    assert error_paths(SOURCE) == {
        3: "except (OSError,",
        5: 'raise StoreError("raise the roof") from None',
        6: "except KeyError: pass",
    }


PLAIN = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
UNPLAIN = re.compile(
    r"\b(in hand|goes on|nobody|at once|stands for|is here|comes again|of its own|for which|of whom|whoever|so many"
    r"|is told|for ever)\b",
    re.IGNORECASE,
)


def prose(text: str) -> str:
    """A page without its code, its output and where its links lead, each run of white space as one space."""
    return " ".join(re.sub(r"^ *```.*?^ *```|`[^`]*`|\]\([^)]*\)", "", text, flags=re.DOTALL | re.MULTILINE).split())


@pytest.mark.parametrize("page", PLAIN, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_has_ordinary_words(page: Path) -> None:
    """An ordinary word, with who does it, is clear to readers whose first language is another."""
    found = UNPLAIN.findall(prose(page.read_text(encoding="utf-8")))
    assert not found, f"{page.name}: say {found} in ordinary words"


# Pages stay short: what is said stands on one page, and others link to it.

PAGE_WORDS = 1_500
"""Some seven minutes: a person reads no more of one page to its end."""
LOOKED_UP = {"CONTRIBUTING", "performance", "peer-cost", "verdict"}
"""Pages of tables, in which a reader looks for one line."""
COMPARED = {path.stem for path in PAGES} | {"log-lines", "metrics"}
"""What `make docs` writes, or a test compares with the code row by row: nothing is said twice there."""
MAKERS = {"CONTRIBUTING", "proof", "simulated-world", "proof-figures", "performance", "fuzzing"}
USERS_WORDS, MAKERS_WORDS = 34_850, 15_000
"""What all pages of each kind have today."""
ROOM = 1.02
"""A page for something new may make them a little more; then something else has to go."""


def words(page: Path) -> int:
    """Without code."""
    return len(prose(page.read_text(encoding="utf-8")).split())


def test_a_page_can_be_read_to_its_end() -> None:
    counts = {page.stem: words(page) for page in PLAIN if page.stem not in COMPARED | LOOKED_UP}
    assert {page: count for page, count in counts.items() if count > PAGE_WORDS} == {}


@pytest.mark.parametrize(("makers", "most"), [(False, USERS_WORDS), (True, MAKERS_WORDS)], ids=["users", "makers"])
def test_all_pages_together_stay_short(makers: bool, most: int) -> None:
    counts = {
        page: words(page)
        for page in PLAIN
        if page.stem not in COMPARED and makers == (page.stem in MAKERS or page.parent.name == "decisions")
    }
    assert sum(counts.values()) <= most * ROOM, "say it once, and link to it"
