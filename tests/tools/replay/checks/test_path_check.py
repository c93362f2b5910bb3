"""Whether a path was known to carry the datagrams of a session."""

from typing import Any

import pytest

from tests.tools.replay.judging import assert_found, breaking
from triack.tools.replay.checks.path_check import PathSizes


@pytest.mark.parametrize("name", breaking("path_size"))
def test_a_planted_fault_is_found(name: str) -> None:
    """As what it is, and where it is."""
    assert_found(name)


def test_the_largest_counts_wherever_it_stands() -> None:
    """Of what was used, and of what has come."""
    sizes = PathSizes()
    for event, size in (("path_size", 1_452), ("path_size", 9_000), ("path_size", 1_200), ("probe_received", 1_452)):
        record: dict[str, Any] = {"event": event, "size": size}
        sizes.see(record)
    sizes.see({"event": "probe_received", "size": 1_200})
    assert sizes.largest is not None
    assert (sizes.largest["size"], sizes.probed_bytes) == (9_000, 1_452)
