"""The logs of two simulated nodes, for lies about them."""

from typing import Any

from tests.queues.world import SimNode
from triack.base.errors import NodeClosed
from triack.tools.replay.engines.local_engine import verdict_on
from triack.tools.replay.log.files import parse_records

Log = list[dict[str, Any]]


def logs_of(a: SimNode, b: SimNode) -> tuple[Log, Log]:
    """The whole logs of two nodes, which end here in good order."""
    for node in (a, b):
        node.finish(node.live, NodeClosed("the test is over"), node.world.now_ns)
        node.end()
    return list(parse_records(b"".join(a.records))), list(parse_records(b"".join(b.records)))


def renumbered(log: Log) -> Log:
    """The log after a lie: its serials count on."""
    count, start, said = 0, 0, []
    for record in log:
        count = 1 if record["incarnation"] != start else count + 1
        start = record["incarnation"]
        said.append({**record, "n": count})
    return said


def checks(a: Log, b: Log) -> set[str]:
    """The checks that find something in two logs."""
    return {found.check for found in verdict_on([*a, *b]).findings}
