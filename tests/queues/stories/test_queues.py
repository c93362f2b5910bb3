"""Queues of a node: paused, with priorities, with deaths of readers."""

from itertools import pairwise
from typing import Any

import pytest

from tests.queues.world import SimNode, World, judged, numbered, reasons, single, two
from triack.base.delivery import DURABLE, Delivery
from triack.base.names import StreamId
from triack.base.reasons import HoldReason
from triack.base.units import MS, SECOND
from triack.queues.mailboxes import incoming_run
from triack.queues.mailboxes.incoming_run import IncomingRun
from triack.queues.mailboxes.mailbox import Mailbox
from triack.queues.mailboxes.queued_packet import QueuedPacket
from triack.queues.node_settings import Journal, Limits, NodeSettings, Quota, Redelivery
from triack.queues.peers.link import Conversation
from triack.session.protocol.settings import SessionSettings
from triack.tools.sim.faults import Faults

HOUR = 3_600 * SECOND


def pause(node: SimNode, name: str, *, arrivals: bool = False) -> None:
    """An operator pauses a queue."""
    node.live.pause(name, arrivals=arrivals, now_ns=node.world.now_ns)
    node.drain()


def resume(node: SimNode, name: str) -> None:
    assert node.live.resume(name, node.world.now_ns)
    node.drain()


@pytest.mark.parametrize("delivery", list(Delivery))
def test_nothing_leaves_a_paused_outgoing_queue(delivery: Delivery) -> None:
    """Another queue of the peer goes on; when it is resumed everything arrives once, in order."""
    world, a, b = two()
    a.send(b, "q", b"before", delivery=delivery)
    assert world.run(5 * SECOND, lambda: b.length("q") == 1)
    pause(a, f"{b.name}/q")
    a.send(b, "q", *numbered(0, 100), delivery=delivery)
    a.send(b, "other", b"goes on", delivery=delivery)
    world.run(HOUR)
    assert (b.length("q"), b.length("other")) == (1, 1)
    resume(a, f"{b.name}/q")
    assert world.run(5 * SECOND, lambda: not a.busy)
    assert b.read_all("q") == [b"before", *numbered(0, 100)]


def test_what_was_sent_before_the_pause_is_not_sent_again_in_it() -> None:
    """The peer is away; its return changes nothing until the queue is resumed."""
    world, a, b = two(4)
    a.send(b, "q", b"0")
    assert world.run(5 * SECOND, lambda: not a.busy)
    world.cut(a, b)
    a.send(b, "q", *numbered(1, 5))
    world.run(SECOND)
    pause(a, f"{b.name}/q")
    world.run(600 * SECOND)
    world.heal()
    sent = len(a.log("packet_sent"))
    world.run(HOUR)
    assert len(a.log("packet_sent")) == sent
    resume(a, f"{b.name}/q")
    assert world.run(5 * SECOND, lambda: not a.busy)
    assert b.read_all("q") == [b"0", *numbered(1, 5)]


def test_a_message_in_a_paused_queue_expires() -> None:
    """Its dead letter is there in time."""
    world, a, b = two(5)
    pause(a, f"{b.name}/q")
    a.send(b, "q", b"late", live_ms=60_000)
    assert world.run(61 * SECOND, lambda: a.length("dead-letter") == 1)


