"""Checks by their names."""

from typing import TYPE_CHECKING

import pytest

from triack.tools.replay.checks.catalogue import CHECKS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_each_check_of_the_catalogue_is_a_function() -> None:
    pytest.importorskip("pyspark")
    from triack.replay import checks

    assert dir(checks) == sorted(CHECKS)
    assert CHECKS["order"].sentence in (checks.order.__doc__ or "")
    with pytest.raises(AttributeError, match="no check 'older'"):
        checks.older  # noqa: B018


def test_a_check_finds_what_breaks_it_and_nothing_else(records: "DataFrame") -> None:
    from triack.replay import checks

    (found,) = checks.order_ack_before_commit(records).collect()
    assert found.evidence == "order ack up to 4, committed up to 0"
    assert (found.check, found.number, "/[a]/beta/beta-000001-00000" in found.file) == (
        "order_ack_before_commit", 4, True,
    )  # fmt: skip
