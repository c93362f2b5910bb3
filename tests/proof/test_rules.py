"""Every rule that a machine has is watched by a check, or has a reason why none can: the two lists are compared."""

import ast
import dataclasses
import importlib
import inspect
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType

from proof.rules import RULES
from triack.base.reasons import RejectReason
from triack.tools.replay.checks.catalogue import CHECKS, MACHINES

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
    """The rules as the machines have them."""
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
