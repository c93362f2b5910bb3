"""What a stream promises over all its nodes."""

from pathlib import Path

import pytest

from tests.tools.replay.builder import healthy
from tests.tools.replay.judging import assert_found, breaking
from triack.tools.replay.run import replay

CHECKS = (
    "each",
    "broken",
    "promise",
    "is",
    "found.:lost",
    "queue",
    "gaps",
    "previous",
    "claims",
    "duplicates_delivered",
    "store_ack_before_commit",
)


@pytest.mark.parametrize("name", breaking(*CHECKS))
def test_a_planted_fault_is_found(name: str) -> None:
    """As what it is, and where it is."""
    assert_found(name)


def test_an_order_ack_from_nowhere_is_shown_beside_those_that_were_given(tmp_path: Path) -> None:
    world = healthy()
    world.alpha.one("order_ack_received", number=10).update(number=9)
    (found,) = replay(world.save(tmp_path), engine="local").findings
    assert (found.check, found.evidence) == ("ack_from_nowhere", "order ack of 9, the last given were 12, 15, 55")
