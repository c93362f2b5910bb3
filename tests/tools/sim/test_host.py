"""A host does the effects of its engine, in the engine's order; a crash before an effect does nothing of it."""

from collections.abc import Callable, Iterator
from typing import cast

import pytest

from triack.base.commit import Commit, Read
from triack.base.delivery import Delivery
from triack.base.errors import NodeClosed, RollbackDetected, StoreDamaged, StoreFailed
from triack.base.news import PeerSilent
from triack.base.units import MS, SECOND
from triack.queues.mailboxes.mailbox import Mailbox
from triack.queues.manager.effects import Effect, Job, Send, StartJob, Tell, TellRollback, WriteRecords
from triack.queues.manager.engine import Engine
from triack.queues.stages import Stage
from triack.tools.replay.log.files import parse_records
from triack.tools.sim.disk import ProcessCrashed
from triack.tools.sim.faults import Faults
from triack.tools.sim.host import FOLDER, EngineHost, SimHost
from triack.tools.sim.network import Network
from triack.tools.sim.residents import draw_key
from triack.tools.sim.world import World

A, B = "udp://a:1", "udp://b:1"

# ---- any host: its calls, in their order


class Listing(EngineHost):
    """Lists what it does, and crashes before one of it."""

    def __init__(self, crash_at: int = -1) -> None:
        self.done: list[object] = []
        self.crash_at = crash_at

    def _do(self, what: object) -> None:
        if len(self.done) == self.crash_at:
            raise ProcessCrashed
        self.done.append(what)

    def write_records(self, records: bytes) -> None:
        self._do(records)

    def start_job(self, job: Job) -> None:
        self._do(job)

    def send_datagrams(self, address: str, datagrams: list[bytes]) -> None:
        self._do((address, datagrams))

    def tell_operator(self, rollback: RollbackDetected) -> None:
        self._do(rollback)


class Scripted:
    """In place of an engine: wants the same done whenever it is asked, and notes the time at which it has to stop."""

    def __init__(self, effects: list[Effect]) -> None:
        self.effects = effects
        self.stopped: list[object] = []

    def poll(self, now_ns: int) -> list[Effect]:
        return [WriteRecords(b"at %d" % now_ns), *self.effects]

    def stop(self, error: object, now_ns: int) -> None:
        self.stopped += [error, now_ns]

    def finish(self, now_ns: int) -> bytes:
        return b"last at %d" % now_ns

    @property
    def engine(self) -> Engine:
        return cast("Engine", self)


JOB = Read("messages", [1])
ROLLBACK = RollbackDetected("older", peer="0" * 32, rolled_back="own")
EFFECTS: list[Effect] = [
    StartJob(JOB),
    WriteRecords(b"more"),
    Tell(PeerSilent("udp://c:1", "nobody")),
    TellRollback(ROLLBACK),
    Send("udp://b:1", [b"1", b"2"]),
    Send("udp://c:1", [b"3"]),
]
DONE = [b"at 7", JOB, b"more", ROLLBACK, ("udp://b:1", [b"1", b"2"]), ("udp://c:1", [b"3"])]


@pytest.mark.parametrize("turned", [False, True])
def test_effects_are_done_in_the_engines_order(turned: bool) -> None:
    """Whatever it is: no host knows an order of its own. No simulated operator hears that a node is silent."""
    host = Listing()
    host.follow(Scripted(EFFECTS[::-1] if turned else EFFECTS).engine, 7)
    assert host.done == ([*DONE[:1], *DONE[:0:-1]] if turned else DONE)


@pytest.mark.parametrize("crash_at", range(len(DONE)))
def test_a_crash_before_an_effect_does_all_before_it_and_nothing_of_it(crash_at: int) -> None:
    host = Listing(crash_at)
    with pytest.raises(ProcessCrashed):
        host.follow(Scripted(EFFECTS).engine, 7)
    assert host.done == DONE[:crash_at]


def test_the_last_record_is_written_after_everything_else() -> None:
    """A node that is stopped still does what follows from it."""
    host, engine, error = Listing(), Scripted(EFFECTS), NodeClosed("closed")
    host.finish(engine.engine, error, 7)
    assert engine.stopped == [error, 7]
    assert host.done == [*DONE, b"last at 7"]


