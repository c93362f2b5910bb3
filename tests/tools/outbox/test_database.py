"""Statements on any connection."""

import sqlite3
import sys
from types import ModuleType
from typing import Any

import pytest

import triack
from triack.outbox import create_tables
from triack.outbox.database import as_table, placed


@pytest.mark.parametrize(
    ("style", "statement", "values"),
    [
        ("named", "SELECT :a, :bc, :a", {"a": 1, "bc": 2}),
        ("pyformat", "SELECT %(a)s, %(bc)s, %(a)s", {"a": 1, "bc": 2}),
        ("qmark", "SELECT ?, ?, ?", (1, 2, 1)),
        ("format", "SELECT %s, %s, %s", (1, 2, 1)),
        ("numeric", "SELECT :1, :2, :3", (1, 2, 1)),
    ],
)
def test_parameters_have_the_form_that_the_driver_names(
    monkeypatch: pytest.MonkeyPatch, style: str, statement: str, values: Any
) -> None:
    """PEP 249, paramstyle; the class may lie anywhere in the driver's package."""
    driver = ModuleType("driver")
    driver.__dict__["paramstyle"] = style
    monkeypatch.setitem(sys.modules, "driver", driver)
    made = type("Connection", (), {"__module__": "driver.deep.inside"})()
    assert placed(made, "SELECT :a, :bc, :a", {"a": 1, "bc": 2}) == (statement, values)


def test_a_class_derived_from_a_drivers_is_the_drivers() -> None:
    class Mine(sqlite3.Connection):
        pass

    db = sqlite3.connect(":memory:", factory=Mine)
    create_tables(db)
    create_tables(db)
    assert db.execute("SELECT count(*) FROM triack_outbox").fetchone() == (0,)
    db.close()


def test_other_databases_are_refused() -> None:
    with pytest.raises(triack.UsageError, match="it takes SQLite and PostgreSQL"):
        create_tables(object())


@pytest.mark.parametrize("name", ["", "a b", "a;b", "1a", "a.b.c", None])
def test_a_name_of_a_table_is_checked(name: object) -> None:
    with pytest.raises(triack.UsageError, match="a table is named by"):
        as_table(name)
