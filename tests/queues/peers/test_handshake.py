"""The handshake, what is introduced in it, and settings that follow from it."""

from dataclasses import replace
from random import Random

import pytest

from tests.queues.hostile import Hostile, make_connect, make_hello, open_datagram
from tests.queues.rollbacks import arrived, both_know, deliver, pair, put_back, roll_back
from tests.queues.world import PlainWorld, SimNode, World, two
from triack.base.checks import LONGEST_LIFE_S
from triack.base.datagram import HEADER_BYTES, Header, Kind, read_header
from triack.base.delivery import Delivery
from triack.base.errors import ProtocolError
from triack.base.reasons import DropReason
from triack.base.units import MS, SECOND, in_ns
from triack.node.handles.policies import MSMQ, msmq
from triack.ordering.order_ack import AckWait
from triack.queues.node_settings import NodeSettings
from triack.queues.peers import suspended_peers
from triack.queues.peers.freshness import NODES_OF_ONE_MAX, Freshness, Moment
from triack.queues.peers.introduction import (
    INTRODUCTION_BYTES_MAX,
    NO_POINT,
    SERIAL_MAX,
    TEXT_BYTES_MAX,
    HistoryPoint,
    Introduction,
    RolledBack,
    StreamPosition,
)
from triack.queues.peers.session_settings import session_settings, traits_of
from triack.session.protocol.binary import BINARY
from triack.session.protocol.frames import Hello
from triack.session.protocol.path_traits import MEMORY, TCP, UDP, PathTraits
from triack.session.protocol.policy import Policy
from triack.session.protocol.settings import SessionSettings
from triack.tools.sim.faults import Faults
from triack.transport.noise import KEY_BYTES
from triack.transport.secure import CONNECT_BYTES

# How conversations begin, on networks that lose and repeat, and with peers that lie about the past.

UNPROBED = NodeSettings(session=SessionSettings(max_datagram_bytes=1_200))


def connects(world: World) -> list[tuple[int, Introduction]]:
    """The session ids and introductions of the connects that nodes of this world send from now on."""
    heard: list[tuple[int, Introduction]] = []

    def tap(datagram: bytes, _sender: str, _to: str) -> None:
        opened = open_datagram(datagram)
        if opened.kind is Kind.CONNECT:
            heard.append((opened.hello.session_id, opened.introduction))

    world.network.tap = tap
    return heard


def test_only_a_meeting_after_both_restarted_takes_another_round_trip() -> None:
    """Strangers need none; a link remembers whom it leads to; and a peer that has lived on has forgotten nothing."""
    idle = NodeSettings(session=SessionSettings(cleanup_interval_s=5.0))
    world, a, b = two(a=idle, b=idle, make=PlainWorld)
    heard = connects(world)
    deliver(world, a, b, 1)
    assert len(heard) == 1
    world.run(20 * SECOND)
    deliver(world, a, b, 2)
    assert len(heard) == 2
    assert heard[1][1].remembered.start == b.live.handshakes.history.start
    b.restart()
    deliver(world, a, b, 3)
    a.restart()
    deliver(world, a, b, 4)
    assert len({session_id for session_id, _ in heard}) == len(heard)
    first = len(heard)
    a.restart()
    b.restart()
    deliver(world, a, b, 5)
    again = heard[first:]
    assert len({session_id for session_id, _ in again}) == 1
    assert [own.remembered == NO_POINT for _, own in again] == [True, False]


def test_the_other_round_trip_is_one_and_no_more() -> None:
    """It begins when the accept arrives, not with a timer; and copies of the accept begin no other."""
    world, a, b = pair(1, Faults(delay_ns=20 * MS))
    deliver(world, a, b, 1)
    a.restart()
    b.restart()
    heard = connects(world)
    world.faults.duplicate = 1.0
    a.send(b, "q", b"2")
    assert world.run(5 * 20 * MS + 5 * MS, lambda: b.length("q") == 2)
    assert len(heard) == 2


def test_an_older_life_of_the_peer_is_over_when_a_newer_one_opens() -> None:
    """Whichever end began its session: the process at its other end is gone."""
    world, a, b = pair()
    b.send(a, "q", b"1")
    world.run(SECOND)
    a.restart()
    a.send(b, "q", b"2")
    assert world.run(SECOND, lambda: b.length("q") == 1)
    assert b.live.closes == {"superseded": 1}


