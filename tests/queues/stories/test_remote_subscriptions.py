"""Subscriptions of one node to topics of another, in virtual time."""

from collections.abc import Iterator

import pytest

from tests.queues.hubs import MADE, Away, HubWorld
from tests.queues.world import judged
from tests.sure import sure
from triack.base.errors import SubscriptionRefused
from triack.base.reasons import DropReason
from triack.queues.node_settings import NodeSettings, Topic
from triack.queues.remote.remote_subscriptions import RemoteState


def test_a_durable_subscription_gets_what_is_published_after_it_began_with_its_topic_and_publisher() -> None:
    it = HubWorld("sub", "pub")
    it.publish(b"before")
    away = it.begun()
    assert away.state is RemoteState.LIVE
    it.publish(b"1", b"2")
    it.publish(b"3", below="Chess", at="pub")
    it.settle(away)
    assert away.got == [("Games.Cricket", b"1"), ("Games.Cricket", b"2"), ("Games.Chess", b"3")]
    assert away.publishers == {"hub", it.nodes["pub"].live.node_id.hex()}, "it has not met that node"
    assert it.hub.live.queues.mailboxes["topic:Games"].length == 0


@pytest.fixture(autouse=True)
def no_broken_promise() -> Iterator[None]:
    """The logs of each story show no broken promise."""
    MADE.clear()
    yield
    for it in MADE:
        assert not judged(*it.world.made)


def numbered(first: int, last: int) -> list[bytes]:
    return [str(number).encode() for number in range(first, last + 1)]


def is_gone(it: HubWorld) -> bool:
    """Whether neither half of any subscription is left, nor anything for one."""
    kept = [name for name in it.nodes["sub"].live.queues.mailboxes if name.startswith("$sub.")]
    return not it.hub.live.topics.subscriptions and not it.hub.length("topic:Games") and not kept


def refusal(away: Away) -> str:
    """Why the hub has refused it."""
    assert away.found is not None
    assert isinstance(away.found.error, SubscriptionRefused)
    return away.found.error.reason


@pytest.mark.gate
@pytest.mark.parametrize("away_first", [False, True])
def test_durable_and_away_it_gets_all_in_order_once_also_when_both_nodes_die(away_first: bool) -> None:
    it = HubWorld("sub", settings=NodeSettings(topics={"Games": Topic()}))
    away = it.begun()
    it.publish(*numbered(1, 50))
    it.settle(away)
    if away_first:
        away.node.crash()
    it.publish(*numbered(51, 3_000))
    it.run(0.2)
    it.hub.crash()
    if not away_first:
        away.node.crash()
    it.hub.start()
    it.run()
    it.publish(*numbered(3_001, 3_100))
    away.node.start()
    away.begin()
    it.settle(away)
    assert away.read() == numbered(1, 3_100)
    assert it.hub.live.queues.mailboxes["topic:Games"].length == 0


def test_what_is_not_durable_ends_with_its_process_and_gets_nothing_of_what_came_meanwhile() -> None:
    it = HubWorld("sub")
    away = it.begun(durable=None)
    it.publish(b"1")
    it.settle(away)
    away.node.crash()
    it.publish(b"2")
    it.run(100)
    assert it.hub.live.topics.subscriptions == {}, "its lease was over"
    away.node.start()
    it.publish(b"3")
    other = it.begun(durable=None)
    it.publish(b"4")
    it.settle(other)
    assert (away.got, other.read()) == ([("Games.Cricket", b"1")], [b"4"])
    (ended,) = it.hub.log("unsubscribed")
    assert ended["reason"] == "not-renewed"


def test_what_is_not_durable_begins_anew_when_the_hub_has_started_again() -> None:
    it = HubWorld("sub")
    away = it.begun(durable=None)
    it.hub.restart()
    it.run(40)
    it.publish(b"1")
    it.settle(away)
    assert away.read() == [b"1"]


def test_unsubscribing_ends_both_halves_and_what_was_on_its_way_is_no_dead_letter() -> None:
    it = HubWorld("sub")
    away = it.begun()
    it.publish(*numbered(1, 3_000))
    away.unsubscribe()
    it.run()
    away.leave()
    it.run()
    assert (away.state, is_gone(it)) == (RemoteState.OVER, True)
    assert [node.length("dead-letter") for node in (it.hub, away.node)] == [0, 0]
    away.begin()
    it.run()
    it.publish(b"new")
    it.settle(away)
    assert away.read() == [b"new"]


