"""What the store is given to do: one thing at a time, commits and reads in turns."""

from tests.queues.bare import Bare
from triack.base.errors import NodeClosed, StoreFailed
from triack.queues.effects import StartJob
from triack.queues.group_commit import GroupCommit
from triack.queues.jobs import Look


def started(node: Bare) -> list[StartJob]:
    return [effect for effect in node.poll() if isinstance(effect, StartJob)]


def test_there_is_one_job_at_a_time() -> None:
    """What is submitted meanwhile fills the next commit, all of it together."""
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


def test_who_waits_is_told_when_the_commit_returns_or_the_store_ends() -> None:
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


def test_who_looks_is_told_when_the_bodies_are_here_or_the_node_ends() -> None:
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