def test_a_suspended_peer_that_knows_nothing_gets_no_session_from_us() -> None:
    """It lied, or another peer lied for it; it is dialled only to hear so."""
    world, a, b = pair()
    b.send(a, "q", b"1")
    world.run(SECOND)
    b.restart()
    opened = len(b.log("session_opened"))
    throw(world, b, claim(b, a.live.node_id, HistoryPoint(7, 1)))
    assert b.rollbacks == ["own"]
    b.send(a, "q", b"2")
    both_know(world, b, a)
    world.run(10 * SECOND)
    assert len(b.log("session_opened")) == opened
    assert a.length("q") == 1


def test_a_second_session_with_a_busy_peer_opens_at_once() -> None:
    """Its history grows all the time: that must not keep them from agreeing."""
    world, a, b = two(1, Faults(delay_ns=20 * MS), make=PlainWorld)
    world.network.attach("udp://alias:1", b.port)
    b.commit_ns = MS

    def send() -> None:
        a.send(b, "q", b"x")
        world.at(5 * MS, send)

    send()
    world.run(300 * MS)
    outgoing = a.live.outgoing_stream("udp://alias:1", "other", Delivery.TRANSACTIONAL)
    a.live.submit(outgoing, b"x", 1)
    assert world.run(300 * MS, lambda: b.length("other") == 1)


@pytest.mark.parametrize("seed", range(25))
def test_both_learn_of_it_whatever_the_network_does(seed: int) -> None:
    """Half of all datagrams are lost, many repeated and late; nothing gets through before they know."""
    random = Random(seed)
    world, a, b = pair(seed)
    deliver(world, a, b, *range(5))
    rolled, other = random.sample([a, b], 2)
    copy = rolled.copy_store()
    deliver(world, a, b, *range(5, 10))
    world.faults.loss, world.faults.duplicate, world.faults.reorder = 0.5, 0.3, 0.5
    put_back(rolled, copy)
    if random.random() < 0.5:
        other.restart()
    before = arrived(b)
    a.send(b, "q", b"new")
    if random.random() < 0.5:
        b.send(a, "q", b"new")
    assert world.run(120 * SECOND, lambda: (rolled.rollbacks, other.rollbacks) == (["own"], ["peer"]))
    world.heal()
    world.run(30 * SECOND)
    assert arrived(b) == before
    assert all(found["rolled_back"] != "unknown" for node in (a, b) for found in node.log("rollback_detected"))


@pytest.mark.parametrize("way", ["to the other", "from the other"])
def test_a_peer_that_could_not_be_told_hears_of_it_later(way: str) -> None:
    """The network fails at the moment of detection, for longer than a connection may take."""
    world, a, b = pair()
    roll_back(world, a, b)
    a.send(b, "q", b"new")
    if way == "to the other":
        world.network.tap = lambda *_: world.cut(a, b, both=False) if a.rollbacks else None
        world.run(60 * SECOND)
        world.network.tap = None
        assert (a.rollbacks, b.rollbacks) == (["own"], [])
    else:
        world.cut(b, a, both=False)
        world.run(60 * SECOND)
        assert a.rollbacks == b.rollbacks == []
    world.heal()
    both_know(world, a, b)


def test_a_suspended_peer_is_left_alone() -> None:
    world, a, b = pair()
    roll_back(world, a, b)
    a.send(b, "q", b"new")
    both_know(world, a, b)
    world.run(SECOND)
    said = world.network.counts["sent"]
    world.run(600 * SECOND)
    assert world.network.counts["sent"] == said
    refused = b.live.drops[DropReason.ROLLBACK]
    a.restart()
    both_know(world, a, b)
    assert b.live.drops[DropReason.ROLLBACK] > refused
    assert len(b.log("rollback_detected")) == 1