# ---- in virtual time


class Watched(SimHost):
    """Lists what reaches beyond its process, and can be ended before any of it."""

    def __init__(self, world: World, network: Network, name: str, keys: tuple[bytes, ...] | None = None) -> None:
        super().__init__(world, network, name, f"udp://{name}:1", keys=keys)
        self.reached: list[object] = []
        self.failed: list[object] = []
        self.disk.on_effect = self._reach_disk

    def _reach_disk(self, what: str) -> None:
        self.before_effect()
        self.reached.append(what)

    def write_records(self, records: bytes) -> None:
        super().write_records(records)
        self.reached.append(records)

    def apply(self, commit: Commit) -> None:
        self.reached.append("begins a commit")
        super().apply(commit)

    def store_failed(self, error: Exception) -> None:
        self.failed.append(error)

    def die(self) -> None:
        """It does not come back by itself."""
        self.end_process("killed")

    def send(self, count: int, stage: Stage | None = None) -> list[str | None]:
        """Send numbered bodies to b; returns what becomes known of the last one, when it does."""
        known: list[str | None] = []

        def submit() -> None:
            outgoing = self.live.outgoing_stream(B, "q", Delivery.TRANSACTIONAL)
            numbers = [self.live.submit(outgoing, b"body %d" % number, 100) for number in range(count)]
            if stage is not None:
                self.live.await_stage(outgoing, numbers[-1], stage, known.append)

        self.act(submit)
        return known

    @property
    def mailbox(self) -> Mailbox:
        """The queue that everything goes to."""
        return self.live.queues.mailboxes["q"]

    @property
    def events(self) -> list[list[str]]:
        """The records of each process, by name."""
        return [[record["event"] for record in parse_records(bytes(log))] for log in self.records]


class Pair:
    """Two hosts in a world of their own; ``a`` is the one that a test looks at."""

    def __init__(self, keys: tuple[bytes, ...] | None = None) -> None:
        self.world = World(1)
        self.network = Network(self.world, Faults(delay_ns=5 * MS))
        self.network.tap = self._tap
        self.a, self.b = (Watched(self.world, self.network, name, keys) for name in "ab")

    def _tap(self, datagram: bytes, sender: str, _to: str) -> None:
        (self.a if sender == A else self.b).reached.append(datagram)

    def start(self) -> None:
        """Both run, and their stores have done the first job."""
        self.a.start()
        self.b.start()
        self.world.run(SECOND)

    def close(self) -> None:
        self.a.disk.close()
        self.b.disk.close()


@pytest.fixture
def pairs() -> Iterator[Callable[..., Pair]]:
    """Makes as many worlds as a test wants."""
    made: list[Pair] = []

    def make(keys: tuple[bytes, ...] | None = None) -> Pair:
        made.append(Pair(keys))
        made[-1].start()
        return made[-1]

    yield make
    for pair in made:
        pair.close()


@pytest.fixture
def pair(pairs: Callable[[], Pair]) -> Pair:
    return pairs()


@pytest.mark.slow
def test_a_process_that_dies_before_an_effect_has_done_just_those_before_it(pairs: Callable[[], Pair]) -> None:
    """Each effect of an exchange in turn: records, datagrams and every call that changes the disk."""

    def lived(left: int) -> Pair:
        pair = pairs()
        pair.a.reached.clear()
        pair.a.effects.left = left
        pair.a.send(3)
        pair.world.run(2 * SECOND)
        return pair

    whole = [what for what in lived(-1).a.reached if what != "begins a commit"]
    assert {type(what) for what in whole} == {str, bytes}
    assert len(whole) > 20
    for left in range(len(whole)):
        crashed = lived(left)
        assert crashed.a.engine is None
        assert [what for what in crashed.a.reached if what != "begins a commit"] == whole[:left], left


