"""What the store is given to do: one thing at a time, commits and reads in turns."""

import pytest

from tests.queues.bare import Bare, rest
from tests.queues.world import World
from triack.base.errors import NodeClosed, StoreFailed
from triack.base.units import SECOND
from triack.queues.manager.effects import StartJob
from triack.queues.manager.jobs import LAZY_NS, Look
from triack.queues.streams.group_commit import GroupCommit


def started(node: Bare) -> list[StartJob]:
    return [effect for effect in node.poll() if isinstance(effect, StartJob)]


def test_there_is_one_job_at_a_time() -> None:
    """Everything that is submitted meanwhile fills the next commit."""
    node = Bare()
    (first,) = started(node)
    assert isinstance(first.job, GroupCommit)
    node.submit("memory://b", b"1", b"2")
    node.submit("", b"3")
    assert started(node) == []
    node.finish_job()
    (second,) = started(node)
    assert isinstance(second.job, GroupCommit)
    assert (len(second.job.commit.outgoing), len(second.job.commit.messages)) == (1, 1)
    assert second.job.commit.serial == first.job.commit.serial + 1
    node.finish_job()
    assert started(node) == []
    assert not node.engine.busy_storing


def read_one(node: Bare) -> None:
    """Hand out a message of ``q``, and acknowledge it."""
    mailbox = node.engine.queues.mailboxes["q"]
    lease = node.engine.take(mailbox, node.now_ns)
    assert lease is not None
    mailbox.acknowledge(lease)


def with_messages() -> Bare:
    """A node with three messages in its queue, and nothing in hand."""
    node = Bare()
    node.submit("", b"1", b"2", b"3")
    node.poll()
    node.finish_job()
    return node


def test_what_is_done_with_goes_with_the_next_commit() -> None:
    """A sync of its own would only be in the way of the next message."""
    node = with_messages()
    read_one(node)
    read_one(node)
    assert started(node) == []
    assert node.engine.busy_storing
    node.submit("", b"4")
    (effect,) = started(node)
    assert isinstance(effect.job, GroupCommit)
    assert (len(effect.job.commit.messages), len(effect.job.commit.progress)) == (1, 1)


def test_what_is_done_with_waits_for_nobody_for_long() -> None:
    """The first decides: however much follows, so long after it all of it goes to the disk."""
    node = with_messages()
    read_one(node)
    assert started(node) == []
    due_ns = node.now_ns + LAZY_NS
    assert node.engine.next_deadline() == due_ns
    node.now_ns += LAZY_NS - 1
    read_one(node)
    assert started(node) == []
    assert node.engine.next_deadline() == due_ns
    node.now_ns += 1
    assert len(started(node)) == 1
    assert node.engine.next_deadline() != due_ns
    node.finish_job()
    assert not node.engine.busy_storing


def test_who_flushes_or_closes_does_not_wait_for_company() -> None:
    """An application that wants its acknowledgements on the disk has them there with one sync."""
    node = with_messages()
    read_one(node)
    node.engine.await_commit(lambda _: None)
    assert len(started(node)) == 1
    node.finish_job()
    read_one(node)
    assert started(node) == []
    node.engine.drain(node.now_ns)
    assert len(started(node)) == 1


def test_an_order_ack_has_no_commit_of_its_own() -> None:
    """The packets that it frees leave the disk with the next ones that are sent."""
    a, b = Bare("a"), Bare("b")
    a.submit(b.address, b"1")
    rest(a, b)
    outgoing = a.submit(b.address, b"2")
    (first,) = started(a)
    a.finish_job()
    b.hear(a.poll(), a)
    b.poll()
    b.finish_job()
    b.engine.drain(b.now_ns)
    a.hear(b.poll(), b)
    assert not outgoing.sequence.entries
    assert started(a) == []
    a.submit(b.address, b"3")
    (effect,) = started(a)
    assert isinstance(first.job, GroupCommit)
    assert isinstance(effect.job, GroupCommit)
    key = first.job.commit.outgoing[0].key
    assert effect.job.commit.outgoing_deletes == [(key, key)]