@pytest.mark.gate
def test_old_datagrams_of_a_rollback_halt_nobody_later() -> None:
    """The right store is back, both have restarted, and everything that was said then is heard once more."""
    world, a, b = pair()
    heard: list[tuple[bytes, str, str]] = []
    deliver(world, a, b, 1)
    copy = a.copy_store()
    deliver(world, a, b, 2)
    a.crash()
    good = a.copy_store()
    a.restore(copy)
    a.start()
    world.network.tap = lambda *sent: heard.append(sent)
    a.send(b, "q", b"lost")
    both_know(world, a, b)
    world.run(SECOND)
    world.network.tap = None
    said = [open_datagram(data) for data, _, to in heard if to == b.address]
    assert RolledBack.SENDER in [sent.introduction.rolled_back for sent in said if sent.kind is Kind.CONNECT]
    put_back(a, good)
    b.restart()
    for data, sender, to in heard * 2:
        world.network.send(data, sender, to)
    world.run(SECOND)
    for data, sender, to in heard:
        world.network.send(data, sender, to)
    deliver(world, a, b, 3)
    world.run(30 * SECOND)
    assert a.rollbacks + b.rollbacks == []
    assert b.read_all("q") == [b"1", b"2", b"3"]


def test_a_late_copy_of_an_old_connect_changes_nothing() -> None:
    world, a, b = pair()
    old: list[bytes] = []
    world.network.tap = lambda data, _sender, to: old.append(data) if to == b.address else None
    deliver(world, a, b, 1)
    world.network.tap = None
    a.restart()
    deliver(world, a, b, 2)
    known = b.live.handshakes.peers.of(a.live.node_id)
    for data in old * 2:
        world.network.send(data, a.address, b.address)
        world.run(10 * MS)
    world.run(20 * SECOND)
    assert b.live.handshakes.peers.of(a.live.node_id) == known
    deliver(world, a, b, 3)
    assert a.rollbacks + b.rollbacks == []


def test_what_was_checked_stays_so_for_an_older_connect() -> None:
    """A copy of the first one, which asked for nothing, comes late: the answer says what was found all the same."""
    world = PlainWorld(1)
    node = world.node("b")
    answers: list[bytes] = []
    world.network.tap = lambda data, _sender, to: answers.append(data) if to == "udp://evil:1" else None
    first = Introduction(b"n" * 16, "n", "", node.address)
    again = replace(first, receiver=node.live.node_id, remembered=node.live.handshakes.history.point)
    for own in (first, again, first):
        throw(world, node, make_connect(own, 5))
    found = [open_datagram(answer).introduction.checked for answer in answers]
    assert found == [NO_POINT, again.remembered, again.remembered]


def claim(victim: SimNode, node_id: bytes, remembered: HistoryPoint, session_id: int = 5) -> bytes:
    """A connect of some node that says what it remembers of the victim."""
    own = Introduction(node_id, "evil", "", victim.address, receiver=victim.live.node_id, remembered=remembered)
    return make_connect(own, session_id)


def throw(world: World, victim: SimNode, data: bytes) -> None:
    victim.live.handle_datagram(data, "udp://evil:1", world.now_ns)
    victim.drain()


@pytest.mark.parametrize("what", ["another start", "a commit to come", "a rollback"])
def test_a_peer_that_lies_about_our_past_halts_itself_alone(what: str) -> None:
    world, a, b = pair()
    deliver(world, a, b, 1)
    evil = Hostile(world, b)
    now = b.live.handshakes.history.point
    lie = {
        "another start": HistoryPoint(7, 1),
        "a commit to come": HistoryPoint(now.start, now.serial + 1),
        "a rollback": now,
    }[what]
    harmless = Introduction(b"\xee" * 16, "evil", "", b.address, receiver=b.live.node_id)
    own = replace(harmless, remembered=lie)
    if what == "a rollback":
        own = replace(own, rolled_back=RolledBack.SENDER)
    evil.datagram(Kind.CONNECT, BINARY.encode_hello(make_hello(own, 78)), 0)
    assert b.live.rollbacks == {"ee" * 16: "peer" if what == "a rollback" else "own"}
    evil.frames(evil.message(1))
    evil.datagram(Kind.CONNECT, BINARY.encode_hello(make_hello(harmless, 79)), 0)
    world.run(SECOND)
    assert b.length("q") == 1
    assert b.live.drops[DropReason.ROLLBACK] == 2
    assert len([found for found in b.log("session_opened") if found["peer"] == "ee" * 16]) == 1
    deliver(world, a, b, 2)
    assert a.rollbacks == []


