"""What the engine wants done, and in which order: no host knows an order of its own."""

import pytest

from tests.queues.bare import Bare, events, kinds, rest, settle
from tests.queues.rollbacks import both_know, deliver, pair, put_back
from triack.base.delivery import Delivery
from triack.base.news import PeerSilent
from triack.base.units import MS, SECOND
from triack.queues.manager.effects import Effect, Send, StartJob, Tell, WriteRecords
from triack.queues.node_settings import NodeSettings
from triack.queues.streams.group_commit import GroupCommit


def test_records_come_before_the_job_they_tell_of() -> None:
    """If the process dies right after the commit, nothing else would tell that the message was removed."""
    node = Bare()
    node.submit("memory://nobody", b"late", reach_by_ms=node.now_ns // MS + 50)
    node.poll()
    node.finish_job()
    node.poll()
    effects = node.poll(60 * MS)
    job_at = kinds(effects).index("StartJob")
    assert "removed" in events(effects[:job_at])
    job = node.job
    assert isinstance(job, GroupCommit)
    assert len(job.commit.messages) == len(job.commit.outgoing_deletes) == 1


def test_datagrams_leave_after_the_records_that_tell_of_them() -> None:
    """And a job starts before anything is sent: the disk works while the network does."""
    a, b = Bare("a"), Bare("b")
    a.submit(b.address, b"first")
    settle(a, b)
    a.submit(b.address, b"express", delivery=Delivery.EXPRESS)
    a.submit(b.address, b"second")
    effects = a.poll()
    assert kinds(effects)[-3:] == ["StartJob", "WriteRecords", "Send"]
    assert [event for event in events(effects) if event in ("queued", "packet_sent")] == ["queued", "packet_sent"]
    assert "packet_sent" in events([effects[-2]])


def test_every_poll_keeps_the_order() -> None:
    """Whatever happens: at most one job, nothing before its records, and datagrams last."""
    a, b = Bare("a"), Bare("b")
    polls: list[list[Effect]] = []
    for number in range(60):
        for node, peer in ((a, b), (b, a)):
            node.submit(peer.address, b"%d" % number, delivery=Delivery(number % 3))
            effects = node.poll(20 * MS)
            polls.append(effects)
            peer.hear(effects, node)
            if number % 3 and node.job is not None:
                node.finish_job()
    for effects in polls:
        told = kinds(effects)
        assert told.count("StartJob") <= 1
        assert told.count("WriteRecords") <= 2
        assert told == sorted(told, key=lambda kind: kind == "Send")
        if "StartJob" in told:
            assert told.index("StartJob") <= 1
        if "packet_sent" in events(effects):
            assert isinstance(
                next(effect for effect in reversed(effects) if not isinstance(effect, Send | Tell)), WriteRecords
            )
    assert sum(kinds(effects).count("StartJob") for effects in polls) > 40


def test_one_job_at_a_time() -> None:
    """Everything that comes while the disk is busy becomes one commit."""
    node = Bare()
    node.submit("memory://nobody", b"1")
    node.poll()
    assert node.job is not None
    for number in range(2, 6):
        node.submit("memory://nobody", b"%d" % number)
        assert "StartJob" not in kinds(node.poll())
    node.finish_job()
    node.poll()
    job = node.job
    assert isinstance(job, GroupCommit)
    assert sum(row.messages for row in job.commit.outgoing) == 4


def test_reads_and_commits_take_turns() -> None:
    """Commits without end do not keep packets from their bodies, nor the other way round."""
    a, b = Bare("a", NodeSettings(body_cache_bytes=0)), Bare("b")
    a.submit(b.address, b"0")
    rest(a, b)
    jobs = ""
    for number in range(40):
        a.submit(b.address, b"%d" % number)
        a.poll()
        jobs += "commit " if isinstance(a.job, GroupCommit) else "read "
        a.finish_job()
    # A packet that a commit has just let go asks for its body one poll later.
    assert jobs.startswith("commit commit read " * 13)


def test_an_idle_engine_wants_nothing_at_all() -> None:
    """No record, no commit without content, no datagram; nor a poll before something is due."""
    a, b = Bare("a"), Bare("b")
    for delivery in Delivery:
        a.submit(b.address, b"x", delivery=delivery)
        b.submit(a.address, b"y", delivery=delivery)
    rest(a, b)
    for node in (a, b):
        deadline_ns = node.engine.next_deadline()
        assert deadline_ns is not None
        while node.now_ns + SECOND < deadline_ns:
            assert node.poll(SECOND) == []
            assert node.engine.next_deadline() == deadline_ns


def test_an_engine_with_nothing_has_no_deadline() -> None:
    """It says that it has started and makes its queue; then it can sleep without end."""
    node = Bare()
    node.poll()
    node.finish_job()
    assert (node.poll(), node.engine.next_deadline()) == ([], None)


def test_the_operator_hears_of_silence_once() -> None:
    """However often it is tried; and again when somebody had answered in between."""
    a, b = Bare("a"), Bare("b")
    a.submit(b.address, b"x")

    def try_on() -> list[object]:
        end_ns = a.now_ns + 60 * SECOND
        before = len(a.effects)
        while a.now_ns < end_ns:
            if a.job is not None:
                a.finish_job()
            a.poll(100 * MS)
        told = [effect.event for effect in a.effects[before:] if isinstance(effect, Tell)]
        return [event for event in told if isinstance(event, PeerSilent)]

    assert try_on() == [PeerSilent(b.address, f"no answer from {b.address}")]
    assert try_on() == []
    b.now_ns = a.now_ns
    a.effects.clear()
    while "session_opened" not in events(a.effects):
        settle(a, b)
        a.now_ns += 100 * MS
    a.engine.handle_path_lost(b.address, a.now_ns)
    a.submit(b.address, b"y")
    assert try_on() == [PeerSilent(b.address, f"no answer from {b.address}")]


@pytest.mark.parametrize("lives", [1, 3])
def test_the_operator_hears_of_a_rollback_once(lives: int) -> None:
    """In each life of a node, by both."""
    world, a, b = pair()
    deliver(world, a, b, 1)
    copy = a.copy_store()
    deliver(world, a, b, 2)
    put_back(a, copy, lives)
    a.send(b, "q", b"3")
    both_know(world, a, b)
    world.run(30 * SECOND)
    assert [(error.rolled_back, error.peer) for error in a.told + b.told] == [
        ("own", b.live.node_id.hex()),
        ("peer", a.live.node_id.hex()),
    ]


def test_jobs_are_commits_or_reads() -> None:
    """Nothing else is asked of the store."""
    node = Bare()
    node.poll()
    assert [type(effect.job) for effect in node.effects if isinstance(effect, StartJob)] == [GroupCommit]
