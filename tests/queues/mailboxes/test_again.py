"""Messages that come back, wait, or expire."""

from functools import partial
from typing import Any

import pytest

from tests.base.refusals import refuse_wrong_values
from tests.queues.relays import post
from tests.queues.world import SimNode, World, judged, single
from tests.sure import sure
from triack.base.delivery import Delivery
from triack.base.errors import UsageError
from triack.base.units import MS, SECOND
from triack.queues.fetching import fetch_packets
from triack.queues.mailboxes import expiry
from triack.queues.mailboxes.progress import Setbacks
from triack.queues.mailboxes.queued_packet import QueuedPacket
from triack.queues.mailboxes.redelivery import Return, Wait, wait_ms
from triack.queues.mailboxes.returned import Returned
from triack.queues.node_settings import NodeSettings, Redelivery
from triack.tools.sim.host import SimHost

# Messages that came back: in the order of the queue, none before its time, and what may pass them.


def packet(place: int) -> QueuedPacket:
    return QueuedPacket([place], b"o" * 16, 1, 1, place, Delivery.TRANSACTIONAL, 9, 1, [b"x"], first_place=10 * place)


class Reader:
    """What came back to a reader, and why it waits."""

    def __init__(self) -> None:
        self.setbacks = Setbacks()
        self.returned = Returned(self.setbacks)

    def wait(self, packet: QueuedPacket, index: int, wait: Wait) -> None:
        """A message comes back, and has to wait."""
        self.setbacks.waits[packet.first_place + index] = wait
        self.returned.put(packet, index, wait)


def drain(returned: Returned, now_ms: int) -> list[tuple[int, int]]:
    """Packets and indices of all that comes at a time."""
    found = []
    returned.handle_time(now_ms)
    while returned.coming and (one := returned.pop(now_ms)) is not None:
        found.append((one[0].number, one[1]))
    return found


def test_they_come_again_in_the_order_of_the_queue_unless_they_are_taken_out() -> None:
    reader = Reader()
    returned = reader.returned
    for number, index in ((2, 0), (1, 3), (1, 1), (3, 0)):
        returned.put(packet(number), index, None)
    reader.wait(packet(3), 1, Wait(7, 1, keep_order=False))
    assert [found.number for found in returned.oldest()] == [1, 3]
    returned.keep(lambda found, place: found.number != 3 or place != 30)
    assert drain(returned, 9) == [(1, 1), (1, 3), (2, 0), (3, 1)]


def test_what_may_be_passed_comes_when_its_wait_ends() -> None:
    reader = Reader()
    returned = reader.returned
    reader.wait(packet(1), 0, Wait(100, 50, keep_order=False))
    reader.wait(packet(2), 0, Wait(70, 50, keep_order=False))
    returned.put(packet(3), 0, None)
    assert [found.number for found in returned.oldest()] == [3, 2, 1]
    assert returned.resume_ms(0) == 70
    assert drain(returned, 69) == [(3, 0)]
    returned.put(packet(3), 0, None)
    assert drain(returned, 100) == [(1, 0), (2, 0), (3, 0)]


def fail_one(host: SimHost, queue: str) -> None:
    """A handler fails with the first message that waits."""
    now_ns = host.world.now_ns
    mailbox = host.live.make_queue(queue)
    lease = sure(host.live.take(mailbox, now_ns))
    host.live.give_back(mailbox, lease, Return(failed=True), now_ns)
    host.drain()


def test_a_value_that_cannot_be_is_refused() -> None:
    refuse_wrong_values(Redelivery)
    with pytest.raises(UsageError, match="keep_order must be True or False, not 1"):
        Redelivery(keep_order=1)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="queue_redelivery of orders must be a Redelivery, not 5"):
        NodeSettings(queue_redelivery={"orders": 5})  # type: ignore[dict-item]


