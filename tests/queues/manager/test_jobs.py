"""Jobs of the engine and the order of their effects."""

import pytest

from tests.queues.bare import Bare, events, kinds, rest, settle
from tests.queues.world import drain, single, two
from tests.sure import sure
from triack.base.datagram import VERSION, Header, Kind, read_header
from triack.base.delivery import Delivery
from triack.base.errors import NodeClosed, ProtocolError, StoreFailed
from triack.base.news import PeerSilent
from triack.base.peers import Directory, Peer
from triack.base.reasons import DropReason, Trouble
from triack.base.units import MS, SECOND
from triack.queues.fetching import Fetch
from triack.queues.manager.callers import CALLERS_MAX, FORGET_NS, OTHERS, Callers
from triack.queues.manager.closing import Departure, left_behind, way_made
from triack.queues.manager.effects import Effect, StartJob, Tell
from triack.queues.node_settings import NodeSettings
from triack.queues.streams.group_commit import GroupCommit

# What the store is given to do: one thing at a time, commits and reads in turns.


def started(node: Bare) -> list[StartJob]:
    return [effect for effect in node.poll() if isinstance(effect, StartJob)]


def read_one(node: Bare) -> None:
    """Hand out a message of ``q``, and acknowledge it."""
    mailbox = node.engine.queues.mailboxes["q"]
    mailbox.acknowledge(sure(node.engine.take(mailbox, node.now_ns)))


def test_who_flushes_or_closes_does_not_wait_for_company() -> None:
    """An application that wants its acknowledgements on the disk has them there with one sync."""
    node = Bare()
    node.submit("", b"1", b"2", b"3")
    node.poll()
    node.finish_job()
    read_one(node)
    node.engine.await_commit(lambda _: None)
    assert started(node)
    node.finish_job()
    read_one(node)
    assert not started(node)
    node.engine.drain(node.now_ns)
    assert started(node)


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
    world, a, b = two()
    a.send(b, "q", b"0")
    world.run(5 * SECOND)
    b.read("q")
    world.run(SECOND)
    (outgoing, _) = a.send(b, "q", b"1")
    assert world.run(SECOND, lambda: b.length("q") == 1 and not outgoing.sequence.entries)
    assert (a.busy, a.job) == (True, None)
    a.restart()
    assert [len(again.sequence.entries) for again in a.outbox.streams] == [1]
    assert (b.read("q"), b.job) == (1, None)
    b.restart()
    assert b.length("q") == 1
    assert world.run(20 * SECOND, lambda: not a.busy)
    assert (b.read_all("q"), b.redelivered) == ([b"0", b"1"], 1)
    assert world.run(SECOND, lambda: not b.busy)
    a.restart()
    b.restart()
    assert (a.busy, b.length("q")) == (False, 0)


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


def test_a_fetch_is_answered_when_the_bodies_are_here_or_the_node_ends() -> None:
    """In hand, waiting, and when the node stops; fetches and commits take turns."""
    node = Bare()
    node.poll()
    node.finish_job()
    said: list[object] = []

    def fetch(name: str) -> Fetch:
        def hear(found: object) -> None:
            said.append((name, found))

        return Fetch("messages", [], take=hear, fail=hear)

    node.engine.fetch(fetch("1"))
    (first,) = started(node)
    assert isinstance(first.job, Fetch)
    node.finish_job()
    assert said == [("1", {})]
    node.engine.fetch(fetch("2"))
    node.engine.fetch(fetch("3"))
    node.poll()
    stopped = NodeClosed("stopped")
    node.engine.stop(stopped, node.now_ns)
    assert said == [("1", {}), ("3", stopped)]
    node.engine.fetch(fetch("4"))
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


# What the engine wants done, and in which order: no host knows an order of its own.


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
        assert "StartJob" not in told[2:]
        assert (told.count("StartJob") <= 1, told.count("WriteRecords") <= 2) == (True, True)
        assert told == sorted(told, key=lambda kind: kind == "Send")
        if "packet_sent" in events(effects):
            assert [kind for kind in told if kind not in ("Send", "Tell")][-1] == "WriteRecords"
    assert sum(kinds(effects).count("StartJob") for effects in polls) > 40


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
        deadline_ns = sure(node.engine.next_deadline())
        while node.now_ns + SECOND < deadline_ns:
            assert node.poll(SECOND) == []
            assert node.engine.next_deadline() == deadline_ns


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


