"""Every check of the catalogue as a function from records to what breaks it: ``checks.order(records)``.

docs/checks.md lists them. All are judged together, so each call costs as much as ``violations`` for all of them.
The result stays in Spark's cache until ``unpersist()``.
"""

from collections.abc import Callable

from pyspark.sql import DataFrame

from triack.replay.records import violations
from triack.tools.replay.checks.catalogue import CHECKS


def __getattr__(name: str) -> Callable[[DataFrame], DataFrame]:
    check = CHECKS.get(name)
    if check is None:
        raise AttributeError(f"no check {name!r}; docs/checks.md lists them")

    def run(records: DataFrame) -> DataFrame:
        found = violations(records)
        mine = found.where(found["check"] == name).persist()
        # Counted now, so that only what is returned stays in Spark's cache, and its caller can release it.
        mine.count()
        found.unpersist()
        return mine

    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"Return the violations among records of: {check.sentence}\n\n{check.why}"
    return run


def __dir__() -> list[str]:
    return sorted(CHECKS)
