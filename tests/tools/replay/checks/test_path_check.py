"""Whether a path was known to carry the datagrams of a session."""

from typing import Any

from triack.tools.replay.checks.path_check import PathSizes


def test_the_largest_counts_wherever_it_stands() -> None:
    """Of what was used, and of what has come."""
    sizes = PathSizes()
    for event, size in (("path_size", 1_452), ("path_size", 9_000), ("path_size", 1_200), ("probe_received", 1_452)):
        record: dict[str, Any] = {"event": event, "size": size}
        sizes.see(record)
    sizes.see({"event": "probe_received", "size": 1_200})
    assert sizes.largest is not None
    assert (sizes.largest["size"], sizes.probed_bytes) == (9_000, 1_452)