# Callers that get no answer: the operator hears once of each, and a flood of them fills nothing.

CONNECT = Header(Kind.CONNECT, 9, 1).encode()


def refuse(
    callers: Callers, host: str, detail: str = "", reason: DropReason = DropReason.UNTRUSTED, now_ns: int = 0
) -> None:
    callers.handle_dropped(CONNECT, ProtocolError(reason, detail), f"udp://{host}:4711", now_ns)


def test_each_host_is_told_once_and_its_calls_are_counted() -> None:
    callers = Callers(Directory())
    for at_s in range(3):
        refuse(callers, "h", "0a", now_ns=at_s * SECOND)
    refuse(callers, "[::1]", "0b")
    assert [(it.host, it.trouble) for it in drain(callers.news)] == [("h", "untrusted"), ("[::1]", "untrusted")]
    assert [(it.host, it.calls, it.last_ns) for it in callers.rows(2 * SECOND)] == [
        ("h", 3, 2 * SECOND),
        ("[::1]", 1, 0),
    ]
    assert drain(callers.news) == []


@pytest.mark.parametrize(
    ("kind", "reason", "trouble"),
    [
        (Kind.CONNECT, DropReason.BAD_MAC, Trouble.WRONG_KEY),
        (Kind.CONNECT, DropReason.OTHER_SUITE, Trouble.OTHER_SUITE),
        (Kind.CONNECT, DropReason.TOO_SHORT, Trouble.ONE_WITHOUT_KEYS),
        (Kind.CONNECT, DropReason.BAD_TAG, Trouble.ONE_WITHOUT_KEYS),
        (Kind.ACCEPT, DropReason.BAD_TAG, Trouble.OTHER_PSK),
        (Kind.ENROL, DropReason.CODE_EXPIRED, Trouble.CODE_EXPIRED),
        (Kind.ENROL, DropReason.NOT_INVITED, None),
        (Kind.DATA, DropReason.BAD_TAG, None),
        (Kind.ACCEPT, DropReason.BAD_MAC, None),
    ],
)
def test_only_what_an_operator_can_mend_is_told(kind: Kind, reason: DropReason, trouble: Trouble | None) -> None:
    """Late and forged datagrams are counted, and no more."""
    callers = Callers(Directory())
    callers.handle_dropped(Header(kind, 9, 1).encode(), ProtocolError(reason), "udp://127.0.0.1:1", 0)
    assert [it.trouble for it in drain(callers.news)] == ([] if trouble is None else [trouble])
    callers.handle_dropped(b"", ProtocolError(reason), "udp://h:1", 0)
    assert drain(callers.news) == []


def test_another_version_is_told_with_both_numbers() -> None:
    datagram = bytes([Kind.CONNECT, VERSION + 1]) + bytes(1_198)
    with pytest.raises(ProtocolError) as caught:
        read_header(datagram)
    callers = Callers(Directory())
    callers.handle_dropped(datagram, caught.value, "udp://h:1", 0)
    [told] = drain(callers.news)
    assert told.cause.endswith(f": {VERSION + 1}, and this node speaks {VERSION}")


@pytest.mark.parametrize(
    ("sender", "size_bytes", "told"),
    [
        ("udp://h:1", 1_199, False),
        ("udp://h:1", 1_200, True),
        ("udp://127.0.0.1:1", 60, True),
        ("udp://[::1]:1", 60, True),
    ],
)
def test_datagrams_of_other_programs_are_no_calls(sender: str, size_bytes: int, *, told: bool) -> None:
    """A RADIUS request, for one, begins as a connect of another version would."""
    datagram = bytes([Kind.CONNECT, VERSION + 1]).ljust(size_bytes, b"x")
    callers = Callers(Directory())
    callers.handle_dropped(datagram, ProtocolError(DropReason.BAD_VERSION, str(VERSION + 1)), sender, 0)
    assert bool(drain(callers.news)) == told
    callers.handle_dropped(CONNECT, ProtocolError(DropReason.TOO_SHORT), sender, 0)
    assert bool(drain(callers.news)) == (sender != "udp://h:1")


