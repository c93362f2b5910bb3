"""How large the datagrams of a session were, and whether its path was known to carry them.

An end may only use a size that a probe has proved: the other end says that a datagram of that size arrived. The base is
proved as well before anything else is tried, so every size that a record names is.
"""

from __future__ import annotations

from dataclasses import dataclass

from triack.tools.replay.checks.findings import Due, Output, Record


@dataclass
class PathSizes:
    """One end's records of the path.

    Attributes:
        largest: the record of the largest datagrams that it used, or None.
        probed_bytes: the longest probe that came to it.
    """

    largest: Record | None = None
    probed_bytes: int = 0

    def see(self, record: Record) -> None:
        """A size is in force from now on, or a probe has come."""
        size_bytes = record["size"]
        if record["event"] == "probe_received":
            self.probed_bytes = max(self.probed_bytes, size_bytes)
        elif self.largest is None or size_bytes > self.largest["size"]:
            self.largest = record


def judge_sizes(session: str, own: PathSizes, other: PathSizes, peer: str, out: Output, *dues: Due) -> None:
    """Judge one end of a session by what has come to the other."""
    largest = own.largest
    if largest is not None and largest["size"] > other.probed_bytes:
        evidence = f"datagrams of {largest['size']} bytes, and no probe longer than {other.probed_bytes} came to {peer}"
        out.report(largest, "path_size", evidence, *dues, session=session)
