"""The verdict over the records of a simulated world, for ``triack chaos`` and for ``triack.testing``."""

from collections.abc import Mapping

from triack.tools.replay.engines.local_engine import judge_records
from triack.tools.replay.log.files import parse_records
from triack.tools.replay.log.schema import Violation


def judge_logs(logs: Mapping[str, bytes]) -> list[Violation]:
    """Return the violations in session logs, by the checks of ``triack replay``.

    A late record of a process that stood still and recorded that is none.
    """
    return judge_records([record for log in logs.values() for record in parse_records(log)])