def test_invented_nodes_with_lies_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suspended_peers, "SUSPENDED_MAX", 10)
    world, a, b = pair()
    roll_back(world, b, a)
    for number in range(50):
        throw(world, b, claim(b, number.to_bytes(16, "big"), HistoryPoint(7, 1), number))
    assert b.live.drops[DropReason.ROLLBACK] == 50
    assert len(b.rollbacks) == len(b.log("rollback_detected")) == 10
    assert b.live.drops[DropReason.SUSPENDED_OVERFLOW] == 40
    b.send(a, "q", b"new")
    assert world.run(10 * SECOND, lambda: len(b.rollbacks) == 11)
    assert world.run(10 * SECOND, lambda: a.rollbacks == ["peer"])
    world.run(SECOND)
    b.drain()
    assert sum(record["count"] for record in b.log("dropped") if record["reason"] == "suspended-overflow") == 40


# Channels: a conversation's own protects it, from the connect on.


def test_every_conversation_has_its_own_channel_and_its_packets_fit_it() -> None:
    """Bytes that one peer sealed are nothing in another conversation; a full datagram has the agreed size."""
    world = World(1)
    a, b, c = world.node("a", UNPROBED), world.node("b"), world.node("c")
    heard: dict[str, list[bytes]] = {a.address: [], c.address: []}
    world.network.tap = lambda data, sender, _to: heard[sender].append(data) if sender in heard else None
    bodies = [bytes([number]) * 3_000 for number in range(9)]
    a.send(b, "q", *bodies)
    c.send(b, "other", b"c")
    assert world.run(10 * SECOND, lambda: not a.busy and not c.busy)
    assert b.read_all("q") == bodies
    assert max(map(len, heard[a.address])) == 1_200
    world.network.tap = None
    own = read_header(heard[a.address][-1])
    swapped = Header(Kind.DATA, own.connection_id, own.counter + 1).encode() + heard[c.address][-1][HEADER_BYTES:]
    b.live.handle_datagram(swapped, a.address, world.now_ns)
    assert b.live.drops == {"bad-tag": 1}


def test_a_peer_can_open_what_refuses_it() -> None:
    """It is sealed by the channel that answered, although no session comes of it."""
    world, a, b = two()
    roll_back(world, a, b)
    a.send(b, "q", b"new")
    both_know(world, a, b)


FULL = Introduction(
    b"n" * 16,
    "plant",
    "udp://127.0.0.1:1",
    "udp://127.0.0.1:2",
    point=HistoryPoint(11, 12),
    receiver=b"r" * 16,
    remembered=HistoryPoint(13, 14),
    checked=HistoryPoint(SERIAL_MAX, 16),
    rolled_back=RolledBack.RECEIVER,
    positions=(StreamPosition(1, 1, 2), StreamPosition(2**32 - 1, SERIAL_MAX, SERIAL_MAX)),
    incarnation=2**64 - 1,
)


def test_an_introduction_out_of_range_or_of_another_length_than_it_says_is_refused() -> None:
    """Such a point no store can have."""
    data, above = FULL.encode(), 2**63
    points = [
        replace(FULL, point=HistoryPoint(above, 1)),
        replace(FULL, point=HistoryPoint(1, above)),
        replace(FULL, remembered=HistoryPoint(above, 1)),
        replace(FULL, checked=HistoryPoint(1, 2**64 - 1)),
        replace(FULL, positions=(StreamPosition(1, above, 1),)),
        replace(FULL, positions=(StreamPosition(1, 1, above),)),
    ]
    for wrong in (*(it.encode() for it in points), data + b"x", *(data[:length] for length in range(len(data)))):
        with pytest.raises(ProtocolError, match="bad-hello"):
            Introduction.decode(wrong)


