"""The search of all states of small worlds: its runs, its scopes, fair courses."""

from dataclasses import replace

import pytest

from proof.planted.catalogue import bug_named
from proof.planted.worlds import PLAIN, RECEIVER_DIES, RECOVERABLE
from proof.search import stillness
from proof.search.chain import CHAIN_SCOPES, ChainRun, ChainScope, Course, search_chain
from proof.search.datagrams import Datagram, Datagrams
from proof.search.fair import run_fair
from proof.search.host import Host
from proof.search.identity import digest, freeze, thaw
from proof.search.inside import WAITS_NS
from proof.search.relay import RELAY_SCOPES
from proof.search.run import run_all
from proof.search.scope import Part, Scope
from proof.search.scopes import SCOPES
from proof.search.search import Search
from proof.search.trace import retrace
from proof.search.witness import Violation
from tests.proof.search.hosts import DELIVER, opened, started
from tests.session.pair import Pair, cut, reasons
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.ordering.incoming import IncomingSequence
from triack.ordering.outgoing import OutgoingSequence
from triack.queues.transit.relay_acks import RelayAcks
from triack.session.protocol.frames import PacketFrame, StoreAckFrame
from triack.session.protocol.states import CloseReason, SessionState
from triack.session.protocol.timers import Timer

# The search itself: what it leaves out hides nothing, and its traces can be read.

FIRST = "[session ack to 0, packet 1: number 1 after 0 of sequence 1, a1]"


def reached(search: Search) -> set[tuple[bytes, bytes]]:
    """Which states of one node were met together with which of the other."""
    first, second = ([digest(thaw(node.frozen)) for node in nodes.known] for nodes in search.nodes)
    return {(first[pair & 0xFFFFFF], second[pair >> 24]) for pair in search.pairs}


@pytest.mark.slow
def test_what_is_left_out_hides_nothing() -> None:
    """With and without, the nodes come into the same states together; without, there are far more networks."""
    pruned, whole = Search(PLAIN), Search(PLAIN, prune=False)
    few, many = pruned.run(200_000), whole.run(200_000)
    assert few.complete
    assert many.complete
    assert 2 * few.states < many.states
    assert reached(pruned) == reached(whole)


