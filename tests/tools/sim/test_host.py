"""A simulated machine: its engine, its nonces, its residents."""

from collections.abc import Callable, Iterator
from typing import cast

import pytest

from tests.queues.relays import line, post
from tests.queues.world import SimNode, numbered
from triack.base.commit import Commit
from triack.base.delivery import Delivery
from triack.base.errors import NodeClosed, RollbackDetected, StoreFailed
from triack.base.news import PeerSilent
from triack.base.units import MS, SECOND
from triack.queues.fetching import Fetch
from triack.queues.mailboxes.mailbox import Mailbox
from triack.queues.manager.effects import Effect, Job, Send, StartJob, Tell, TellRollback, WriteRecords
from triack.queues.manager.engine import Engine
from triack.queues.messages import LargeMessage
from triack.queues.node_settings import LargeBodies, Limits, NodeSettings, Quota
from triack.queues.stages import Stage
from triack.queues.streams.outgoing_stream import OutgoingStream
from triack.queues.streams.transit_stream import TransitStream
from triack.tools.replay.log.files import parse_records
from triack.tools.sim.bodies import BodySender, read_body
from triack.tools.sim.disk import ProcessCrashed
from triack.tools.sim.faults import Faults
from triack.tools.sim.host import EngineHost, SimHost
from triack.tools.sim.network import Network
from triack.tools.sim.nonces import Nonces
from triack.tools.sim.standstill import STILL_NS, Standstill
from triack.tools.sim.world import START_NS, Livelock, World
from triack.transport.noise import next_key

# A host does the effects of its engine, in the engine's order; a crash before an effect does nothing of it.
A, B = "udp://a:1", "udp://b:1"


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


JOB = Fetch("messages", [1], take=print)
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


class Watched(SimHost):
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
        return self.live.queues.mailboxes["q"]

    @property
    def events(self) -> list[list[str]]:
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


@pytest.mark.parametrize(("keys", "is_read"), [(None, False), ((), True)])
def test_nodes_have_keys_by_default(pairs: Callable[..., Pair], keys: tuple[bytes, ...] | None, is_read: bool) -> None:
    pair = pairs(keys)
    pair.a.send(1)
    pair.world.run(SECOND)
    datagrams = [what for what in pair.a.reached if isinstance(what, bytes) and what[:1] != b"{"]
    assert any(b"body 0" in datagram for datagram in datagrams) == is_read
    assert pair.b.mailbox.length == 1
    assert bool(pair.a.live.outbox.links.get("b")) != is_read


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


# Virtual time and chance: events in order, streams of chance apart from each other, a trace that tells runs apart.
def test_events_happen_in_order_and_those_of_one_instant_as_planned() -> None:
    world, said = World(1), []
    for delay_ns, name in ((20, "c"), (10, "a"), (10, "b"), (50, "never"), (-5, "at once")):
        world.at(delay_ns, lambda name=name: said.append((world.now_ns - START_NS, name)))  # type: ignore[misc]
    world.run(30)
    assert said == [(0, "at once"), (10, "a"), (10, "b"), (20, "c")]
    assert world.now_ns == START_NS + 30


def test_a_cancelled_event_does_not_happen_and_takes_no_time() -> None:
    """However many of them there are, and whichever call looks for the next one."""
    world, said = World(1), []
    numbers = [world.at(number, lambda number=number: said.append(number)) for number in range(3_000)]  # type: ignore[misc]
    for number in numbers[:2_999]:
        world.cancel(number)
    assert world.next_event_ns() == START_NS + 2_999
    world.step()
    assert (said, world.events, world.next_event_ns()) == ([2_999], 1, None)


def test_each_concern_has_its_own_chance() -> None:
    """The same seed and name give the same numbers, whatever others drew before."""
    numbers = World(7).chance("network").random()
    busy = World(7)
    busy.chance("disk").random()
    assert busy.chance("network").random() == numbers
    assert World(7).chance("disk").random() != numbers
    assert World(8).chance("network").random() != numbers


def test_a_world_has_a_limited_number_of_events() -> None:
    """Work that goes on without getting anywhere would not end."""
    world = World(1)
    world.events_max = 3

    def again() -> None:
        world.at(0, again)

    again()
    with pytest.raises(Livelock):
        world.run(1)
    assert world.events == 3


