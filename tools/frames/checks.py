"""Every check of the catalogue as a function from records to what breaks it: ``checks.order(records)``.

docs/checks.md lists them. All are judged together, so each call costs as much as ``violations`` for all of them.
"""

from collections.abc import Callable

from pyspark.sql import DataFrame

from triack.replay.tables import violations
from triack.tools.replay.checks.catalogue import CHECKS


def __getattr__(name: str) -> Callable[[DataFrame], DataFrame]:
    check = CHECKS.get(name)
    if check is None:
        raise AttributeError(f"no check {name!r}; docs/checks.md lists them")

    def run(records: DataFrame) -> DataFrame:
        found = violations(records)
        return found.where(found["check"] == name)

    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"Return the violations among records of: {check.sentence}\n\n{check.why}"
    return run


def __dir__() -> list[str]:
    return sorted(CHECKS)
