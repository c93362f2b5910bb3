"""Many lies in one directory; tests/tools/replay/engines/test_spark_engine.py has both engines judge them."""

from pathlib import Path

import pytest

from proof.lies.engines import save_lies, unlike
from proof.lies.mutate import lies_about
from tests.tools.replay.harmless import HARMLESS
from triack.tools.replay.engines.local_engine import replay_local
from triack.tools.replay.log.files import find_logs


@pytest.mark.slow
@pytest.mark.gate
def test_each_lie_has_a_log_of_its_own(tmp_path: Path) -> None:
    """So that what is found in one says nothing of another, and what cannot be read stops no replay."""
    world = HARMLESS["healthy"]()
    world.number()
    start = (world.beta.node, world.beta.incarnation)
    log = {start: [record for record in world.beta.records if record["incarnation"] == world.beta.incarnation]}
    lies = [lie for lie in lies_about(log, start, 4) if lie.kind in ("drop", "raise", "repeat")]
    saved = save_lies(lies, tmp_path)
    files = [path.name for path in tmp_path.iterdir()]
    assert len(files) == saved == len({name[:4] for name in files}) > 2
    verdict = replay_local(find_logs([tmp_path]))
    assert {it.node[:4] for it in verdict.findings} <= {name[:4] for name in files}
    other = replay_local(find_logs([tmp_path]))
    assert unlike(verdict, other) == []
    other.sent += 1
    other.findings[0].evidence = "another"
    assert [it.partition(":")[0] for it in unlike(verdict, other)] == ["sent", "only on Spark"]
