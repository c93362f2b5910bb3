"""A key is in the commit of its message, counts for one queue and for a time, and knows how its message ended."""

import json

import pytest

from tests.queues.bare import Bare
from tests.queues.world import World
from triack.base.commit import Commit
from triack.base.delivery import Delivery
from triack.base.errors import StoreDamaged
from triack.base.units import SECOND
from triack.queues.node_settings import KeySettings, NodeSettings
from triack.queues.packing import Outgoing
from triack.queues.streams.accepted_keys import Accepted, AcceptedKeys
from triack.queues.streams.group_commit import GroupCommit

PEER = "memory://b"


def send(node: Bare, key: str, queue: str = "q", delivery: Delivery = Delivery.TRANSACTIONAL) -> Accepted:
    outgoing = node.engine.outgoing_stream(PEER, queue, delivery)
    return node.engine.submit_once(outgoing, Outgoing(b"body", None, 0, key), 4, node.now_ns)


def commit(node: Bare) -> GroupCommit:
    """The next commit, done."""
    node.poll()
    assert isinstance(node.job, GroupCommit)
    job = node.job
    node.finish_job()
    return job


def test_key_and_message_are_in_one_commit() -> None:
    node = Bare()
    first = send(node, "k")
    group = commit(node)
    assert len(group.commit.outgoing) == 1
    assert json.loads(group.commit.state["$key:1.1:k"] or b"") == [1_000, first.ordinal, 1, 0, "", PEER, "q"]


def test_sent_again_it_is_the_message_that_was_accepted() -> None:
    """Before its commit, after it, and in another class; not for another queue or with another key."""
    node = Bare()
    first = send(node, "k")
    assert send(node, "k") is first
    commit(node)
    assert send(node, "k") is first
    assert send(node, "k", delivery=Delivery.RECOVERABLE) is first
    assert commit(node).commit.outgoing == []
    assert len({first.ordinal, send(node, "k", "other").ordinal, send(node, "l").ordinal}) == 3


def test_a_key_is_over_after_its_time() -> None:
    """It leaves the disk with the next key that comes, and those that came later stay."""
    node = Bare(settings=NodeSettings(keys=KeySettings(lifetime_s=60)))
    first = send(node, "k")
    commit(node)
    node.now_ns += 59 * SECOND
    assert send(node, "k") is first
    young = send(node, "l")
    commit(node)
    node.now_ns += SECOND
    again = send(node, "k")
    assert again is not first
    group = commit(node)
    assert json.loads(group.commit.state["$key:1.1:k"] or b"")[1] == again.ordinal
    node.now_ns += 58 * SECOND
    assert send(node, "l") is young
    node.now_ns += SECOND
    send(node, "m")
    assert commit(node).commit.state["$key:1.1:l"] is None


def test_no_more_keys_are_kept_than_may_be() -> None:
    """A caller gets the time until the oldest key is over."""
    node = Bare(settings=NodeSettings(keys=KeySettings(lifetime_s=60, most=2)))
    keys = node.engine.outbox.keys
    send(node, "k")
    assert keys.full_for_ms(1_000) == 0
    send(node, "l")
    assert keys.full_for_ms(1_000) == 60_000
    assert keys.full_for_ms(60_999) == 1
    assert keys.full_for_ms(61_000) == 0
    assert keys.full_for_ms(1_000, 2) == 60_000
    assert keys.full_for_ms(1_000, 3) == 60_000  # there never is


def test_a_message_is_found_by_its_ordinal_as_long_as_its_key_counts() -> None:
    node = Bare(settings=NodeSettings(keys=KeySettings(lifetime_s=60)))
    accepted, keys = send(node, "k"), node.engine.outbox.keys
    assert keys.of_ordinal(accepted.ordinal, 60_999) is accepted
    assert keys.of_ordinal(accepted.ordinal, 61_000) is None
    assert keys.of_ordinal(accepted.ordinal + 1, 1_000) is None
    assert accepted.destination == f"{accepted.peer}/{accepted.queue}"


