"""Who may send what to the queues of subscriptions."""

import pytest

from tests.queues.hubs import HubWorld
from triack.base.names import StreamId


def test_nobody_may_send_to_a_queue_of_a_subscription_but_the_node_with_its_topics() -> None:
    it = HubWorld("sub", "other")
    away = it.away("sub")
    away.begin()
    it.run()
    desk, names = it.nodes["sub"].live.remote, it.nodes
    admits = it.nodes["sub"].live.queues.admits
    hub_id, other_id = it.hub.live.node_id, names["other"].live.node_id
    assert admits("$sub.audit", StreamId(hub_id, 1), False)
    assert not admits("$sub.audit", StreamId(other_id, 1), False)
    assert not admits("$sub.unknown", StreamId(hub_id, 1), False)
    assert admits("orders", StreamId(other_id, 1), False)
    assert desk.own.of_queue("$sub.audit") is away.found


@pytest.mark.slow
@pytest.mark.gate
def test_requests_and_their_answers_are_taken_as_they_come() -> None:
    it = HubWorld("sub")
    for number in range(300):
        it.away("sub", durable=f"audit{number}").begin()
    it.run(5)
    assert len(it.hub.live.topics.subscriptions) == 300
    for node in (it.hub, it.nodes["sub"]):
        assert node.length("$subscriptions") == 0
