"""Messages that pass relays arrive once, and in order, as if there were none."""

from types import SimpleNamespace

import pytest

from tests.queues.relays import line, post
from tests.queues.world import SimNode, numbered
from triack.base.delivery import Delivery
from triack.base.units import SECOND


@pytest.mark.parametrize("delivery", list(Delivery))
@pytest.mark.parametrize("names", ["arb", "arstb"])
def test_messages_arrive_once_and_in_order(names: str, delivery: Delivery) -> None:
    """Whatever the class, through one relay and through three; nothing is left anywhere."""
    chain = line(names)
    a, b = chain["a"], chain["b"]
    post(a, "b", *numbered(0, 50), delivery=delivery)
    assert chain.world.run(20 * SECOND, lambda: b.length("q") == 50 and not (a.busy or chain.waiting()))
    assert b.read_all("q") == numbered(0, 50)
    assert b.live.name_of(a.live.node_id) == f"a@{names[-2]}"
    assert {it.hops for it in _arrived(b)} == {len(names) - 2}


def _arrived(node: SimNode) -> list[SimpleNamespace]:
    return [SimpleNamespace(**record) for record in node.log("packet_received") if "hops" in record]