def test_records_are_written_at_their_time(pairs: Callable[..., Pair]) -> None:
    """Of a message that is safe once it is, of a packet before its datagram leaves. Without keys one sees which."""
    pair = pairs(())
    pair.a.reached.clear()
    pair.a.send(1)
    pair.world.run(SECOND)

    def first(holds: Callable[[bytes], bool]) -> int:
        return next(at for at, what in enumerate(pair.a.reached) if isinstance(what, bytes) and holds(what))

    assert pair.a.reached.index("begins a commit") < first(lambda what: b'"event":"queued"' in what)
    told = first(lambda what: b'"event":"packet_sent"' in what)
    assert told < first(lambda what: b"body 0" in what and not what.startswith(b"{"))


def test_what_is_sent_arrives_and_its_acknowledgements_come_back(pair: Pair) -> None:
    known = pair.a.send(10, Stage.ORDERED)
    pair.world.run(5 * SECOND)
    assert known == [None]
    assert pair.b.mailbox.length == 10


# ---- keys


def test_nodes_have_keys_unless_the_scene_says_otherwise(pairs: Callable[..., Pair]) -> None:
    for keys, is_read in ((None, False), ((), True)):
        pair = pairs(keys)
        pair.a.send(1)
        pair.world.run(SECOND)
        datagrams = [what for what in pair.a.reached if isinstance(what, bytes) and what[:1] != b"{"]
        assert any(b"body 0" in datagram for datagram in datagrams) == is_read
        assert pair.b.mailbox.length == 1
        assert bool(pair.a.live.outbox.links.get("b")) != is_read


def test_a_peer_that_is_forgotten_is_cut_off_until_it_is_known_again(pair: Pair) -> None:
    pair.a.send(1)
    pair.world.run(SECOND)
    pair.b.forget("a")
    pair.a.send(1)
    pair.world.run(5 * SECOND)
    assert pair.b.mailbox.length == 1
    pair.b.know(pair.a.peer)
    pair.world.run(5 * SECOND)
    assert pair.b.mailbox.length == 2


def test_a_node_may_have_other_keys(pair: Pair) -> None:
    """Old and new are both good for a while; a peer that has only the old one is a stranger afterwards."""
    new = draw_key(pair.world, "another")
    pair.a.identity.use_keys((new, *pair.a.identity.keys))
    pair.b.know(pair.a.peer)
    pair.a.identity.use_keys((new,))
    pair.b.know(pair.a.peer)
    pair.a.send(1)
    pair.world.run(SECOND)
    assert pair.b.mailbox.length == 1
    pair.a.end()
    pair.a.identity.use_keys((draw_key(pair.world, "a"),))
    pair.a.start()
    pair.a.send(1)
    pair.world.run(5 * SECOND)
    assert pair.b.mailbox.length == 1


def test_who_has_anothers_keys_is_not_made_known(pair: Pair) -> None:
    """A process on a copy of a node's data is that node for everyone, not another peer."""
    clone = Watched(pair.world, pair.network, "a2", pair.a.identity.keys)
    clone.start()
    assert [peer.name for peer in pair.b.directory] == ["a"]
    clone.disk.close()


# ---- time


def test_a_job_takes_the_time_of_the_disk(pair: Pair) -> None:
    """And it is done at the end of it, not at its beginning."""
    pair.a.commit_ns = 100 * MS
    known = pair.a.send(1, Stage.QUEUED)
    before = pair.a.disk.calls
    assert pair.a.job is not None
    pair.world.run(99 * MS)
    assert (known, pair.a.disk.calls) == ([], before)
    pair.world.run(MS)
    assert known == [None]
    assert pair.a.disk.calls > before


def test_the_engine_hears_of_a_store_that_fails(pair: Pair) -> None:
    """Waiters hear of it, and so does the host."""
    known = pair.a.send(1, Stage.QUEUED)
    pair.a.disk.fail_later("write", 0, forever=True)
    pair.world.run(SECOND)
    assert isinstance(pair.a.live.failure, StoreFailed)
    assert pair.a.failed == [pair.a.live.failure]
    assert len(known) == 1
    assert known[0] is not None