# Nonces: each use of one twice is seen, and nothing else is.
KEY, OTHER = bytes(32), bytes(31) + b"k"


def test_a_nonce_is_one_only_with_its_key() -> None:
    """The same number under another key is another; opening uses up nothing, and both ends make the next key."""
    nonces = Nonces()
    suite = nonces.suite
    cipher, other = suite.aead(KEY), suite.aead(OTHER)
    sealed = [cipher.encrypt(suite.nonce(number), b"x", b"") for number in range(3)]
    other.encrypt(suite.nonce(1), b"x", b"")
    for _ in range(2):
        assert cipher.decrypt(suite.nonce(1), sealed[1], b"") == b"x"
    assert next_key(suite, KEY) == next_key(suite, KEY)
    assert nonces.repeated == 0
    suite.aead(KEY).encrypt(suite.nonce(1), b"y", b"")
    assert nonces.repeated == 1


# Streams that stand still are found.
NO_ROOM, NO_TURN = "waits for room, and nothing on its way makes any", "has something to send, and no turn"


def waiting(via: str) -> tuple[SimNode, OutgoingStream | TransitStream]:
    """A node of a line of three, and its stream: two packets wait there, as they may not leave."""
    net = line("arb", settings={"a": NodeSettings(messages_per_packet=1)})
    node = net[via]
    post(net["a"], "b", b"before", delivery=Delivery.RECOVERABLE)
    assert net.world.run(5 * SECOND, lambda: net.is_done("a"))
    (stream,) = node.live.outbox.streams if via == "a" else node.live.transits.streams
    stream.sequence.start.credit = 0
    if via == "r":
        net["a"].live.outbox.streams[0].sequence.start.credit = None
    post(net["a"], "b", *numbered(0, 2), delivery=Delivery.RECOVERABLE)
    net.world.run(100 * MS)
    return node, stream


@pytest.mark.parametrize("via", ["a", "r"])
@pytest.mark.parametrize("reason", [NO_ROOM, NO_TURN])
def test_a_stream_that_stands_still_is_told_of_once(via: str, reason: str) -> None:
    """As soon as something happens at its node: it has stood still until then, even if that moves it."""
    node, stream = waiting(via)
    if reason == NO_TURN:
        stream.sequence.start.credit = None
    assert stream.way is not None
    node.live.outbox.links[stream.way.via].turns.withdraw(stream)
    standstill = Standstill()
    standstill.look_at(via, node.live, 0)
    standstill.look_at(via, node.live, STILL_NS - 1)
    assert standstill.violations == []
    for _ in range(2):
        standstill.look_at(via, node.live, STILL_NS)
    assert [(rule, sentence.partition(" 1 ")[2]) for rule, sentence in standstill.violations] == [
        ("standstill", f"{'in transit ' * (via == 'r')}{reason}, for 2.0 s")
    ]


def test_what_a_process_leaves_behind_does_not_stand_still() -> None:
    node, _ = waiting("a")
    standstill = Standstill()
    standstill.look_at("a", node.live, 0)
    standstill.forget("a")
    standstill.look_at("a", node.live, STILL_NS)
    assert standstill.violations == []


@pytest.mark.parametrize("via", ["a", "r"])
def test_a_stream_that_waits_for_an_ack_of_what_has_left_does_not_stand_still(via: str) -> None:
    node, stream = waiting(via)
    stream.sequence.start.credit = 1
    stream.sequence.handle_sent(stream.sequence.peek_run(1), 0, packet=99)  # type: ignore[arg-type]
    assert stream.sequence.start.credit == 0
    standstill = Standstill()
    for at_ns in (0, STILL_NS):
        standstill.look_at(via, node.live, at_ns)
    assert standstill.violations == []


# Large bodies between simulated hosts: whole, given up, refused, and ended with their process.
BODY = bytes(range(250)) * 20
SECONDS = 10**9