@pytest.mark.parametrize("steps", range(0, 40, 3))
@pytest.mark.parametrize("ends", [True, False])
def test_a_half_of_an_end_or_a_beginning_that_is_lost_is_made_again(steps: int, *, ends: bool) -> None:
    it = HubWorld("sub", seed=steps)
    away = it.begun() if ends else it.away("sub")
    if ends:
        away.unsubscribe()
    else:
        away.begin()
    for _ in range(steps):
        it.world.step()
    for node in (it.hub, away.node):
        node.restart()
    if ends:
        it.run(5)
        assert ("audit" in away.node.live.remote.own.subscriptions, it.at_hub("sub/audit")) == (False, None)
        return
    away.begin()
    it.run(5)
    it.publish(b"1")
    it.settle(away)
    assert away.read() == [b"1"]


def test_an_end_at_the_hub_reaches_the_reader() -> None:
    it = HubWorld("sub")
    away = it.begun()
    engine = it.hub.live
    subscription = sure(it.at_hub("sub/audit"))
    it.hub.act(lambda: engine.remote.end(subscription, engine.topics, engine.jobs.turn(it.world.now_ns)))
    it.run()
    assert away.state is RemoteState.OVER
    assert sure(sure(away.found).mailbox).has_ended


@pytest.mark.parametrize(
    ("permitted", "wanted", "reason"),
    [
        ((), "Games.#", "access-denied"),
        (("Plays.#",), "Games.#", "access-denied"),
        (("Games.*",), "Games.#", "access-denied"),
        (("Games.#",), "Games.Cricket", ""),
        (("Games.*",), "Games.*", ""),
        (("#",), "Games.#", ""),
    ],
)
def test_a_node_gets_what_it_may_have_and_is_told_why_it_gets_no_more(
    permitted: tuple[str, ...], wanted: str, reason: str
) -> None:
    it = HubWorld("sub")
    it.allow("sub", *permitted)
    away = it.begun("sub", wanted)
    if not reason:
        assert away.state is RemoteState.LIVE
        return
    assert refusal(away) == reason
    assert it.hub.live.drops[DropReason.SUBSCRIPTION_REFUSED] == 1
    assert it.nodes["sub"].length("dead-letter") == 0


def test_a_peer_gets_no_more_subscriptions_than_it_may_have() -> None:
    it = HubWorld("sub", settings=NodeSettings(max_peer_subscriptions=2))
    for name in ("one", "two"):
        it.begun(durable=name)
    third = it.away("sub", durable="three")
    third.begin()
    it.run()
    assert refusal(third) == "too-many-subscriptions"
    it.begun(durable="one")


def test_a_name_is_of_its_node_alone() -> None:
    """Two nodes may use one name, and neither can end the other's."""
    it = HubWorld("one", "two")
    one, two = it.begun("one"), it.begun("two", pattern="Games.Chess")
    two.unsubscribe()
    it.run()
    it.publish(b"1")
    it.settle(one)
    assert one.read() == [b"1"]


def test_nobody_else_can_send_into_the_queue_of_a_subscription() -> None:
    it = HubWorld("sub", "evil")
    away = it.begun()
    it.nodes["evil"].send(it.nodes["sub"], "$sub.audit", b"forged")
    it.run()
    it.settle(away)
    assert away.read() == []
    assert it.nodes["evil"].length("dead-letter") == 1


@pytest.mark.gate
def test_one_that_asks_and_leaves_again_and_again_leaves_nothing() -> None:
    it = HubWorld("sub")
    for _ in range(100):
        away = it.away("sub", durable=None)
        away.begin()
        it.publish(b"1")
        away.leave()
    it.run(120)
    assert is_gone(it)


@pytest.mark.gate
@pytest.mark.parametrize("packed", [1, 50])
def test_strategies_count_what_the_node_of_the_subscriber_has_not_taken(packed: int) -> None:
    """The slowest one: what fits its queue and its window goes, and then no more to anybody."""
    topic = Topic(strategy="slowest_sub_rate", max_unacked=3)
    it = HubWorld("slow", "fast", settings=NodeSettings(topics={"Games": topic}, messages_per_packet=packed))
    slow, fast = it.away("slow", durable=None), it.away("fast", durable=None)
    for away in (slow, fast):
        away.begin(max_unacked=3)
    it.run()
    it.publish(*numbered(1, 10))
    for _ in range(100):
        it.run(0.05)
        fast.read()
    assert len(fast.read()) < 10
    it.settle(slow, fast)
    assert slow.read() == fast.read() == numbered(1, 10)