def test_a_flood_has_one_row_for_all_that_came_too_late() -> None:
    """Those before it stay, and another reason has rows of its own."""
    callers = Callers(Directory())
    for number in range(10_000):
        refuse(callers, f"h{number}")
    rows = {it.host: it.calls for it in callers.rows(0)}
    assert (len(rows), rows["h0"], rows[OTHERS]) == (CALLERS_MAX, 1, 10_000 - CALLERS_MAX + 1)
    assert len(drain(callers.news)) == CALLERS_MAX
    refuse(callers, "late", reason=DropReason.BAD_MAC)
    assert [it.host for it in drain(callers.news)] == ["late"]


def test_a_row_goes_with_the_calls_and_the_next_call_is_told_again() -> None:
    callers = Callers(Directory())
    refuse(callers, "h")
    assert callers.rows(FORGET_NS - 1)
    assert callers.rows(FORGET_NS) == []
    refuse(callers, "h", now_ns=FORGET_NS)
    assert len(drain(callers.news)) == 2


def test_a_flood_that_is_over_makes_room() -> None:
    callers = Callers(Directory())
    for number in range(CALLERS_MAX):
        refuse(callers, f"h{number}")
    refuse(callers, "new", now_ns=FORGET_NS)
    assert [it.host for it in callers.rows(FORGET_NS)] == ["new"]


def test_a_key_that_is_trusted_now_has_no_row() -> None:
    """And until then it is shown as operators write it."""
    directory = Directory()
    callers = Callers(directory)
    callers.describe_key = lambda key: f"key-{key.hex()}"
    refuse(callers, "h", "0a")
    assert [it.detail for it in callers.rows(0)] == ["key-0a"]
    directory.replace([Peer("b", keys=(b"\n",))])
    callers.handle_directory_changed()
    assert callers.rows(0) == []


# What has not arrived yet, and whether it comes nearer.


def test_what_is_left_is_counted_by_destination() -> None:
    """Before it is packed, while it is committed, and on its way; what is on no disk, or not yet, for itself."""
    a, b = Bare("a"), Bare("b")
    a.submit(b.address, b"1", b"2")
    a.submit(b.address, b"3", delivery=Delivery.EXPRESS)
    for _ in range(2):
        assert (left_behind(a.engine, stored=True), left_behind(a.engine, stored=False)) == ({}, {"memory://b/q": 3})
        a.poll()
    a.finish_job()
    assert left_behind(a.engine, stored=True) == {"memory://b/q": 2}
    assert left_behind(a.engine, stored=False) == {"memory://b/q": 1}
    rest(a, b)
    assert (left_behind(a.engine, stored=True), left_behind(a.engine, stored=False)) == ({}, {})


def test_every_step_of_the_way_is_seen() -> None:
    """A peer that answers, a packet that is acknowledged; silence is none."""
    a, b = Bare("a"), Bare("b")
    a.submit(b.address, b"1")
    a.poll()
    a.finish_job()
    seen = way_made(a.engine)
    hello = a.poll()
    assert way_made(a.engine) == seen
    b.hear(hello, a)
    a.hear(b.poll(), b)
    assert way_made(a.engine) != seen
    seen = way_made(a.engine)
    rest(a, b)
    assert way_made(a.engine) != seen


def test_acknowledgements_are_asked_for_once() -> None:
    """They come at once, and not after the idle delay; nothing is left to wait for then."""
    a, b = Bare("a"), Bare("b")
    woken: list[None] = []
    departure = Departure(a.engine, lambda: woken.append(None))
    assert not departure.hasten()
    a.submit(b.address, b"1")
    assert departure.hasten()
    assert departure.hasten()
    settle(a, b)
    assert not departure.hasten()
    assert len(woken) == 1


# A node finds out that it comes late, and writes down since when.


@pytest.mark.parametrize("stopped_ns", [SECOND, 4 * SECOND, 60 * SECOND])
def test_a_node_writes_down_that_it_stood_still(stopped_ns: int) -> None:
    """Something comes, and its process is stopped, or its machine suspended, before it has answered."""
    world, node = single()
    world.run(SECOND)
    node.act(lambda: None)
    assert node.log("woke_late") == []
    begun_ns = world.now_ns
    node.live.handle_path_lost("udp://b:1", begun_ns)
    world.now_ns += stopped_ns
    node.drain()
    (late,) = node.log("woke_late")
    assert late["since_ns"] == begun_ns
