"""Links to peers: conversations, paths, turns, and how they are dialled."""

from dataclasses import replace
from itertools import count
from random import Random

import pytest

from proof.search import stillness
from tests.base.refusals import refuse_wrong_values
from tests.queues.hostile import make_connect
from tests.queues.relays import post
from tests.queues.world import PlainWorld, SimNode, World, two
from triack.base.delivery import Delivery
from triack.base.errors import ProtocolError, UsageError
from triack.base.peers import Peer
from triack.base.reasons import DropReason, Trouble
from triack.base.units import MS, SECOND
from triack.queues.node_settings import Reconnect
from triack.queues.peers import conversations
from triack.queues.peers.dialer import Dialer
from triack.queues.peers.introduction import Introduction
from triack.queues.peers.kept_connections import DropConnection, KeepConnection, KeptConnections
from triack.queues.peers.link import Link
from triack.queues.peers.origins import Brought, Origins
from triack.queues.peers.path import ANSWERS_MAX, CHALLENGE_BYTES, GIVE_UP_NS, REPEAT_NS, Paths, PathState
from triack.queues.peers.turns import QUEUE_TURN_PACKETS, Turns
from triack.session.protocol.states import CloseReason
from triack.stats.troubles import find_troubles

# The owners of conversations, and which one gives way when too many are begun.


def knock(world: World, node: SimNode, number: int, source: str) -> None:
    """A connect of a node that nobody knows, and that will say nothing more."""
    own = Introduction(number.to_bytes(16, "big"), "x", "", node.address)
    node.live.handle_datagram(make_connect(own, number), source, world.now_ns)
    node.drain()


def half_open(node: SimNode) -> list[int]:
    return [one.session.session_id for one in node.live.handshakes.conversations.values()]


@pytest.mark.gate
def test_one_source_has_few_that_are_not_open() -> None:
    world = PlainWorld(1)
    node = world.node("b")
    knock(world, node, 1, "udp://honest:1")
    for number in range(2, 102):
        knock(world, node, number, "udp://evil:1")
    limit = conversations.HALF_OPEN_OF_ONE_MAX
    assert half_open(node) == [1, *range(102 - limit, 102)]
    assert node.live.drops == {DropReason.HALF_OPEN_OVERFLOW: 100 - limit}


def test_there_are_not_many_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "HALF_OPEN_MAX", 20)
    world = PlainWorld(1)
    node = world.node("b")
    for number in range(1, 101):
        knock(world, node, number, f"udp://evil{number}:1")
    assert half_open(node) == list(range(81, 101))
    world.run(11 * SECOND)
    assert half_open(node) == []
    knock(world, node, 200, "udp://evil:1")
    assert half_open(node) == [200]


def test_those_of_a_path_are_found_there_and_where_they_moved_to() -> None:
    """A peer whose address changes takes its conversation along."""
    world, a, b = two(make=PlainWorld)
    a.send(b, "q", b"1")
    world.run(SECOND)
    (conversation,) = b.live.handshakes.conversations.values()
    assert b.live.handshakes.index.at(a.address) == [conversation]
    world.network.rebind(a.address)
    a.send(b, "q", b"2")
    world.run(SECOND)
    assert b.live.handshakes.index.at(a.address) == []
    assert b.live.handshakes.index.at(conversation.path) == [conversation]
    b.live.handle_path_lost(conversation.path, world.now_ns)
    b.drain()
    assert b.live.handshakes.index.at(conversation.path) == []
    assert b.live.handshakes.index.with_node(a.live.node_id) == []


# A table of moves, and what a candidate gets before it has answered.

HOME, NEW, THIRD = "udp://a:1", "udp://a:2", "udp://evil:1"
SIZE = 44
"""A challenge as a datagram."""


class Seen:
    """The paths of a conversation at ``HOME``, and a clock."""

    def __init__(self) -> None:
        self.paths = Paths()
        self.now_ns = 0
        self._draws = count(1)

    def come(self, sender: str, size_bytes: int = 100, *, newest: bool = True) -> None:
        self.paths.handle_datagram(HOME, sender, size_bytes, newest=newest, draw=self._draw, now_ns=self.now_ns)

    def _draw(self, size_bytes: int) -> bytes:
        return next(self._draws).to_bytes(size_bytes, "big")

    def ask(self, later_ns: int = 0) -> tuple[str, bytes] | None:
        self.now_ns += later_ns
        return self.paths.poll_challenge(SIZE, self.now_ns)