def test_a_dead_letter_is_remembered_with_its_reason() -> None:
    """In the commit that makes it one."""
    node = Bare()
    first = send(node, "k")
    commit(node)
    assert first.outgoing is not None
    node.engine.outbox.dead_lettering.purge(first.outgoing)
    group = commit(node)
    assert (first.reason, group.commit.outgoing_deletes) == ("purged", [(first.outgoing.stream_number << 40 | 1,) * 2])
    assert json.loads(group.commit.state["$key:1.1:k"] or b"")[4] == "purged"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("$key:1.1:k", b"[1, 2", "cannot be read"),
        ("$key:1.1:k", b'["1", 2, 3, 4, "", "b", "q"]', "cannot be read"),
        ("$key:1.1:k", b'[1, 2, 3, 4, 5, "b", "q"]', "has no reason"),
        ("$key:one:k", b'[1, 2, 3, 4, "", "b", "q"]', "cannot be read"),
        ("$key:1.1:k", b'[1, 2, 3, 4, "", "b", 7]', "or no queue"),
    ],
)
def test_what_no_node_has_kept_is_damage(name: str, value: bytes, said: str) -> None:
    keys = Bare().engine.outbox.keys
    with pytest.raises(StoreDamaged, match=said):
        keys.restore({name: value}, {}, 0, Commit())


@pytest.mark.parametrize("jump_s", [-86_400, 86_400, 56 * 366 * 86_400])
def test_a_key_lasts_as_long_as_was_said_however_the_clock_was_set_between_two_starts(jump_s: int) -> None:
    """Set forward, it would be forgotten and its message accepted twice; set back, it would be known for years."""
    world = World(1)
    a = world.node("a", NodeSettings(keys=KeySettings(lifetime_s=60)))

    def send_once() -> int:
        outgoing = a.live.outgoing_stream("", "q", Delivery.TRANSACTIONAL)
        found = a.live.submit_once(outgoing, Outgoing(b"body", None, 0, "k"), 4, world.now_ns)
        a.drain()
        world.run(25 * SECOND)
        return found.ordinal

    first = send_once()
    a.wall_offset_ns += jump_s * SECOND
    a.restart()
    assert send_once() == first
    a.wall_offset_ns -= jump_s * SECOND
    a.restart()
    assert send_once() == first
    a.restart()
    assert send_once() != first


def test_a_key_that_was_accepted_later_than_now_is_as_old_as_the_start_that_finds_it() -> None:
    """Where nothing tells how long it was; and the commit says so, or it would be as old as each further start."""
    keys, commit = AcceptedKeys(KeySettings(lifetime_s=60)), Commit()
    node = Bare()
    outgoing = node.engine.outgoing_stream(PEER, "q", Delivery.TRANSACTIONAL)
    keys.restore({"$key:1.1:k": b'[90000, 2, 3, 4, "", "memory://b", "q"]'}, {1: outgoing}, 50_000, commit)
    assert json.loads(commit.state["$key:1.1:k"] or b"")[0] == 50_000
    assert keys.find(outgoing, "k", 109_999) is not None
    assert keys.find(outgoing, "k", 110_000) is None


def test_a_key_outlives_the_stream_of_its_message() -> None:
    """Before a restart and after one; what is sent again with it is still the message that was accepted."""
    world = World(1)
    a, b = world.node("a", NodeSettings(retire_after_s=1.0)), world.node("b")

    def once() -> Accepted:
        outgoing = a.live.outgoing_stream(b.address, "q", Delivery.TRANSACTIONAL)
        accepted = a.live.submit_once(outgoing, Outgoing(b"body", None, 0, "k"), 4, world.now_ns)
        a.drain()
        return accepted

    first = once()
    for _ in range(2):
        world.run(10 * SECOND)
        assert once().ordinal == first.ordinal
        a.restart()
    assert once().ordinal == first.ordinal
    world.run(10 * SECOND)
    assert b.read_all("q") == [b"body"]
    assert (first.outgoing, first.ticket) == (None, None)