def test_a_crash_that_takes_it_costs_work_and_no_promise() -> None:
    """Finished work is found and finished again: sent again and known, handed out again and marked so."""
    world = World(1)
    a, b = world.node("a"), world.node("b")
    a.send(b, "q", b"0")
    world.run(5 * SECOND)
    b.read("q")
    world.run(SECOND)
    (outgoing, _) = a.send(b, "q", b"1")
    assert world.run(SECOND, lambda: b.length("q") == 1 and not outgoing.sequence.entries)
    assert a.busy
    assert a.job is None
    a.restart()
    assert [len(again.sequence.entries) for again in a.outbox.streams] == [1]
    assert b.read("q") == 1
    assert b.job is None
    b.restart()
    assert b.length("q") == 1
    assert world.run(20 * SECOND, lambda: not a.busy)
    assert b.read_all("q") == [b"0", b"1"]
    assert b.redelivered == 1
    assert world.run(SECOND, lambda: not b.busy)
    a.restart()
    b.restart()
    assert not a.busy
    assert not b.length("q")


def test_waiters_are_notified_when_the_commit_returns_or_the_store_ends() -> None:
    """Those of the commit in hand and of the one that fills, each once."""
    node = Bare()
    said: list[Exception | None] = []
    node.engine.await_commit(said.append)
    node.poll()
    assert said == []
    node.finish_job()
    assert said == [None]
    node.engine.await_commit(said.append)
    node.poll()
    node.engine.await_commit(said.append)
    error = StoreFailed("the disk")
    node.engine.handle_store_failed(node.job, error, node.now_ns)
    assert said == [None, error, error]
    assert started(node) == []


def test_a_look_is_answered_when_the_bodies_are_here_or_the_node_ends() -> None:
    """In hand, waiting, and when the node stops; looks and commits take turns."""
    node = Bare()
    node.poll()
    node.finish_job()
    said: list[object] = []

    def look(name: str) -> Look:
        return Look("messages", [], waiter=lambda error: said.append((name, error)))

    node.engine.look(look("1"))
    (first,) = started(node)
    assert isinstance(first.job, Look)
    node.finish_job()
    assert said == [("1", None)]
    node.engine.look(look("2"))
    node.engine.look(look("3"))
    node.poll()
    stopped = NodeClosed("stopped")
    node.engine.stop(stopped, node.now_ns)
    assert said == [("1", None), ("3", stopped)]
    node.engine.look(look("4"))
    error = StoreFailed("the disk")
    node.engine.handle_store_failed(node.job, error, node.now_ns)
    assert said[2:] == [("4", error), ("2", error)]


@pytest.mark.parametrize("is_free", [True, False])
def test_what_fills_when_the_node_stops_is_committed_now_or_never(*, is_free: bool) -> None:
    """Its waiter hears that all of it happened, or that nothing did; what comes later never happens."""
    node = Bare()
    node.poll()
    node.finish_job()
    node.submit("memory://b", b"1")
    if not is_free:
        node.poll()
    said: list[object] = []
    node.engine.set_state("key", b"value")
    node.engine.await_commit(said.append)
    stopped = NodeClosed("stopped")
    node.engine.stop(stopped, node.now_ns)
    assert said == ([] if is_free else [stopped])
    node.poll()
    job = node.job
    assert isinstance(job, GroupCommit)
    assert job.commit.state == ({"key": b"value"} if is_free else {})
    node.finish_job()
    assert said == [None if is_free else stopped]
    node.engine.set_state("key", b"later")
    node.engine.await_commit(said.append)
    assert started(node) == []
    assert node.engine.jobs.next_deadline() is None
    node.engine.stop(stopped, node.now_ns)
    assert said[1:] == [stopped]