def question(number: int) -> bytes:
    return number.to_bytes(CHALLENGE_BYTES, "big")


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.mark.parametrize(("sender", "newest"), [(HOME, True), (NEW, False), ("tcp://a:1", True)])
def test_who_stays_where_it_is_is_asked_nothing(seen: Seen, sender: str, newest: bool) -> None:
    """An old datagram was under way, or somebody has kept it; another transport is another session."""
    seen.come(sender, newest=newest)
    assert (seen.ask(), seen.paths.next_deadline(), seen.paths.state) == (None, None, PathState.SETTLED)


def test_the_newest_from_elsewhere_is_asked_once_and_is_there_when_it_answers(seen: Seen) -> None:
    seen.come(NEW)
    assert (seen.ask(), seen.ask(), seen.paths.next_deadline()) == ((NEW, question(1)), None, REPEAT_NS)
    seen.paths.handle_response(question(1), NEW)
    assert (seen.paths.state, seen.paths.candidate, seen.paths.next_deadline()) == (PathState.SETTLED, "", None)


@pytest.mark.parametrize(
    ("answer", "sender"), [(question(1), HOME), (question(1), THIRD), (question(2), NEW), (b"", NEW)]
)
def test_no_other_answer_counts(seen: Seen, answer: bytes, sender: str) -> None:
    """Nor any when nothing was asked."""
    with pytest.raises(ProtocolError):
        seen.paths.handle_response(b"", "")
    seen.come(NEW)
    seen.ask()
    with pytest.raises(ProtocolError, match=DropReason.UNEXPECTED_RESPONSE):
        seen.paths.handle_response(answer, sender)
    assert seen.paths.candidate == NEW


def test_it_is_forgotten_when_the_peer_speaks_by_the_old_path(seen: Seen) -> None:
    """Somebody had sent its datagram on; an old one by the old path is no sign."""
    seen.come(THIRD)
    seen.come(HOME, newest=False)
    assert seen.paths.candidate == THIRD
    seen.ask()
    seen.come(HOME)
    with pytest.raises(ProtocolError):
        seen.paths.handle_response(question(1), THIRD)


def test_there_is_one_candidate_and_a_later_one_takes_its_place(seen: Seen) -> None:
    seen.come(NEW)
    seen.ask()
    seen.come(THIRD)
    assert seen.ask() == (THIRD, question(2))
    with pytest.raises(ProtocolError):
        seen.paths.handle_response(question(1), NEW)
    seen.come(NEW, newest=False)
    assert seen.paths.candidate == THIRD


