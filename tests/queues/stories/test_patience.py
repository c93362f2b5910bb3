"""What the timers of whole nodes do together for hours: no session flaps, and nobody is asked without end."""

from collections import Counter
from itertools import cycle, pairwise, product

import pytest

from tests.queues.hostile import Curt
from tests.queues.world import PlainWorld, SimNode, World, judged, numbered, reasons, two
from triack.base.delivery import Delivery
from triack.base.ranges import NumberSet
from triack.base.units import MS, SECOND
from triack.queues.node_settings import Limits, NodeSettings, Quota
from triack.session.acknowledgements.session_ack import SessionAck
from triack.session.protocol.settings import SessionSettings
from triack.session.protocol.states import CloseReason
from triack.tools.sim.faults import Faults

HOUR = 3_600 * SECOND
KINDS = ("udp", "tcp")


def impatient(
    mine_s: float, its_s: float, kind: str = "udp", limits: Limits | None = None
) -> tuple[World, SimNode, SimNode]:
    """Two nodes that close a session after so long without messages; the limits are those of the second."""
    mine, its = (SessionSettings(cleanup_interval_s=cleanup_s) for cleanup_s in (mine_s, its_s))
    a, b = NodeSettings(session=mine), NodeSettings(session=its, limits=limits or Limits())
    return two(1, Faults(delay_ns=5 * MS), a=a, b=b, scheme=kind)


WAITING = [
    (kind, *cleanup_s, delivery)
    for kind, (cleanup_s, delivery) in zip(
        cycle(KINDS), product([(1.0, 1.0), (5.0, 300.0), (300.0, 2.0)], Delivery), strict=False
    )
]
"""Every two of a kind, intervals and a class are together in one of them."""


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "mine_s", "its_s", "delivery"), WAITING)
def test_a_stream_that_waits_for_room_keeps_its_session(
    kind: str, mine_s: float, its_s: float, delivery: Delivery
) -> None:
    """However short either cleanup interval is, the end that would close the session asks, or says, once more."""
    world, a, b = impatient(mine_s, its_s, kind, Limits(queue_quota={"q": Quota(2, 1024**2)}))
    # A packet that asks for room is taken in the class that is on no disk.
    messages, length_ns = (200, 100 * SECOND) if delivery is Delivery.EXPRESS else (20, HOUR // 4)
    for body in numbered(0, messages, 900):
        a.send(b, "q", body, delivery=delivery)
        world.run(10 * MS)
    world.run(length_ns)
    assert a.busy
    assert len(a.log("session_opened")) == 1
    assert world.network.counts["sent"] < 8 * length_ns // round(min(mine_s, its_s, 5) * SECOND) + 100
    assert world.run(60 * SECOND, lambda: b.read("q") == 0 and not a.busy)
    # Only transactional messages are in order: of others, one that was refused for want of room comes later.
    order = sorted if delivery is Delivery.RECOVERABLE else list
    assert order(b.read_all("q")) == numbered(0, messages, 900)
    world.run(HOUR)
    assert reasons(a) == reasons(b) == ["idle"]
    assert not judged(a, b)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("mine_s", "its_s"), [(0.4, 0.4), (0.2, 300.0), (300.0, 0.2)])
