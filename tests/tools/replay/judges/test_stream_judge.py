"""What a stream promises over all its nodes."""

from pathlib import Path

from tests.tools.replay.builder import healthy
from triack.tools.replay.run import replay


def test_an_order_ack_from_nowhere_is_shown_beside_those_that_were_given(tmp_path: Path) -> None:
    world = healthy()
    world.alpha.one("order_ack_received", number=10).update(number=9)
    (found,) = replay(world.save(tmp_path), engine="local").findings
    assert (found.check, found.evidence) == ("ack_from_nowhere", "order ack of 9, the last given were 12, 15, 55")
