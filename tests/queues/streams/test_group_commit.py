"""What a commit holds beside its rows, and that nothing of it is seen before it has returned."""

import pytest

from tests.queues.bare import Bare, kinds
from triack.base.delivery import Delivery
from triack.ordering.order_settings import OrderSettings
from triack.queues.stages import Stage
from triack.queues.streams.group_commit import Arrivals, GroupCommit
from triack.queues.streams.incoming_stream import IncomingStream

TRANSFER = IncomingStream(b"o" * 16, 1, "q", Delivery.RECOVERABLE, OrderSettings())


def test_an_empty_one_is_nothing_to_do() -> None:
    assert not GroupCommit()


@pytest.mark.parametrize("what", ["rows", "accepted", "stored", "waiters"])
def test_each_of_these_is_something_to_do(what: str) -> None:
    """A store ack or a waiter needs no row: it goes with the next commit, and makes one if there is none."""
    group = GroupCommit()
    if what == "rows":
        group.commit.state["key"] = None
    elif what == "accepted":
        group.arrivals.accepted[TRANSFER] = [(1, 1, 1, 1)]
    elif what == "stored":
        group.arrivals.stored[object()] = [1]  # type: ignore[index]
    else:
        group.waiters.append(lambda error: None)
    assert group
    assert group.is_awaited


def test_what_is_done_with_is_awaited_by_nobody() -> None:
    """A caller that waits for the commit itself waits for it, too, and so does one that hears of a dead letter."""
    for what in ("outgoing_deletes", "message_deletes"):
        group = GroupCommit()
        getattr(group.commit, what).append((1, 1))
        assert group
        assert not group.is_awaited
        group.waiters.append(lambda error: None)
        assert group.is_awaited
    group = GroupCommit()
    group.departures.dead_lettered.append((object(), [], "purged"))  # type: ignore[arg-type]
    assert group.is_awaited


@pytest.mark.plain
def test_store_acks_are_kept_by_conversation() -> None:
    """In the order in which they came."""
    arrivals = Arrivals()
    one, other = object(), object()
    for conversation, packet in ((one, 1), (other, 1), (one, 2)):
        arrivals.store_ack(conversation, packet)  # type: ignore[arg-type]
    assert list(arrivals.stored.items()) == [(one, [1, 2]), (other, [1])]


@pytest.mark.parametrize("delivery", [Delivery.RECOVERABLE, Delivery.TRANSACTIONAL])
def test_nothing_is_seen_before_the_commit_has_returned(delivery: Delivery) -> None:
    """The message and its receipt come, and the waiter of the commit is called, right after it and not before."""
    node, said = Bare(), list[object]()
    outgoing = node.submit(node.address, b"hello", delivery=delivery)
    node.engine.await_commit(said.append)
    node.engine.await_stage(outgoing, 0, Stage.QUEUED, said.append)
    node.poll()
    node.poll()
    box = node.engine.make_queue("q")
    assert (said, box.length, node.engine.busy_storing) == ([], 0, True)
    node.finish_job()
    assert (said, box.length) == ([None, None], 1)


def test_a_waiter_alone_makes_a_commit_without_a_number() -> None:
    """Nothing is written, but the disk is asked: what was asked for before is durable then."""
    node, said = Bare(), list[object]()
    node.poll()
    node.finish_job()
    node.engine.await_commit(said.append)
    assert kinds(node.poll()) == ["StartJob"]
    job = node.job
    assert isinstance(job, GroupCommit)
    assert (bool(job.commit), job.commit.serial, said) == (False, 0, [])
    node.finish_job()
    assert (said, node.poll()) == ([None], [])
