"""The verdict over the records of a simulated world, for ``triack chaos`` and for ``triack.testing``."""

from collections.abc import Collection, Mapping

from triack.tools.replay.files import parse_records
from triack.tools.replay.local_engine import judge_records
from triack.tools.replay.schema import Violation

__all__ = ["IN_TIME", "judge_logs"]

IN_TIME = (
    "at_once", "half_window", "idle_delay", "idle_open", "order_ack_late", "resend_tiers", "silence", "store_ack_late",
    "store_silence",
)  # fmt: skip
"""What a process that stands still, or wakes late, cannot keep; all else it can."""


def judge_logs(logs: Mapping[str, bytes], late: Collection[str] = ()) -> list[Violation]:
    """Judge session logs by the checks of ``triack replay``.

    Args:
        logs: the records of each start of each node, by name, those of one node in the order of its starts.
        late: the names of those whose process stood still or woke late; their nodes need not be in time.

    Returns:
        What they violate, but for being late where that is excused.
    """
    records = {name: parse_records(log) for name, log in logs.items()}
    excused = {record["node"] for name in late for record in records[name][:1]}
    everything = [record for some in records.values() for record in some]
    found = judge_records(everything)
    return [it for it in found if it.check not in IN_TIME or it.node not in excused]