def test_it_gets_three_times_what_came_from_it_and_no_more(seen: Seen) -> None:
    seen.come(NEW, SIZE)
    asked = [seen.ask(REPEAT_NS) for _ in range(8)]
    assert sum(challenge is not None for challenge in asked) == 3
    seen.come(NEW, SIZE // 2, newest=False)
    assert [seen.ask(MS), seen.ask(REPEAT_NS)] == [(NEW, question(1)), None]


def test_who_does_not_answer_is_given_up(seen: Seen) -> None:
    seen.come(NEW)
    seen.ask()
    seen.ask(GIVE_UP_NS)
    assert seen.paths.state is PathState.SETTLED
    seen.come(NEW)
    assert seen.ask() == (NEW, question(2))


def test_a_challenge_is_answered_to_where_it_came_from(seen: Seen) -> None:
    assert seen.paths.poll_answer() is None
    seen.paths.handle_challenge(question(1), HOME)
    seen.paths.handle_challenge(question(2), NEW)
    assert [seen.paths.poll_answer() for _ in range(3)] == [(HOME, question(1)), (NEW, question(2)), None]
    for number in range(ANSWERS_MAX + 1):
        seen.paths.handle_challenge(question(number), NEW)
    assert seen.paths.poll_answer() == (NEW, question(1))


@pytest.mark.parametrize("size_bytes", [0, CHALLENGE_BYTES - 1, CHALLENGE_BYTES + 1, 1_000])
def test_a_challenge_of_another_length_is_none(seen: Seen, size_bytes: int) -> None:
    with pytest.raises(ProtocolError, match=DropReason.BAD_FRAME):
        seen.paths.handle_challenge(bytes(size_bytes), HOME)
    assert seen.paths.poll_answer() is None


# Which stream of a link sends next: fair turns between destination queues, the higher priority first within one.


class Stream:
    def __init__(self, turns: Turns, queue: str, priority: int, packets: int) -> None:
        self.turn_key = queue
        self.priority = priority
        self.packets = packets
        turns.offer(self)

    @property
    def sequence(self) -> "Stream":
        return self

    def peek(self) -> int | None:
        return self.packets or None


def give(turns: Turns, limit: int, at_once: int = 1_000) -> str:
    """The priorities whose packets leave, in order; ``at_once``: how many a window takes."""
    given = ""
    while len(given) < limit and (turn := turns.next()) is not None:
        stream, packets = turn
        assert isinstance(stream, Stream)
        packets = min(packets, stream.packets, limit - len(given), at_once)
        stream.packets -= packets
        turns.handle_given(stream, packets)
        given += str(stream.priority) * packets
    return given


def test_the_higher_priority_of_a_queue_goes_first() -> None:
    turns = Turns()
    Stream(turns, "q", 0, 10)
    Stream(turns, "q", 3, 5)
    assert give(turns, 3) == "333"
    Stream(turns, "q", 7, 2)
    assert give(turns, 100) == "77330000000000"
    assert turns.next() is None


@pytest.mark.parametrize("at_once", [1, 5, 1_000])
def test_one_packet_in_sixty_four_goes_to_the_lowest_that_waits(at_once: int) -> None:
    """Priorities between the two have none of it. Without a share the lowest waits for all others, as in MSMQ."""
    turns, none = Turns(), Turns(lowest_share=0)
    for priority in (7, 0, 3):
        Stream(turns, "q", priority, 1_000)
        Stream(none, "q", priority, 300)
    assert give(turns, 640, at_once) == ("7" * 63 + "0") * 10
    assert give(none, 1_000, at_once) == "7" * 300 + "3" * 300 + "0" * 300


def test_a_flood_of_one_queue_leaves_another_its_turns() -> None:
    """Priorities count within a destination queue alone."""
    turns = Turns()
    Stream(turns, "flooded", 7, 1_000)
    Stream(turns, "quiet", 0, 40)
    turn = QUEUE_TURN_PACKETS
    assert give(turns, 5 * turn) == "7" * turn + "0" * turn + "7" * turn + "0" * turn + "7" * turn


def test_a_stream_that_is_withdrawn_costs_the_others_nothing() -> None:
    turns = Turns()
    high, low = Stream(turns, "q", 7, 9), Stream(turns, "q", 0, 9)
    give(turns, 2)
    turns.withdraw(high)
    turns.withdraw(high)
    assert turns.next() == (low, QUEUE_TURN_PACKETS - 2)
    turns.offer(high)
    assert give(turns, 20) == "7" * 7 + "0" * 9


# Where a peer is looked for: in turn, with patience, and first where it answered.

THREE = ("udp://b:1", "udp://b:2", "tcp://b:3")


def rounds(calling: Dialer, times: int) -> list[tuple[str, int | None]]:
    """Where it is called and for how long, when nobody ever answers."""
    called = []
    for _ in range(times):
        try_ns = calling.choose(THREE, 0)
        called.append((calling.address, try_ns))
        calling.handle_missed()
    return called


def test_each_address_has_its_turn_and_each_round_takes_twice_as_long() -> None:
    tries = [SECOND] * 3 + [2 * SECOND] * 3 + [4 * SECOND]
    assert rounds(Dialer(Reconnect()), 7) == list(zip((*THREE, *THREE, THREE[0]), tries, strict=True))


def test_who_answered_is_called_there_again_and_first() -> None:
    calling = Dialer(Reconnect())
    rounds(calling, 1)
    calling.choose(THREE, 0)
    calling.handle_opened()
    assert calling.choose(THREE, 0) == SECOND
    assert calling.address == THREE[1]
    calling.handle_missed()
    calling.choose(THREE, 0)
    assert calling.address == THREE[2]


def test_calls_are_fresh_for_a_second() -> None:
    calling = Dialer(Reconnect())
    assert not calling.is_fresh(0)
    calling.choose(THREE, 0)
    calling.handle_missed()
    calling.choose(THREE, 900 * MS)
    assert calling.is_fresh(999 * MS)
    assert not calling.is_fresh(SECOND)
    calling.handle_opened()
    calling.choose(THREE, SECOND)
    assert calling.is_fresh(SECOND)
    stillness.forget_calls(calling)
    assert not calling.is_fresh(SECOND)


def test_who_was_away_for_longer_is_called_more_rarely() -> None:
    """By a six-hundredth of that, up to a second, which its addresses share; until it answers, or moves."""
    calling = Dialer(Reconnect())
    assert calling.spacing_ns(100 * SECOND) == 0
    calling.choose(THREE[:1], 0)
    assert [calling.spacing_ns(away_s * SECOND) for away_s in (0, 300, 600, 3_599)] == [0, SECOND // 2, SECOND, SECOND]
    calling.choose(THREE[:2], 3_599 * SECOND)
    assert calling.spacing_ns(3_599 * SECOND) == SECOND // 2
    for end in (calling.handle_moved, calling.handle_opened):
        end()
        assert calling.spacing_ns(10**6 * SECOND) == 0
        calling.choose(THREE, 0)


def test_many_that_are_away_share_sixteen_calls_a_second() -> None:
    away: set[Dialer] = set()
    every = [Dialer(Reconnect(), away) for _ in range(1_000)]
    for calling in every:
        calling.choose(THREE[:1], 0)
    assert [every[0].spacing_ns(at_s * SECOND) / SECOND for at_s in (0, 10, 100, 200, 3_000)] == [0, 1, 10, 20, 62.5]
    for calling in every[100:400]:
        calling.handle_opened()
    for calling in every[400:700]:
        calling.handle_unwanted()
    for calling in every[700:]:
        calling.handle_moved()
    assert every[0].spacing_ns(200 * SECOND) == 25 * SECOND // 4
    assert Dialer(Reconnect(), away).spacing_ns(200 * SECOND) == 0
    patient = Dialer(Reconnect(away_most_s=1.5), away)
    patient.choose(THREE[:1], 0)
    assert patient.spacing_ns(200 * SECOND) == 3 * SECOND // 2


def test_calls_to_many_that_are_away_leave_together_four_times_a_second() -> None:
    """A process that wakes for each of them pays for that."""
    world = PlainWorld(1)
    node = world.node("hub")
    for number in range(50):
        stream = node.live.outgoing_stream(f"udp://away{number}:1", "q", Delivery.TRANSACTIONAL)
        node.live.submit(stream, b"x", 1)
    node.drain()
    world.run(100 * SECOND)
    called_at_ns: list[int] = []
    world.network.tap = lambda *_datagram: called_at_ns.append(world.now_ns)
    world.run(10 * SECOND)
    assert len(called_at_ns) > 120
    assert len(set(called_at_ns)) <= 40


@pytest.mark.parametrize("addresses", [THREE[:1], THREE])
def test_after_an_hour_the_waits_double_up_to_two_minutes(addresses: tuple[str, ...]) -> None:
    calling = Dialer(Reconnect())
    calling.choose(addresses, 0)
    waits_s, at_s = [], 3_600
    for _ in range(10):
        waits_s.append(calling.spacing_ns(at_s * SECOND) // SECOND)
        at_s += waits_s[-1]
    assert waits_s == [1, 1, 2, 4, 8, 16, 32, 64, 120, 120]


def test_calls_are_frequent_again_for_a_while_when_the_peer_may_be_there() -> None:
    """As it has called, or as nobody has called it for an hour; an hour of frequent calls comes of neither."""
    calling, day_ns = Dialer(Reconnect()), 86_400 * SECOND
    calling.choose(THREE[:1], 0)
    calling.choose(THREE[:1], 120 * SECOND)
    calling.hasten(day_ns)
    assert calling.spacing_ns(day_ns) == SECOND
    assert calling.spacing_ns(day_ns + 19 * SECOND) == SECOND
    assert calling.spacing_ns(day_ns + 60 * SECOND) == 40 * SECOND
    calling.choose(THREE[:1], 2 * day_ns)
    assert calling.spacing_ns(2 * day_ns) == SECOND
    calling.choose(THREE[:1], 2 * day_ns + 3_000 * SECOND)
    assert calling.spacing_ns(2 * day_ns + 3_000 * SECOND) == 120 * SECOND


def test_a_call_that_lasts_for_long_is_no_quiet_time() -> None:
    """Nor is the longest wait. To be heard does not make a new absence of an old one, nor an old one of a new."""
    calling, heard = Dialer(Reconnect(eager_s=3, away_most_s=7_200)), Dialer(Reconnect())
    heard.hasten(0)
    assert heard.since_ns is None
    heard.choose(THREE[:1], 0)
    heard.hasten(100 * SECOND)
    assert heard.since_ns == 0
    for at_s in (0, 10_000, 20_000):
        calling.choose(THREE[:1], at_s * SECOND)
    assert calling.spacing_ns(20_000 * SECOND) == 7_200 * SECOND


def waits_s(reconnect: Reconnect, count: int, *, unanswered: bool = False) -> list[float]:
    """The waits of a link that never succeeds."""
    link = Link("udp://b:1", reconnect, Random(1))
    waits: list[float] = []
    for _ in range(count):
        link.handle_closed(CloseReason.CONNECT_TIMEOUT if unanswered else CloseReason.PEER_CLOSED, 0)
        waits.append(link.retry_at_ns / SECOND)
    return waits


def test_what_cannot_be_is_refused() -> None:
    refuse_wrong_values(Reconnect)
    with pytest.raises(UsageError, match="jitter must be between 0 and 1, not 2"):
        Reconnect(jitter=2)
    with pytest.raises(UsageError, match="first_s is 5, more than most_s, 1"):
        Reconnect(first_s=5)


def test_jitter_is_a_share_of_the_wait() -> None:
    """With a tenth, five seconds are 4.5 to 5."""
    waits = waits_s(Reconnect(first_s=5, most_s=5, jitter=0.1), 100)
    assert (min(waits) >= 4.5, max(waits) <= 5, max(waits) - min(waits) > 0.4) == (True, True, True)


# Streams with open conversations are vouched for, once, and released when the last of those is gone.

PATH = "tcp://192.0.2.1:9"


def test_the_first_vouches_and_the_last_releases() -> None:
    """Of what has no streams, nothing is said."""
    kept_connections, told = KeptConnections(), []
    for path in (PATH, PATH, "udp://192.0.2.1:9", "memory://b"):
        kept_connections.add(path)
    told.append(kept_connections.take())
    for _ in range(2):
        kept_connections.remove(PATH)
        told.append(kept_connections.take())
    assert told == [([KeepConnection(PATH)], []), ([], []), ([], [DropConnection(PATH)])]
    assert kept_connections.take() == ([], [])


ORIGIN = b"o" * 16


def test_an_origin_has_the_name_of_its_first_relay_and_the_last_neighbour() -> None:
    """Messages go back by the neighbour that brought the newest stream."""
    origins = Origins()
    assert origins.bind(ORIGIN, "hub", "plant-a")
    assert not origins.bind(ORIGIN, "hub", "plant-a")
    assert origins.bind(ORIGIN, "hub-2", "plant-a")
    assert origins.of(ORIGIN) == Brought("hub-2", "plant-a")
    assert Brought("hub-2", "plant-a").name == "plant-a@hub-2"


def test_messages_for_the_old_name_wait_and_the_trouble_names_the_new_one() -> None:
    world, a, b = two()
    a.know(b.peer)
    b.know(a.peer)
    post(a, "b", b"1")
    world.run(5 * SECOND)
    b.end()
    post(a, "b", b"2")
    rename(a, replace(b.peer, name="c"))
    b.start()
    post(a, "c", b"3")
    world.run(20 * SECOND)
    (row,) = [row for row in find_troubles(a.live, world.now_ns) if row.about == "b"]
    assert (row.trouble, "another name here now: c" in row.cause) == (Trouble.RENAMED, True)
    assert "triack trust add b KEY" in row.remedy
    rename(a, b.peer)
    world.run(20 * SECOND)
    assert [row for row in find_troubles(a.live, world.now_ns) if row.about == "b"] == []
    assert b.live.queues.mailboxes["q"].length == 3


def rename(node: SimNode, peer: Peer) -> None:
    """Its operator removes the one peer that it has, and adds this one."""
    node.directory.replace([peer])
    node.act(lambda: node.live.handle_directory_changed(node.world.now_ns))