def test_an_order_ack_does_not_wait_for_another_session(kind: str, mine_s: float, its_s: float) -> None:
    """Half a second is longer than the session lasts; the first resend tier, which would ask, is 30 s."""
    world, a, b = impatient(mine_s, its_s, kind)
    a.send(b, "q", *numbered(0, 3))
    assert world.run(SECOND, lambda: not a.busy)
    world.run(HOUR)
    assert reasons(a) == reasons(b) == ["idle"]
    assert not judged(a, b)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_on_its_way_to_the_disk_keeps_its_session(kind: str) -> None:
    """Its store ack is to be given. Were the session to end, all of it would come again with the next one."""
    world, a, b = impatient(1.0, 1.0, kind)
    b.commit_ns = 3 * SECOND
    a.send(b, "q", *numbered(0, 3))
    assert world.run(20 * SECOND, lambda: not a.busy)
    assert len(a.log("session_opened")) == 1
    assert b.read_all("q") == numbered(0, 3)
    world.run(HOUR)
    assert reasons(a) == reasons(b) == ["idle"]
    assert not judged(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("delivery", [Delivery.RECOVERABLE, Delivery.TRANSACTIONAL])
def test_a_disk_that_stands_still_is_waited_for_ever_more_patiently(kind: str, delivery: Delivery) -> None:
    """Each session that its silence ends makes the next one wait twice as long, and to ask costs next to nothing.

    As a session is open when the disk goes on, that is known at once.
    """
    world, a, b = two(1, Faults(delay_ns=5 * MS), scheme=kind)
    a.send(b, "q", b"before", delivery=delivery)
    world.run(10 * SECOND)
    meter = Meter(world)
    b.commit_ns = HOUR
    a.send(b, "q", *numbered(0, 3), delivery=delivery)
    world.run(HOUR - SECOND)
    assert a.busy
    waits = [record["store_ack_timeout_min_ns"] // SECOND for record in a.log("session_opened")]
    assert waits[:6] == [10, 10, 20, 40, 80, 120] or waits[:6] == [10, 20, 40, 80, 120, 120]
    assert len(waits) < 36
    assert meter.sent_bytes < 1_000_000
    b.commit_ns = MS
    assert world.run(2 * SECOND, lambda: not a.busy)
    assert b.read_all("q") == [b"before", *numbered(0, 3)]
    a.send(b, "q", b"after", delivery=delivery)
    world.run(10 * SECOND)
    assert not judged(a, b)


@pytest.mark.gate
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.plain
def test_a_node_that_is_killed_while_its_disk_stands_still_is_found_out(kind: str) -> None:
    """However long it was waited for: it is asked now and then, and must answer."""
    world, a, b = two(1, Faults(delay_ns=5 * MS), scheme=kind)
    b.commit_ns = HOUR
    a.send(b, "q", *numbered(0, 3))
    world.run(HOUR // 4)
    b.commit_ns = MS
    b.restart()
    assert world.run(12 * SECOND, lambda: not a.busy)
    assert b.read_all("q") == numbered(0, 3)


@pytest.mark.gate
@pytest.mark.parametrize("kind", KINDS)
def test_a_fixed_timeout_for_a_disk_that_stands_still_grows_as_well(kind: str) -> None:
    """Half a second gave a session for each of them, 2,300 an hour."""
    settings = NodeSettings(session=SessionSettings(store_ack_timeout_s=0.5))
    world, a, b = two(1, Faults(delay_ns=5 * MS), a=settings, scheme=kind)
    b.commit_ns = HOUR // 2
    a.send(b, "q", *numbered(0, 3))
    world.run(b.commit_ns - 10 * SECOND)
    assert len(a.log("session_opened")) < 30
    b.commit_ns = MS
    assert world.run(20 * SECOND, lambda: not a.busy)
    world.run(HOUR)
    assert not judged(a, b)


@pytest.mark.gate
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("delivery", list(Delivery))
def test_a_timeout_that_is_shorter_than_a_round_trip_lets_everything_through(kind: str, delivery: Delivery) -> None:
    """No ack would ever come in time: 2,300 sessions an hour, without end, and nothing passed as acknowledged."""
    settings = NodeSettings(session=SessionSettings(ack_timeout_s=0.2, store_ack_timeout_s=0.2))
    world, a, b = two(1, Faults(delay_ns=300 * MS), both=settings, scheme=kind)
    for turn in range(3):
        a.send(b, "q", *numbered(10 * turn, 10 * turn + 10), delivery=delivery)
        b.send(a, "r", *numbered(10 * turn, 10 * turn + 10), delivery=delivery)
        assert world.run(60 * SECOND, lambda: not a.busy and not b.busy)
        world.run(400 * SECOND)
    assert len(a.log("session_opened")) < 30
    if delivery is not Delivery.EXPRESS:
        assert sorted(b.read_all("q")) == sorted(a.read_all("r")) == numbered(0, 30)
    assert not judged(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.plain
def test_a_peer_that_answers_in_vain_is_asked_ever_more_rarely(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And is heard soon when it begins to acknowledge."""
    world, a, b = two(1, Faults(delay_ns=5 * MS), scheme=kind)
    a.send(b, "q", b"before", delivery=Delivery.EXPRESS)
    world.run(SECOND)
    monkeypatch.setattr(SessionAck, "told", property(lambda _: (NumberSet(), [])))
    a.send(b, "q", b"x", delivery=Delivery.EXPRESS)
    world.run(2 * HOUR)
    assert reasons(a) == []
    per_hour = Counter(record["at_ns"] // HOUR for record in a.log("packet_sent"))
    assert max(per_hour.values()) < 1_000
    monkeypatch.undo()
    assert world.run(10 * SECOND, lambda: not a.busy)
    a.send(b, "q", b"y", delivery=Delivery.EXPRESS)
    assert world.run(SECOND, lambda: not a.busy)
    assert judged(a, b) == {"ack_taken_back"}, "as the test did"


@pytest.mark.gate
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reason", [CloseReason.PROTOCOL_ERROR, CloseReason.IDLE])
@pytest.mark.parametrize("delivery", list(Delivery))
@pytest.mark.plain
def test_a_peer_that_ends_every_session_at_once_is_called_ever_more_rarely(
    kind: str, reason: CloseReason, delivery: Delivery
) -> None:
    """Whatever it says: not again within the longest wait, or half of it."""
    world = PlainWorld(1, Faults(delay_ns=5 * MS))
    a, b = world.node("a", scheme=kind), Curt(world, reason, kind)
    outgoing = a.live.outgoing_stream(b.address, "q", delivery)
    a.live.submit(outgoing, b"x", 1)
    a.drain()
    world.run(100 * SECOND)
    assert 50 < len(a.log("session_opened")) <= 210
    times = [record["at_ns"] for record in a.log("session_opened")][10:]
    assert min(later - earlier for earlier, later in pairwise(times)) >= SECOND // 2


@pytest.mark.gate
def test_short_sessions_that_end_as_idle_make_nobody_wait() -> None:
    """A message after each of many sessions arrives as soon as after the first."""
    world, a, b = impatient(0.2, 0.2)
    for turn in range(50):
        a.send(b, "q", *numbered(turn, turn + 1))
        assert world.run(200 * MS, lambda: b.read("q") == 1)
        world.run(2 * SECOND)
    assert len(a.log("session_opened")) == 50
    assert set(reasons(a)) == {"idle"}


HEADERS_BYTES = 48
"""Of IPv6 and UDP."""
DAY = 24 * HOUR


class Meter:
    """Counts what a world's nodes send, as a network does that charges for it."""

    def __init__(self, world: World) -> None:
        self.sent_bytes = 0
        world.network.tap = self._take

    def _take(self, datagram: bytes, _sender: str, _to: str) -> None:
        self.sent_bytes += len(datagram) + HEADERS_BYTES


def away(kind: str, hours: float, settings: NodeSettings | None = None) -> tuple[World, SimNode, SimNode]:
    """A world in which a node has called another for so long in vain: the network is cut between them."""
    world, a, b = two(1, Faults(delay_ns=5 * MS), a=settings, b=settings, scheme=kind)
    a.send(b, "q", b"before")
    world.run(10 * SECOND)
    world.cut(a, b)
    a.send(b, "q", b"meanwhile")
    world.run(round(hours * HOUR))
    return world, a, b


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_down", [True, False])
def test_a_peer_that_is_away_costs_less_than_a_megabyte_a_day(kind: str, is_down: bool) -> None:
    """After the first hour, whether its host is there or not; a call each second was a hundred times as much."""
    world, a, b = away(kind, 1)
    if is_down:
        b.crash()
        world.heal()
    meter, logged = Meter(world), len(a.log())
    world.run(DAY)
    assert 100_000 < meter.sent_bytes < 1_000_000
    assert len(a.log()) - logged < 6_000
    world.heal()
    if is_down:
        b.start()
    assert world.run(121 * SECOND, lambda: b.length("q") == 2), "the longest wait, and a handshake"
    assert not judged(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lost", [0, 1])
def test_a_peer_that_calls_is_back_within_a_second(kind: str, lost: int) -> None:
    """However long it was away, and if our answer to its first datagram is lost: then it is called."""
    world, a, b = away(kind, 5)
    b.restart()
    world.heal()
    left = lost if kind == "udp" else 0  # a stream loses nothing

    def lose(datagram: bytes, sender: str, _to: str) -> bytes | None:
        nonlocal left
        left -= sender == a.address
        return None if sender == a.address and left >= 0 else datagram

    b.send(a, "q", b"here I am")
    world.network.alter = lose
    assert world.run(1_030 * MS, lambda: b.length("q") == 2)
    assert not judged(a, b)


@pytest.mark.gate
def test_what_is_new_after_a_quiet_time_is_called_for_at_once() -> None:
    """All that there was for the peer has expired. Whether it is there now is known after a call."""
    world, a, b = two(1, Faults(delay_ns=5 * MS))
    b.crash()
    a.send(b, "q", b"old", live_ms=600_000)
    world.run(3 * HOUR)
    a.send(b, "q", b"new")
    world.run(100 * MS)
    b.start()
    assert world.run(1_030 * MS, lambda: b.length("q") == 1)