def test_waits_double_from_a_second_to_a_minute() -> None:
    waits = [wait_ms(Redelivery(), failures) // 1_000 for failures in (*range(1, 9), 10**6)]
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert [wait_ms(Redelivery(first_wait_s=0), failures) for failures in (1, 2, 100)] == [0, 0, 0]


def test_the_listener_is_notified_when_the_wait_is_over() -> None:
    world, a = single(NodeSettings(queue_redelivery={"orders": Redelivery(first_wait_s=20)}))
    a.send(a, "orders", b"1")
    world.run(10 * MS)
    fail_one(a, "orders")
    world.run(SECOND)
    a.restart()
    told: list[int] = []
    mailbox = a.live.make_queue("orders")
    mailbox.listeners.append(lambda: told.append(a.read("orders")))
    assert a.read("orders") == 0
    world.run(18 * SECOND)
    assert sum(told) == 0
    world.run(2 * SECOND)
    assert sum(told) == 1


def test_a_clock_that_was_set_back_makes_no_wait_longer_however_often_the_node_starts() -> None:
    """Each start would have begun it anew: a node that starts more often than that would never hand the message out."""
    world, a = single(NodeSettings(redelivery=Redelivery(first_wait_s=60)))
    a.send(a, "q", b"1")
    world.run(10 * MS)
    fail_one(a, "q")
    a.wall_offset_ns -= 86_400 * SECOND
    read = []
    for _ in range(4):
        world.run(25 * SECOND)
        a.restart()
        read.append(len(a.read_all("q")))
    assert read == [0, 0, 1, 1]


# Messages that nobody received in time, in queues that are read and in those that nobody reads.


@pytest.fixture
def world() -> World:
    return World(1)


def letters(node: SimNode) -> list[tuple[bytes, dict[str, Any]]]:
    """The dead letters, which are taken out of their queue."""
    found = []
    box = node.live.make_queue("dead-letter")
    while (lease := node.live.take(box, node.world.now_ns)) is not None:
        content = lease.packet.open()
        assert content.receive_by_ms == 0
        found.append((lease.body, (content.properties or [{}])[lease.index]))
        box.acknowledge(lease)
    node.drain()
    return found


def bodies(node: SimNode) -> list[bytes]:
    return [body for body, _ in letters(node)]


@pytest.mark.parametrize("delivery", list(Delivery))
def test_what_nobody_reads_expires_in_its_queue_to_the_millisecond(world: World, delivery: Delivery) -> None:
    """And goes to the dead-letter queue of the node that has it, as in MSMQ; the replay finds it expired, not lost."""
    a, b = world.node("a"), world.node("b")
    post(a, "b", b"1", b"2", read_ms=2_000, delivery=delivery, label="l")
    post(a, "b", b"3", read_ms=0, delivery=delivery)
    world.run(1_999 * MS)
    assert (b.length("q"), b.length("dead-letter")) == (3, 0)
    world.run(20 * MS)
    assert (b.length("q"), b.length("dead-letter"), a.length("dead-letter")) == (1, 2, 0)
    why = {"label": "l", "dead_reason": "receive-timeout", "dead_destination": "q", "dead_attempts": 0}
    assert letters(b) == [(b"1", why), (b"2", why)]
    assert b.live.queues.dead_letters == {"receive-timeout": 2}
    assert [(record["number"], record["counts"]) for record in b.log("expired")] == [(1, [[1, 2]])]
    assert b.read_all("q") == [b"3"]
    assert judged(a, b) <= {"silent_end"}


def test_what_arrives_too_late_expires_at_once(world: World) -> None:
    """Its sender did not know yet that it was, and does not know whether it arrived."""
    a, b = world.node("a"), world.node("b")
    a.send(b, "other", b"measures the way")
    world.run(5 * SECOND)
    world.network.faults.delay_ns = 600 * MS
    post(a, "b", b"x", read_ms=500)
    world.run(5 * SECOND)
    assert (b.read("q"), bodies(b)) == (0, [b"x"])
    assert [letter["dead_maybe_delivered"] for _, letter in letters(a)] == [True]


def test_nobody_is_handed_a_message_whose_time_is_over_before_the_timer_came(world: World) -> None:
    node = world.node("a")
    post(node, "", b"1", b"2", read_ms=1_000)
    post(node, "", b"3", read_ms=0)
    world.run(100 * MS)
    box, engine = node.live.make_queue("q"), node.live
    first = sure(engine.take(box, world.now_ns))
    late_ns = world.now_ns + SECOND
    ((run, drawn),) = engine.draw_runs(box, 9, 9, late_ns)
    assert [run.lease(index).body for index in drawn] == [b"3"]
    box.acknowledge(first)
    world.run(SECOND)
    assert bodies(node) == [b"2"]


def test_what_somebody_has_in_hand_does_not_expire(world: World) -> None:
    node = world.node("a")
    post(node, "", b"1", b"2", b"3", read_ms=1_000)
    world.run(100 * MS)
    box, engine = node.live.make_queue("q"), node.live
    first, second = sure(engine.take(box, world.now_ns)), sure(engine.take(box, world.now_ns))
    world.run(2 * SECOND)
    assert (bodies(node), box.length) == ([b"3"], 2)
    box.acknowledge(first)
    engine.give_back(box, second, Return(failed=True, delay_ms=60_000), world.now_ns)
    node.drain()
    world.run(100 * MS)
    assert (bodies(node), box.length) == ([b"2"], 0)
    node.restart()
    world.run(SECOND)
    assert (node.length("q"), bodies(node)) == (0, [])


def test_what_waits_to_come_again_expires_meanwhile(world: World) -> None:
    node = world.node("a")
    post(node, "", b"1", read_ms=1_000)
    post(node, "", b"2", read_ms=0)
    world.run(100 * MS)
    box, engine = node.live.make_queue("q"), node.live
    lease = sure(engine.take(box, world.now_ns))
    engine.give_back(box, lease, Return(failed=True, delay_ms=3_600_000), world.now_ns)
    node.drain()
    assert engine.take(box, world.now_ns) is None
    world.run(SECOND)
    assert node.read_all("q") == [b"2"]
    assert bodies(node) == [b"1"]


def test_times_to_be_received_survive_restarts(world: World) -> None:
    node = world.node("a")
    post(node, "", b"1", read_ms=1_000)
    post(node, "", b"2", read_ms=5_000)
    world.run(100 * MS)
    node.crash()
    world.run(2 * SECOND)
    node.start()
    world.run(100 * MS)
    assert (bodies(node), node.length("q")) == ([b"1"], 1)
    world.run(3 * SECOND)
    assert (bodies(node), node.length("q")) == ([b"2"], 0)


def test_large_and_many_messages_whose_bodies_only_the_disk_has_expire(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "fetch_packets", partial(fetch_packets, most_bytes=10_000))
    monkeypatch.setattr(expiry, "LETTERS_MAX", 20)
    a, b = world.node("a"), world.node("b", NodeSettings(body_cache_bytes=0))
    large = [bytes([number]) * 30_000 for number in range(3)]
    small = [b"%03d" % number for number in range(100)]
    post(a, "b", *large, *small, read_ms=3_000)
    world.run(2 * SECOND)
    assert (b.length("q"), b.reads) == (103, 0)
    b.restart()
    world.run(3 * SECOND)
    # The letters are read from the disk as well.
    assert b.read_all("dead-letter") == [*large, *small]
    assert b.reads == 3 + 1 + 1
    assert b.length("q") == 0


def test_a_queue_without_such_messages_has_no_timer(world: World) -> None:
    node = world.node("a")
    post(node, "", b"1", read_ms=0)
    world.run(SECOND)
    assert node.live.queues.notices.expiring.earliest() is None
    post(node, "", b"2", read_ms=60_000)
    world.run(SECOND)
    assert node.live.queues.notices.expiring.earliest() is not None
    assert node.read_all("q") == [b"1", b"2"]
    assert node.live.queues.notices.expiring.earliest() is None
