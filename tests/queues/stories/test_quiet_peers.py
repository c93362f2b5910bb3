"""Peers that owe nothing but order acks: one that is gone is found out soon, one that is there is hardly disturbed."""

from collections import Counter
from itertools import pairwise

import pytest

from tests.queues.world import SimNode, World, judged, numbered, reasons, two
from triack.base.ack_trigger import AckTrigger
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.ordering.order_settings import OrderSettings
from triack.queues.node_settings import Limits, NodeSettings, Quota
from triack.session.protocol.settings import SessionSettings
from triack.tools.sim.faults import Faults

pytestmark = pytest.mark.plain
HOUR = 3_600 * SECOND
KINDS = ("udp", "tcp")
NOTICED_NS = 6 * SECOND
"""Half an ack timeout until it asks, one of silence, and a connection. The first tier is 30 s."""


def couple(
    kind: str = "udp", a: SessionSettings | None = None, b: SessionSettings | None = None, idle_s: float = 0.5
) -> tuple[World, SimNode, SimNode]:
    """Two nodes, and a network that carries datagrams or streams; order acks leave so long after a burst."""
    order = OrderSettings(order_ack_idle_s=idle_s)
    one, other = (NodeSettings(session=it or SessionSettings(), order=order) for it in (a, b))
    return two(3, Faults(delay_ns=5 * MS), a=one, b=other, scheme=kind)


def pings(node: SimNode) -> list[int]:
    return [record["at_ns"] for record in node.log("ping_sent")]


def send_and_store(world: World, a: SimNode, b: SimNode, for_ns: int) -> None:
    """Let ``a`` send: sessions and stores have acknowledged it, and no order ack has come."""
    b.withhold()
    a.send(b, "q", *numbered(0, 3))
    world.run(for_ns)
    assert all([a.log("ack_received"), a.log("store_ack_received"), a.busy])


@pytest.mark.parametrize("kind", KINDS)
def test_a_peer_that_died_with_its_order_ack_is_found_out(kind: str) -> None:
    """It starts again at once, and knows of no session: nothing would ever come of it."""
    world, a, b = couple(kind)
    send_and_store(world, a, b, 800 * MS)
    b.restart()
    world.run(NOTICED_NS)
    assert (a.busy, b.read_all("q"), a.log("resend_scheduled")) == (False, numbered(0, 3), [])


@pytest.mark.parametrize("kind", KINDS)
def test_a_peer_that_cannot_be_reached_is_given_up_by_the_ack_timeout(kind: str) -> None:
    """Though every packet has been acknowledged; streams give no sign of it for minutes."""
    world, a, b = couple(kind)
    send_and_store(world, a, b, 800 * MS)
    world.cut(a, b)
    world.run(4 * SECOND)
    assert reasons(a) == ["ack-timeout"]
    assert a.log("session_closed")[0]["unacked"] == 0


def test_a_peer_that_has_moved_gets_its_acks_at_its_new_address() -> None:
    """The order ack goes to the old one: where the new one is nobody knows before it speaks."""
    world, a, b = couple(idle_s=0.9)
    a.send(b, "q", *numbered(0, 3))
    world.run(600 * MS)
    assert a.log("store_ack_received")
    assert a.busy
    world.network.rebind(a.address)
    world.run(NOTICED_NS)
    assert (a.busy, b.read_all("q"), a.log("resend_scheduled")) == (False, numbered(0, 3), [])


def test_what_a_peer_closed_unheard_is_closed_when_it_opens_another() -> None:
    """Its answer need not wait for the ack timeout of the session that is dead."""
    world, a, b = couple()
    a.send(b, "q", b"hello")
    world.run(2 * SECOND)
    world.cut(a, b)
    b.send(a, "questions", b"?")
    assert world.run(20 * SECOND, lambda: b.live.closes.total() > 0)
    assert not reasons(a)
    world.heal()
    assert world.run(SECOND, lambda: a.length("questions") == 1)
    a.send(b, "answers", b"!")
    assert world.run(100 * MS, lambda: b.length("answers") == 1)
    assert reasons(a) == ["superseded"]