@pytest.mark.plain
def test_a_trace_tells_a_story(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line a step: who does what, what it sends, and at last what is wrong."""
    bug_named("the order ack speaks of what is not yet committed").plant(monkeypatch)
    result = Search(PLAIN).run(1_000)
    assert [line.replace("DATA of session a01 ", "") for line in result.trace] == [
        "a starts and sends CONNECT of session a01",
        "b starts and sends nothing",
        "b gets CONNECT of session a01, and sends ACCEPT of session a01",
        f"a gets ACCEPT of session a01, and sends {FIRST}; [packet 2: number 2 after 1 of sequence 1, a2]",
        f"b gets {FIRST}, and sends [session ack to 1]",
        "b: timer idle of order ack 1 runs out: order ack to 1 left, and number 1 is not on disk",
    ]
    assert result.violation == "order ack to 1 left, and number 1 is not on disk"


@pytest.mark.parametrize(
    ("limit", "last"), [(1_000, "a1]: RuntimeError: planted"), (1, "from here on nothing is lost")]
)
@pytest.mark.plain
def test_an_engine_that_fails_is_found_in_the_search_and_when_the_faults_stop(
    monkeypatch: pytest.MonkeyPatch, limit: int, last: str
) -> None:
    """Whatever it raises is reported with the steps that lead there."""

    def fail(*_: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(IncomingSequence, "_judge", fail)
    result = Search(PLAIN).run(limit, fair_runs=1)
    assert result.violation == "RuntimeError: planted"
    assert result.trace[-1].endswith(last)


# The exhaustive search: nothing is found where nothing is wrong, and every planted bug with the steps to it.

STATES, FAIR_RUNS = 100, 20


@pytest.mark.slow
@pytest.mark.parametrize("scope", SCOPES, ids=lambda scope: scope.name)
def test_no_promise_breaks_in_the_first_states_of_every_scope(scope: Scope) -> None:
    """A hundred of each, and a fair end from states spread over them; ``make exhaustive`` goes on."""
    result = Search(scope).run(STATES, fair_runs=FAIR_RUNS)
    assert (result.scope, result.violation) == (scope.name, None)
    assert result.states >= STATES or result.complete
    assert result.fair_runs > 10


@pytest.mark.slow
def test_all_scopes_are_searched_and_told_of() -> None:
    """In the order of the list, whichever process is done first."""
    said: list[str] = []
    results = run_all(10, said.append, jobs=2)
    names = [scope.name for scope in (*SCOPES, *RELAY_SCOPES, *CHAIN_SCOPES)]
    assert [result.scope for result in results] == names
    assert [line.partition(":")[0] for line in said] == names
    assert {result.violation for result in results} == {None}


@pytest.mark.slow
def test_a_whole_world_is_searched_to_its_end() -> None:
    """A message, and its receiver dies: every order of events, with and without each datagram."""
    result = Search(RECOVERABLE).run(100_000, fair_runs=10)
    assert (result.complete, result.violation) == (True, None)
    assert result.states > 1_000


# The worlds that are searched: each is another one, and small enough.


def test_names_and_stories_tell_scopes_apart() -> None:
    """A result names its scope, so no two share a name, and no two are the same world."""
    assert len({scope.name for scope in SCOPES}) == len({scope.story for scope in SCOPES}) == len(SCOPES)
    worlds = {(scope.parts, scope.still, scope.window, scope.history, scope.echoes) for scope in SCOPES}
    assert len(worlds) == len(SCOPES)


def test_together_they_have_all_that_can_befall_a_node() -> None:
    """Every class, and death, orderly end, a lost path, reading and both sides connecting."""
    parts = [part for scope in SCOPES for part in scope.parts]
    assert {part.delivery for part in parts} == set(Delivery)
    for what in ("crashes", "stops", "breaks", "reads", "sends", "ready", "patience"):
        assert any(getattr(part, what) for part in parts), what
    assert any(all(part.ready + part.sends for part in scope.parts) for scope in SCOPES)


# Whole nodes in a line, with faults at every moment of the course of three messages.


@pytest.mark.slow
@pytest.mark.parametrize("scope", CHAIN_SCOPES, ids=lambda scope: scope.name)
def test_no_pair_of_faults_breaks_a_promise(scope: ChainScope) -> None:
    """One pair in each four hundred; ``make exhaustive`` has all."""
    result = search_chain(scope, 300, every=400)
    assert (result.violation, result.trace) == (None, ())
    assert result.states > 10


@pytest.mark.gate
def test_deaths_that_count_as_one_end_in_the_same_way() -> None:
    """What all three nodes record after them is the same, byte for byte; but a store in the making draws other ids."""
    calm = run(Course())
    by_state: dict[object, list[int]] = {}
    for effect, (sent, left) in enumerate(calm.nodes["r"].states, 1):
        if sent:
            by_state.setdefault(left, []).append(effect)
    same = [effects for effects in by_state.values() if len(effects) > 1]
    assert len(same) >= 2
    for effects in same:
        first, last = (run(Course(effect)) for effect in (effects[0], effects[-1]))
        assert [node.records for node in first.nodes.values()] == [node.records for node in last.nodes.values()]


def run(course: Course) -> ChainRun:
    made = ChainRun(CHAIN_SCOPES[0], course)
    assert made.end() == ""
    made.close()
    return made


def test_without_faults_all_ends_well() -> None:
    result = search_chain(CHAIN_SCOPES[0], 0)
    assert (result.states, result.violation) == (1, None)
    assert min(result.node_states) > 10


@pytest.mark.slow
def test_a_relay_that_tells_nobody_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over a synchronous link its neighbour would keep everything for good."""
    monkeypatch.setattr(RelayAcks, "handle_passed", lambda *_: None)
    found = search_chain(CHAIN_SCOPES[2], 1)
    assert found.violation == "it does not end"


def test_a_course_is_told_in_a_sentence() -> None:
    assert str(Course()) == "the relay lives"
    assert str(Course(7, 3, again=True)) == "the relay dies before effect 7, datagram 3 comes again"
    assert str(Course(0, 3)) == "the relay lives, datagram 3 is lost"


# The future of a state when the faults stop: all is well in the end, or the result says what is not.


def fair(*hosts: Host) -> str | None:
    for host in hosts:
        host.settle()
    return run_fair([freeze(host) for host in hosts])


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.plain
def test_a_crash_in_the_middle_ends_well(applied: bool) -> None:
    first, second, (packet,) = opened(RECEIVER_DIES)
    second.act(DELIVER, packet)
    assert second.job is not None
    second.act(("crash", applied))
    assert fair(first, second) is None


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.plain
def test_a_node_that_closes_comes_back(side: int) -> None:
    """Closing ends in time, and the next life finishes the work."""
    scope = replace(PLAIN, parts=(Part(ready=1, sessions=2, stops=1), Part(sessions=2, stops=1)))
    hosts = opened(scope)[:2]
    hosts[side].act(("drain", None))
    assert fair(*hosts) is None


@pytest.mark.plain
def test_what_is_never_said_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, _ = opened(RECEIVER_DIES)
    second.act(("crash", False))
    assert fair(first, second) is None
    monkeypatch.setattr(OutgoingSequence, "handle_session_closed", lambda self, **_: None)
    assert fair(first, second) == "a still waits for acknowledgements"


@pytest.mark.slow
def test_an_application_that_reads_has_read_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the result says which application missed what."""
    scope = replace(PLAIN, parts=(Part(ready=1), Part(reads=True)))
    first, second, _ = started(scope)
    assert fair(first, second) is None
    monkeypatch.setattr(Host, "_do_read", lambda self, _: None)
    assert fair(*started(scope)[:2]) == "the application of b has read [] of [b'a1']"


# A path of a search as a story: who does what, in words.

TRACED = replace(
    PLAIN,
    parts=(
        Part(sends=2, crashes=2, stops=1, breaks=1, sessions=9, patience=1),
        Part(reads=True, crashes=1, sessions=9),
    ),
    still=frozenset({"CLEANUP"}),
)


class Story:
    """Steps as a search notes them: the side in bit 0, whether it is a datagram in bit 1, and which in the rest."""

    def __init__(self) -> None:
        self.datagrams = Datagrams()
        self.hosts = [Host(TRACED, 0), Host(TRACED, 1)]
        self.sent: list[Datagram] = [sent for host in self.hosts for sent in host.begin()]
        self.ways: list[int] = []

    def act(self, side: int, name: str, what: object = None) -> None:
        """Something happens to a node."""
        host = self.hosts[side]
        (action,) = (it for it in host.choices() if it[0] == name and (what is None or str(what) in str(it[1])))
        self.ways.append(side | host.choices().index(action) << 2)
        self.sent += host.act(action)
        host.settle()

    def hear(self, side: int) -> None:
        """A node gets the oldest datagram for it that nobody got."""
        datagram = next(it for it in self.sent if it.to == side)
        self.sent.remove(datagram)
        self.ways.append(side | 2 | self.datagrams.number(datagram) << 2)
        self.sent += self.hosts[side].act(("deliver", None), datagram)
        self.hosts[side].settle()

    def told(self) -> list[str]:
        """The lines after the two beginnings."""
        lines = retrace(TRACED, self.datagrams, self.ways)
        assert lines[:2] == ["a starts and sends nothing", "b starts and sends nothing"]
        return lines[2:]


def test_a_message_on_its_way() -> None:
    """Submitted, on the disk, connected, taken, on the disk, read."""
    story = Story()
    story.act(0, "submit")
    story.act(0, "disk")
    for side in (1, 0, 1):
        story.hear(side)
    story.act(1, "disk")
    story.act(1, "read")
    assert [line.partition(", and sends ")[0] for line in story.told()] == [
        "a: the application sends message a1",
        "a: the commit in hand is on disk",
        "b gets CONNECT of session a01",
        "a gets ACCEPT of session a01",
        "b gets DATA of session a01 [session ack to 0, packet 1: number 1 after 0 of sequence 1, a1]",
        "b: the commit in hand is on disk",
        "b: the application takes a message",
    ]
    assert story.told()[1].endswith(", and sends CONNECT of session a01")


def test_everything_that_goes_wrong_has_words() -> None:
    """Kills with and without a commit in hand, a lost path, a timer, an orderly end."""
    story = Story()
    story.act(0, "crash")
    story.act(0, "submit")
    story.act(0, "crash", what=True)
    story.act(0, "timer", what="CONNECT_RESEND")
    story.act(0, "break")
    story.act(0, "drain")
    story.act(0, "stop")
    lines = [line.partition(", and sends ")[0] for line in story.told()]
    killed = "a is killed and starts again"
    assert [lines[0], lines[2]] == [killed, f"{killed}; the commit in hand is on disk"]
    assert lines[3].startswith("a: timer CONNECT_RESEND of session ")
    assert lines[3].endswith(" runs out")
    assert lines[4:] == ["a: the path is lost", "a begins to close", "a ends, and starts again"]


# The witness by itself: what it refuses although no planted bug of the search leads there first.


def packet(datagram: Datagram) -> PacketFrame:
    (found,) = (frame for frame in datagram.frames if isinstance(frame, PacketFrame))
    return found


def test_a_packet_of_another_session_is_not_to_be_taken() -> None:
    _, second, (datagram, _) = opened(PLAIN)
    with pytest.raises(Violation, match="session a01 took a packet of session bad"):
        second.act(("deliver", None), replace(datagram, session=0xBAD))


def test_nothing_leaves_for_a_connection_without_a_session() -> None:
    first, _, (datagram, _) = opened(PLAIN)
    with pytest.raises(Violation, match="a datagram leaves for connection bad, which no session has"):
        first.witness.note_sending(replace(datagram, connection=0xBAD))


def test_a_packet_never_changes() -> None:
    """A resend is equal to the original, and the sentence says what both are, even when one says nothing."""
    first, _, datagrams = opened(PLAIN)
    one, two = map(packet, datagrams)
    for content, now in ((two.content, "number 2 after 1 of sequence 1, a2"), (b"\xff", "unreadable")):
        other = replace(datagrams[0], frames=[replace(one, content=content)])
        with pytest.raises(Violation) as caught:
            first.witness.note_sending(other)
        was = "packet 1 of session a01 was number 1 after 0 of sequence 1, a1"
        assert str(caught.value) == f"{was}, and is now {now}"


def test_what_never_arrived_is_not_stored() -> None:
    _, second, datagrams = opened(PLAIN)
    (ack,) = second.act(("deliver", None), datagrams[0])
    with pytest.raises(Violation, match="store ack of packet 2, which never arrived in session a01"):
        second.witness.note_sending(replace(ack, frames=[StoreAckFrame(0, [(2, 2)])]))


# Time for one timer of a machine whose clock stands still, and a form to compare a session in.


def busy() -> Pair:
    """A pair whose initiator waits for acks that do not come."""
    pair = Pair.opened(udp=False, store_ns=None)
    pair.confirm()
    pair.send("a", 1, Delivery.RECOVERABLE)
    pair.run(100 * MS)
    cut(pair)
    pair.send("a", 2)
    return pair


@pytest.mark.parametrize(
    ("timer", "reason"),
    [(Timer.ACK_LIMIT, CloseReason.ACK_TIMEOUT), (Timer.STORE_ACK_LIMIT, CloseReason.STORE_ACK_TIMEOUT)],
)
def test_a_timer_runs_out_when_the_search_says_so(timer: Timer, reason: CloseReason) -> None:
    pair = busy()
    stillness.expire_session(pair.a, timer, pair.now_ns)
    pair.a.handle_timer(pair.now_ns)
    pair.drain()
    assert reasons(pair) == [reason]


def test_what_a_timer_looks_back_to_was_long_ago() -> None:
    """The cleanup timer asks when the last packet was; after a refresh it was just now."""
    pair = Pair.opened()
    pair.a.handle_timer(pair.now_ns)
    stillness.expire_session(pair.a, Timer.CLEANUP, pair.now_ns)
    stillness.refresh_session(pair.a, pair.now_ns)
    pair.a.handle_timer(pair.now_ns)
    assert pair.a.state is SessionState.OPEN
    stillness.expire_session(pair.a, Timer.CLEANUP, pair.now_ns)
    pair.a.handle_timer(pair.now_ns)
    pair.drain()
    assert reasons(pair) == [CloseReason.IDLE]


def settled(probes: int) -> bytes:
    """A busy session that has probed so often, in the form in which a search compares it."""
    pair = busy()
    for _ in range(probes):
        stillness.expire_session(pair.a, Timer.PROBE, pair.now_ns)
        pair.a.handle_timer(pair.now_ns)
        pair.drain()
    stillness.refresh_session(pair.a, SECOND)
    stillness.normalize_session(pair.a, WAITS_NS, 3, SECOND)
    stillness.forget_order(pair.a)
    assert pair.a.next_deadline() == SECOND + WAITS_NS[Timer.PROBE]
    assert pair.a.room == 61
    return digest(pair.a)


@pytest.mark.plain
def test_sessions_that_would_do_the_same_are_the_same() -> None:
    """However often they have probed; but whether a packet was sent again is kept."""
    assert settled(2) == settled(5)
    assert settled(0) != settled(2)