class Ends:
    """A sender and a receiver of one body."""

    def __init__(self, quota: Quota | None = None, max_streams: int = 10) -> None:
        self.world = World(1)
        network = Network(self.world)
        limits = Limits(queue_quota={"q": quota} if quota else {})
        settings = NodeSettings(large=LargeBodies(1, 700, 1_400), limits=limits, max_streams=max_streams)
        self.a = SimHost(self.world, network, "a", "udp://a:1", settings=settings)
        self.b = SimHost(self.world, network, "b", "udp://b:1", settings=settings)
        self.a.start()
        self.b.start()
        self.whole: list[int] = []
        self.refused: list[str] = []
        self.upload = BodySender(self.a, "b", "q", BODY, self.whole.append, self.refused.append)

    def send(self, for_ns: int = SECONDS) -> None:
        self.a.act(self.upload.go_on)
        self.world.run(for_ns)

    def finish(self) -> None:

        def submit() -> None:
            stream = self.a.live.outgoing_stream("b", "q", Delivery.TRANSACTIONAL)
            message = LargeMessage(len(BODY).to_bytes(8), ordinal=self.upload.ordinal)
            self.a.live.submit(stream, message, 72)
            self.upload.finished()

        self.a.act(submit)
        self.world.run(SECONDS)

    @property
    def bodies(self) -> int:
        return len(self.b.live.queues.bodies.by_id)


def test_a_body_arrives_before_its_message_and_is_read_part_by_part() -> None:
    ends = Ends()
    ends.send()
    assert (ends.whole, ends.refused, ends.upload.is_under_way) == ([ends.upload.ordinal], [], True)
    ends.finish()
    assert not ends.upload.is_under_way
    got: list[bytes | None] = []

    def read() -> None:
        mailbox = ends.b.live.make_queue("q")
        lease = ends.b.live.take(mailbox, ends.world.now_ns)
        assert lease is not None

        def done(body: bytes | None) -> None:
            got.append(body)
            mailbox.acknowledge(lease)

        read_body(ends.b, lease, 1, done)
        read_body(ends.b, lease, SECONDS, got.append)  # its message is acknowledged meanwhile

    ends.b.act(read)
    ends.world.run(9 * SECONDS)
    assert got == [BODY, None]
    assert ends.bodies == 0


@pytest.mark.parametrize("how", ["given up", "killed"])
def test_a_body_that_goes_no_further_is_freed(how: str) -> None:
    ends = Ends()
    ends.send(1)
    while not ends.bodies:
        ends.world.run(100_000)
    assert not ends.whole
    if how == "killed":
        ends.a.end()
        assert not ends.upload.is_under_way
        ends.a.start()
    else:
        ends.a.act(ends.upload.give_up)
    ends.world.run(20 * SECONDS)
    assert (ends.bodies, ends.whole, ends.upload.is_under_way) == (0, [], False)


def test_a_body_without_a_place_is_refused() -> None:
    ends = Ends(Quota(size_bytes=4_000))
    ends.send()
    assert (ends.refused, ends.whole, ends.bodies) == (["too-large"], [], 0)


def test_a_body_for_a_queue_of_its_own_node() -> None:
    ends = Ends(Quota(size_bytes=6_000))
    ends.upload = BodySender(ends.b, "", "q", BODY, ends.whole.append, ends.refused.append)
    ends.b.act(ends.upload.go_on)
    ends.world.run(SECONDS)
    second = BodySender(ends.b, "", "q", BODY, ends.whole.append, ends.refused.append)
    ends.b.act(second.go_on)
    ends.world.run(SECONDS)
    assert (len(ends.whole), second.ordinal, ends.bodies) == (1, 0, 1)
    ends.b.act(ends.upload.give_up)
    ends.world.run(SECONDS)
    assert (ends.whole[1:], ends.bodies) == ([second.ordinal], 1)


def test_the_message_of_a_body_that_is_here_waits_for_no_place_of_a_stream() -> None:
    """The stream of the parts has the only one, and keeps it: the next body waits for the room of this one."""
    ends = Ends(Quota(size_bytes=len(BODY) + 1_000), max_streams=1)
    ends.send()
    after = BodySender(ends.a, "b", "q", BODY, ends.whole.append, ends.refused.append)
    ends.a.act(after.go_on)
    ends.finish()
    assert ends.world.run(60 * SECONDS, lambda: ends.b.live.queues.mailboxes["q"].length == 1)