def test_what_was_committed_outlives_a_kill_and_a_loss_of_power(pair: Pair) -> None:
    """A new process with a log of its own finds it, and goes on; nothing of the old one happens any more."""
    pair.network.cut(A, B)
    pair.a.send(5)
    pair.world.run(SECOND)
    pair.a.later(SECOND, lambda: pytest.fail("a dead process does something"))
    pair.a.end()
    pair.a.send(1)
    pair.a.start()
    pair.world.run(2 * SECOND)
    pair.a.end(pair.a.disk.lose_power)
    pair.a.start()
    pair.network.heal()
    pair.world.run(10 * SECOND)
    assert pair.b.mailbox.length == 5
    assert (pair.a.lives, [log[0] for log in pair.a.events]) == (3, ["node_started"] * 3)


def test_what_comes_for_nobody_is_lost(pair: Pair) -> None:
    """A host without a process has no address."""
    pair.b.end()
    pair.a.send(1)
    pair.world.run(SECOND)
    assert pair.network.counts["arrived"] == 0
    assert pair.network.counts["unreachable"] > 0


def test_timers_run_out_when_they_are_due_or_a_little_later(pairs: Callable[[], Pair]) -> None:
    """Nothing but a timer sends again what is lost, and with slack it does so later."""
    sent = []
    for slack_ns in (0, SECOND):
        pair = pairs()
        pair.network.cut(A, B)
        pair.a.timer_slack_ns = slack_ns
        pair.a.send(1)
        times: list[int] = []
        pair.network.tap = lambda _data, _from, _to, times=times, pair=pair: times.append(pair.world.now_ns)
        pair.world.run(5 * SECOND)
        sent.append(times)
    assert len(sent[0]) > 2
    assert sent[1][0] - sent[0][0] > 0 or sent[1][1] - sent[0][1] > 10 * MS


def test_the_operator_hears_of_a_store_that_is_an_older_copy(pair: Pair) -> None:
    """By the one whose messages are gone, or by the other."""
    copy = pair.a.disk.snapshot()
    pair.a.send(3)
    pair.world.run(5 * SECOND)
    pair.a.end(lambda: pair.a.disk.restore(copy))
    pair.a.start()
    pair.a.send(1)
    pair.world.run(10 * SECOND)
    assert [type(told) for told in pair.a.told + pair.b.told] == [RollbackDetected] * 2


def test_a_store_that_is_no_store_is_damaged(pair: Pair) -> None:
    """The process does not start, and nobody listens."""
    pair.a.end()
    for path, content in pair.a.disk.files().items():
        pair.a.disk.damage(path, 0, b"no store" * (len(content) // 8))
    with pytest.raises(StoreDamaged):
        pair.a.start()
    assert pair.a.engine is None
    assert str(FOLDER) in next(iter(pair.a.disk.files()))
    pair.a.send(1)
    assert pair.a.reached


def test_the_same_seed_does_the_same(pairs: Callable[[], Pair]) -> None:
    """Byte for byte, on the disk too."""
    ends = []
    for count in (5, 5, 6):
        pair = pairs()
        pair.a.send(count)
        pair.world.run(SECOND)
        ends.append((pair.world.trace, pair.a.disk.fingerprint(), pair.b.disk.fingerprint()))
    assert ends[0] == ends[1] != ends[2]


def test_what_arrives_within_a_while_is_taken_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order in which it came, by sender; a lost path comes behind it, and a process that dies takes nothing."""
    world = World(1)
    host = SimHost(world, Network(world), "a", A)
    taken: list[object] = []

    def take(_self: Engine, burst: list[bytes], sender: str, now_ns: int) -> None:
        taken.append((burst, sender, now_ns))

    monkeypatch.setattr(Engine, "handle_datagrams", take)
    monkeypatch.setattr(Engine, "handle_path_lost", lambda _self, address, _now_ns: taken.append(address))
    host.burst_ns = MS
    host.start()
    begun_ns = world.now_ns
    for data, sender in ((b"1", B), (b"2", B), (b"3", A)):
        host.receive(data, sender)
    world.run(2 * MS)
    assert taken == [([b"1", b"2"], B, begun_ns + MS), ([b"3"], A, begun_ns + MS)]
    taken.clear()
    host.receive(b"4", B)
    host.lose_path(B)
    assert taken == [([b"4"], B, begun_ns + 2 * MS), B]
    taken.clear()
    host.receive(b"5", B)
    host.end()
    host.receive(b"6", B)
    host.start()
    world.run(2 * MS)
    assert taken == []