@pytest.mark.parametrize("text", ["", "n" * TEXT_BYTES_MAX])
def test_an_introduction_full_of_positions_fits_its_accept(text: str) -> None:
    """An accept is never longer than the connect that asks for it, and one position more would not fit."""
    own = Introduction(b"n" * 16, text, text, text)
    own = replace(own, ack_wait=AckWait(1, 2))
    full = replace(own, positions=(StreamPosition(1, 1, 1),) * own.room)
    assert 4 <= len(full.positions) <= 255
    assert full.room == own.room
    assert Introduction.decode(full.encode()) == full
    assert len(full.encode()) <= INTRODUCTION_BYTES_MAX < len(full.encode()) + 20
    hello = BINARY.encode_hello(Hello(1, 2, 3, 1_200, Policy.of(SessionSettings()), full.encode()))
    header, tag, mac = 20, 16, 16
    assert header + KEY_BYTES + len(hello) + tag + mac <= CONNECT_BYTES


def test_damage_is_read_or_refused() -> None:
    data, reasons = FULL.encode(), list[str]()
    for at in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[at // 8] ^= 1 << at % 8
        try:
            assert Introduction.decode(bytes(flipped)) != FULL
        except ProtocolError as error:
            reasons.append(error.reason)
    assert set(reasons) == {"bad-hello"}
    assert len(reasons) > 10


def test_little_is_remembered_of_each() -> None:
    fresh = Freshness()
    for number in range(NODES_OF_ONE_MAX + 1):
        fresh.take("a", b"%d" % number, Moment(5, 5))
    assert not fresh.take("a", b"1", Moment(5, 5))
    assert fresh.take("a", b"0", Moment(5, 5))
    fresh.take("b", b"n", Moment(5, 5))
    fresh.forget(lambda peer: peer == "b")
    assert fresh.take("a", b"1", Moment(5, 5))
    assert not fresh.take("b", b"n", Moment(5, 5))


def test_streams_take_larger_datagrams_and_a_try_is_no_longer_than_it_may_be() -> None:
    settings = NodeSettings(stream_datagram_bytes=50_000)
    assert session_settings(settings, "udp://a:1") == settings.session
    assert session_settings(settings, "tcp://a:1").max_datagram_bytes == 50_000
    assert session_settings(settings, "udp://a:1", 3 * SECOND).connect_timeout_s == 3
    assert session_settings(settings, "udp://a:1", 300 * SECOND) == settings.session


def test_a_peer_without_a_name_is_granted_twice_the_silence_with_msmq() -> None:
    """Fixed or by the round trip, and no longer than the longest; by default it is as any other."""
    fixed = msmq(ack_timeout_s=20)
    assert session_settings(fixed, "udp://a:1", direct=True).ack_timeout_s == 40
    assert session_settings(fixed, "udp://a:1").ack_timeout_s == 20
    thrice = NodeSettings(session=SessionSettings(direct_ack_timeouts=3))
    found = session_settings(thrice, "udp://a:1", direct=True)
    assert (found.ack_timeout_s, found.ack_timeout_min_s, found.ack_timeout_max_s) == (None, 6, 360)
    long = NodeSettings(session=SessionSettings(direct_ack_timeouts=10**9, ack_timeout_s=60))
    assert session_settings(long, "udp://a:1", direct=True).ack_timeout_s == LONGEST_LIFE_S
    assert session_settings(NodeSettings(), "udp://a:1", direct=True) == SessionSettings()


@pytest.mark.parametrize(("make", "seconds"), [(PlainWorld, 40), (World, 20)])
def test_it_is_in_force_at_both_ends(make: type[World], seconds: int) -> None:
    """With keys each node has a name for the other, and without them an address."""
    world = make(1)
    a, b = world.node("a", MSMQ), world.node("b", MSMQ)
    a.send(b, "q", b"x")
    world.run(SECOND)
    for node in (a, b):
        (opened,) = node.log("session_opened")
        assert opened["ack_timeout_min_ns"] == in_ns(seconds)


@pytest.mark.parametrize(
    ("address", "traits"),
    [("udp://x:1", UDP), ("tcp://x:1", TCP), ("memory://x", MEMORY), ("udp:", UDP), ("x", MEMORY)],
)
def test_the_scheme_of_an_address_says_what_its_path_is(address: str, traits: PathTraits) -> None:
    assert traits_of(address) == traits