@pytest.mark.gate
@pytest.mark.parametrize("kind", KINDS)
def test_a_peer_that_lives_is_asked_ever_more_rarely(kind: str) -> None:
    """Each wait is twice the one before, and the session ends as idle all the same: pings are no packets."""
    world, a, b = couple(kind)
    send_and_store(world, a, b, 25 * SECOND)
    waits = [later - earlier for earlier, later in pairwise(pings(a))]
    assert [wait // SECOND for wait in waits] == [2, 4, 8]
    world.run(14 * HOUR)
    per_hour = Counter(at // HOUR for at in pings(a))
    # The three tiers of 30 s and three of 5 min are in the first hour, and from the third on there is one in six hours.
    assert per_hour.pop(0) <= 60
    assert per_hour.pop(1) <= 20
    assert (len(per_hour), max(per_hour.values()) <= 8) == (2, True)
    assert set(reasons(a)) == {"idle"}
    assert len([record for record in a.log("packet_sent") if "stream" in record]) == 1 + len(a.log("resend_scheduled"))


HASTY = SessionSettings(ack_timeout_s=0.6, store_ack_timeout_s=5.0)
PATIENT = SessionSettings(
    ack_timeout_s=60.0,
    ack_trigger=AckTrigger(window_share=1.0, delay_s=20.0, piggyback_after=None, on_request=False, on_gap=False),
)


@pytest.mark.parametrize(("mine", "its"), [(HASTY, PATIENT), (PATIENT, HASTY)], ids=["hasty", "patient"])
def test_whatever_a_peer_was_told_it_answers_a_ping_at_once(mine: SessionSettings, its: SessionSettings) -> None:
    """So that it is not given up for a policy of its own, nor is it asked more often than this end is impatient."""
    world, a, b = couple("udp", mine, its)
    send_and_store(world, a, b, 100 * SECOND)
    world.run(HOUR)
    assert pings(a)
    assert set(reasons(a)) == {"idle"}
    del b.live.inbox.order_acks.send
    world.run(HOUR)
    assert not a.busy


@pytest.mark.parametrize("kind", KINDS)
def test_a_queue_that_nobody_reads_is_not_asked_about(kind: str) -> None:
    """It is full, and its node has said so: what waits for room waits for no order ack."""
    full = NodeSettings(limits=Limits(quota=Quota(messages=2)))
    world, a, b = two(3, Faults(delay_ns=5 * MS), b=full, scheme=kind)
    for body in numbered(0, 6):
        a.send(b, "q", body)
        world.run(20 * MS)
    world.run(20 * SECOND)
    begun = len(pings(a))
    world.run(HOUR // 4)
    assert a.busy
    assert len(pings(a)) - begun <= 2
    assert b.read_all("q")[:2] == numbered(0, 2)


def test_nobody_is_asked_who_says_all_by_himself() -> None:
    """Order acks come before a peer is quiet, and afterwards nothing is awaited."""
    world, a, b = couple()
    for turn in range(10):
        a.send(b, "q", *numbered(turn, turn + 1))
        world.run(7 * SECOND)
    world.run(HOUR)
    assert not a.busy
    assert len(pings(a)) <= 1, "the initiator's first"
    assert reasons(a) == ["idle"]


def test_answers_to_probes_of_the_path_are_on_record() -> None:
    """An ack is lost. Until it is given again nothing else comes, for longer than the ack timeout."""
    settings = NodeSettings(session=SessionSettings(ack_timeout_s=0.3, max_datagram_bytes=1_700))
    world, a, b = two(3, Faults(delay_ns=60 * MS), both=settings)
    a.send(b, "q", *numbered(0, 3, 600), delivery=Delivery.EXPRESS)
    world.run(325 * MS)
    world.cut(b, a, both=False)
    world.run(10 * MS)
    world.heal()
    world.run(SECOND)
    acked = a.log("ack_received")[0]
    assert acked["at_ns"] - a.log("packet_sent")[0]["at_ns"] > 2 * 300 * MS
    assert len(a.log("probe_answered")) == len(b.log("probe_received"))
    assert reasons(a) == []
    assert not judged(a, b)


@pytest.mark.gate
def test_pieces_of_packets_that_are_not_whole_are_on_record() -> None:
    """A path carries less than the packets were cut for; of those that came at once there is one record."""
    world, a, b = couple(a=SessionSettings(max_unacked_packet=8))
    b.burst_ns = MS
    a.send(b, "q", bytes(40_000))
    world.run(2 * SECOND)
    assert a.log("path_size")[-1]["size"] == 32_000
    bodies = numbered(1, 41, 20_000)
    a.send(b, "q", *bodies)
    world.network.narrow(a.address, b.address, 1_200)
    assert world.run(60 * SECOND, lambda: b.length("q") > len(bodies))
    times = [record["at_ns"] for record in b.log("piece_received")]
    assert 0 < len(times) <= 2 * len(set(times))
    assert not judged(a, b)