@pytest.mark.parametrize("delivery", list(Delivery))
def test_a_queue_whose_arrivals_are_paused_holds_its_senders(delivery: Delivery) -> None:
    """The sender says why it waits; nothing is refused, even by a queue that refuses when it is full."""
    settings = NodeSettings(limits=Limits(queue_quota={"q": Quota(1_000, when_full="reject")}))
    world, a, b = two(7, b=settings)
    a.send(b, "q", *numbered(0, 10), delivery=delivery)
    assert world.run(5 * SECOND, lambda: b.length("q") == 10)
    pause(b, "q", arrivals=True)
    for first in range(10, 500, 10):
        a.send(b, "q", *numbered(first, first + 10), delivery=delivery)
        world.run(SECOND // 10)
    world.run(600 * SECOND)
    there = b.length("q")
    assert there == 10 if delivery in DURABLE else there < 500
    assert [it.reason for it in a.outbox.holds.streams] == [HoldReason.PAUSED]
    resume(b, "q")
    assert world.run(5 * SECOND, lambda: not a.busy)
    assert sorted(b.read_all("q")) == numbered(0, 500)
    assert a.length("dead-letter") == 0


# Priorities, from the sender to the reader: what is more urgent is read first, and nothing starves.

RECOVERABLE, TRANSACTIONAL = Delivery.RECOVERABLE, Delivery.TRANSACTIONAL


def settle(world: World, sender: SimNode) -> None:
    assert world.run(60 * SECOND, lambda: not sender.busy)


def test_what_waited_for_the_peer_leaves_with_the_most_urgent_first() -> None:
    """Also when the sender was restarted meanwhile, so that the bodies are only on its disk."""
    world, a, b = two(2, a=NodeSettings(messages_per_packet=1))
    world.cut(a, b)
    for priority in (0, 3, 7):
        a.send(b, "q", *numbered(0, 200), delivery=RECOVERABLE, priority=priority)
    world.run(SECOND)
    a.restart()
    world.heal()
    settle(world, a)
    sent = [record["stream"] for record in a.log("packet_sent") if "stream" in record]
    by_stream = {outgoing.stream_number: outgoing.priority for outgoing in a.outbox.streams}
    first_at = {by_stream[stream]: sent.index(stream) for stream in dict.fromkeys(sent)}
    assert first_at[7] == 0
    assert first_at[3] >= 200
    assert first_at[0] >= 63, "one packet in 64 goes to the lowest"


@pytest.mark.gate
def test_a_large_message_that_has_arrived_in_part_keeps_no_other_waiting() -> None:
    """The more urgent one is read before its pieces are complete."""
    world, a, b = two(5)
    a.send(b, "q", bytes(4_000_000), delivery=RECOVERABLE, priority=0)
    assert world.run(60 * SECOND, lambda: "q" in b.live.queues.mailboxes)
    a.send(b, "q", b"urgent", delivery=RECOVERABLE, priority=7)
    arrived = [b"urgent", bytes(4_000_000)]
    assert world.run(10 * SECOND, lambda: b.read("q") < 2 and b.received["q"] == arrived)


@pytest.mark.gate
@pytest.mark.parametrize("seed", range(3))
def test_pieces_by_the_run_do_what_they_do_one_by_one(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """On a path that loses, repeats and reorders: the session logs of both ends are the same to the byte."""
    bad = Faults(loss=0.1, duplicate=0.1, delay_ns=2 * MS, jitter_ns=2 * MS, mtu_bytes=1_200)
    large = [bytes([at]) * 30_000 for at in range(20)]

    def logs() -> bytes:
        world, a, b = two(seed, bad)
        a.send(b, "q", *large, delivery=(TRANSACTIONAL, RECOVERABLE)[seed % 2])
        assert world.run(120 * SECOND, lambda: b.length("q") == len(large))
        fill = b.live.queues.mailboxes["q"].fill
        assert (fill.messages.value, fill.bytes.value) == (len(large), sum(map(len, large)))
        b.restart()
        assert sorted(b.read_all("q")) == large
        return b"".join([*a.records, *b.records])

    taken: list[IncomingRun] = []
    charge_run = Mailbox.charge_run

    def noting(box: Mailbox, run: IncomingRun, delivery: Delivery) -> list[QueuedPacket]:
        taken.append(run)
        return charge_run(box, run, delivery)

    monkeypatch.setattr(Mailbox, "charge_run", noting)
    by_the_run = logs()
    assert len([run for run in taken if run.piece_of]) > 20
    monkeypatch.setattr(incoming_run, "read_piece", lambda body: None)
    assert logs() == by_the_run


def test_classes_of_one_priority_are_read_in_the_order_of_their_arrival() -> None:
    """A transactional message has priority 0, as a recoverable one may have."""
    world, a = single(seed=6)
    for number in range(6):
        a.send(a, "q", b"%d" % number, delivery=(TRANSACTIONAL, RECOVERABLE)[number % 2], priority=0)
        settle(world, a)
    assert a.read_all("q") == [b"%d" % number for number in range(6)]


def test_a_full_queue_lets_the_more_urgent_streams_go_on_first() -> None:
    """It holds all of them back."""
    world, a, b = two(7, b=NodeSettings(limits=Limits(queue_quota={"q": Quota(messages=5)})))
    a.send(b, "q", *numbered(0, 5), delivery=RECOVERABLE, priority=3)
    assert world.run(60 * SECOND, lambda: b.length("q") == 5)
    for priority in (0, 3, 7):
        a.send(b, "q", b"held", delivery=RECOVERABLE, priority=priority)
        world.run(SECOND)
    admission = b.live.inbox.admission
    assert len(admission.holds.streams) == 3
    priorities = {stream.id: stream.priority for stream in admission.holds.stopped}
    told: list[int] = []
    say = admission.stream_places.hold_sender.say

    def noting(conversation: Conversation, stream: StreamId, *rest: Any, **more: Any) -> int:
        told.append(priorities[stream])
        return say(conversation, stream, *rest, **more)

    admission.stream_places.hold_sender.say = noting  # type: ignore[method-assign]
    b.read("q")
    assert world.run(SECOND, lambda: len(told) >= 3)
    assert told[:3] == [7, 3, 0]


# A process that dies with a message in hand: what counts, what is done, and what comes again.


@pytest.fixture
def node() -> SimNode:
    """A node with three messages, all on its disk."""
    world, node = single(NodeSettings(max_redeliveries=2, redelivery=Redelivery(first_wait_s=0)))
    node.send(node, "q", b"1", b"2", b"3")
    world.run(SECOND)
    return node


def take(node: SimNode) -> tuple[bytes, int]:
    """The next message, and how often it has failed."""
    lease = node.take()
    return lease.body, node.live.make_queue("q").failures_of(lease)


def test_what_was_in_hand_has_failed(node: SimNode) -> None:
    """It alone, and once for each process; then it is dead, and the next one comes."""
    for times in range(3):
        assert take(node) == (b"1", times)
        node.end()
        node.start()
    assert take(node) == (b"2", 0)
    node.drain()
    node.world.run(SECOND)
    assert node.read_all("dead-letter") == [b"1"]


def test_a_death_before_the_first_commit_of_a_start_loses_nothing(node: SimNode) -> None:
    """What it found it had not told a commit of; it handed nothing out."""
    take(node)
    node.end()
    for _ in range(3):
        node.start()
        assert node.live.take(node.live.make_queue("q"), node.world.now_ns) is None
        node.end()
    node.start()
    assert take(node) == (b"1", 1)


def test_a_loss_of_power_is_no_failure(node: SimNode) -> None:
    take(node)
    node.end(node.disk.lose_power)
    node.start()
    assert take(node) == (b"1", 0)


def test_what_was_acknowledged_does_not_come_again(node: SimNode) -> None:
    """Though no commit said so yet."""
    node.acknowledge(node.take())
    take(node)
    node.end()
    node.start()
    assert take(node) == (b"2", 1)


def test_what_was_acknowledged_behind_a_send_comes_again_with_it(node: SimNode) -> None:
    """The process had not stored what its handler sent: without that the message is not done."""
    lease = node.take()
    node.live.submit(node.live.outgoing_stream("", "results", TRANSACTIONAL), b"result", 6)
    node.acknowledge(lease)
    node.end()
    node.start()
    node.world.run(SECOND)
    assert (node.length("results"), take(node)) == (0, (b"1", 0))


@pytest.mark.parametrize("is_told", [True, False], ids=["handed", "neither"])
@pytest.mark.parametrize("deaths", [1, 2])
@pytest.mark.parametrize(
    "settings", [NodeSettings(), NodeSettings(limits=Limits(queue_journal={"q": Journal()}))], ids=["plain", "journal"]
)
def test_the_next_log_says_what_the_notes_know_of_an_acknowledgement(
    is_told: bool, deaths: int, settings: NodeSettings
) -> None:
    """The log of the process that died lacks it, and perhaps that the message was handed out."""
    world, node = single(settings)
    for body in (b"1", b"2", b"3"):
        node.send(node, "q", body)
        world.run(SECOND)
    lease = node.take()
    if is_told:
        node.drain()
    node.acknowledge(lease)
    for _ in range(deaths):
        node.end()
        node.start()
    for body in (b"2", b"3"):
        lease = node.take()
        assert lease.body == body
        node.acknowledge(lease)
        node.drain()
    world.run(SECOND)
    assert not judged(*world.made)


# The resend tiers on a link that is quiet for hours: sessions come and go, the attempts go on.

MINUTE, TIER_HOUR = 60 * SECOND, 3_600 * SECOND
TIERS = [30 * SECOND] * 3 + [5 * MINUTE] * 3 + [30 * MINUTE] * 3 + [6 * TIER_HOUR] * 2


def pair(cleanup: tuple[float, float] = (300.0, 300.0)) -> tuple[World, SimNode, SimNode]:
    """Two nodes; the second never says how far it has accepted anything."""
    own, other = (NodeSettings(session=SessionSettings(cleanup_interval_s=interval_s)) for interval_s in cleanup)
    world, a, b = two(7, Faults(delay_ns=5 * MS), a=own, b=other)
    b.withhold()
    return world, a, b


def waits(node: SimNode) -> list[int]:
    """How long it waited before each resend, by the clock."""
    begun = next(record["at_ns"] for record in node.log("packet_sent") if "stream" in record)
    at = [begun, *(record["at_ns"] for record in node.log("resend_scheduled"))]
    return [later - earlier for earlier, later in pairwise(at)]


def attempts(node: SimNode) -> list[int]:
    return [record["attempt"] for record in node.log("resend_scheduled")]


def sent(node: SimNode) -> list[int]:
    """The numbers of the packets of streams that left."""
    return [record["number"] for record in node.log("packet_sent") if "stream" in record]


@pytest.mark.parametrize("cleanup", [(300.0, 300.0), (20.0, 300.0), (300.0, 20.0), (10_000.0, 10_000.0)], ids=str)
@pytest.mark.plain
def test_a_quiet_link_sees_every_tier(cleanup: tuple[float, float]) -> None:
    """30 s, 5 min and 30 min three times each, then every 6 h, whichever end closes sessions as idle."""
    world, a, b = pair(cleanup)
    a.send(b, "q", *numbered(0, 3))
    world.run(14 * TIER_HOUR)
    # Each resend is one packet, and nothing leaves in between: a resend that opens a session goes on counting.
    assert (waits(a), attempts(a), len(sent(a))) == (TIERS, list(range(1, 12)), 12)
    assert set(reasons(a)) <= {"idle"}


def test_the_tiers_of_a_paused_queue_go_on() -> None:
    """What is due meanwhile leaves when the queue is resumed: replay sees every attempt in its time."""
    world, a, b = pair()
    a.send(b, "q", *numbered(0, 3))
    world.run(SECOND)
    pause(a, "b/q")
    world.run(10 * MINUTE)
    assert (attempts(a), len(sent(a))) == ([1], 1)
    del b.live.inbox.order_acks.send
    resume(a, "b/q")
    world.run(MINUTE)
    assert (a.busy, b.read_all("q")) == (False, numbered(0, 3))
    assert judged(a, b) <= {"order_ack_late"}


@pytest.mark.plain
def test_what_is_new_does_not_wait_for_what_waits() -> None:
    """A message that is sent between two attempts leaves at once, by itself, and changes no wait."""
    world, a, b = pair((8 * 3_600.0, 8 * 3_600.0))
    a.send(b, "q", *numbered(0, 1))
    world.run(TIER_HOUR)
    before = len(sent(a))
    a.send(b, "q", *numbered(1, 2))
    world.run(MINUTE)
    assert sent(a)[before:] == [2]
    world.run(13 * TIER_HOUR)
    assert waits(a) == TIERS
    assert b.read_all("q") == numbered(0, 2)
