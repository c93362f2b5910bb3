"""The queues of a node: how they are made, and what each commit, timer and reader changes in them."""

import pytest

from tests.queues.world import PlainWorld, World
from tests.spies import watch
from triack.base.commit import Commit
from triack.base.units import SECOND
from triack.queues.mailboxes.mailbox import Mailbox
from triack.queues.mailboxes.system_queues import DEAD_LETTER_QUEUE
from triack.queues.node_settings import Limits, NodeSettings, Quota, Redelivery


@pytest.mark.plain
def test_queues_at_rest_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the next commit, for bodies and for records: only the one that was read."""
    world = World(1)
    node = world.node("a")
    for number in range(50):
        node.send(node, f"q{number}", b"x")
    world.run(SECOND)
    looked = watch(monkeypatch, Mailbox, "take_changes", "take_runs", "poll_fetch")
    node.drain()
    assert looked == []
    node.read("q7")
    world.run(SECOND)
    assert [box.name for box in looked] == ["q7", "q7"]


def test_a_queue_is_made_once() -> None:
    """In the commit of the first caller; its number is never used again."""
    queues, commit = PlainWorld(1).node("a").live.queues, Commit()
    one = queues.make_queue("one", commit)
    assert queues.make_queue("one", commit) is one
    two = queues.make_queue("two", commit)
    assert commit.queues == [(one.queue_id, "one"), (two.queue_id, "two")]
    assert len({box.queue_id for box in queues.mailboxes.values()}) == len(queues.mailboxes) == 3


def test_a_queue_that_nobody_uses_makes_room_and_comes_back_under_a_new_number() -> None:
    """Its rows under the old one may still have to go."""
    world = PlainWorld(1)
    node = world.node("a", NodeSettings(max_queues=3))
    node.send(node, "one", b"x")
    world.run(SECOND)
    first = node.live.queues.mailboxes["one"].queue_id
    assert node.read_all("one") == [b"x"]
    for name in ("two", "three", "one"):
        node.send(node, name, b"y")
        world.run(SECOND)
    assert node.live.queues.mailboxes["one"].queue_id > first
    node.restart()
    assert {name: node.length(name) for name in ("one", "two", "three")} == {"one": 1, "two": 1, "three": 1}


def test_the_node_s_own_queue_is_there_from_the_start_and_makes_no_room() -> None:
    node = PlainWorld(1).node("a", NodeSettings(max_queues=1))
    queues = node.live.queues
    queues.make_queue("orders", Commit())
    assert set(queues.mailboxes) == {DEAD_LETTER_QUEUE, "orders"}


def test_another_quota_holds_at_once_for_queues_that_exist() -> None:
    """A sender that waits for room goes on when there is more; nothing is lost when there is less."""
    world = PlainWorld(1)
    a = world.node("a", NodeSettings(messages_per_packet=1))
    b = world.node("b", NodeSettings(limits=Limits(quota=Quota(messages=2))))
    for number in range(5):
        a.send(b, "q", b"%d" % number)
    world.run(60 * SECOND)
    assert b.live.queues.mailboxes["q"].length < 5
    b.live.handle_settings(NodeSettings(limits=Limits(queue_quota={"q": Quota(messages=50)})))
    world.run(60 * SECOND)
    assert b.live.queues.mailboxes["q"].length == 5
    b.live.handle_settings(NodeSettings(limits=Limits(quota=Quota(messages=1))))
    assert b.live.queues.mailboxes["q"].fill.is_full
    assert b.read_all("q") == [b"%d" % number for number in range(5)]


def test_another_wait_of_failed_messages_holds_for_the_next_failure() -> None:
    world = PlainWorld(1)
    node = world.node("a")
    node.live.handle_settings(NodeSettings(redelivery=Redelivery(first_wait_s=7)))
    assert node.live.queues._settings.redelivery_of("q").first_wait_s == 7  # noqa: SLF001 - what a failure asks
