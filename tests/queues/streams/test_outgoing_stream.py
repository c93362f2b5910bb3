"""One outgoing stream: tickets, packets, expiries."""

import gc
import tracemalloc

import pytest

from tests.queues.outgoing import make_outgoing
from triack.base.commit import OutgoingIndex
from triack.base.delivery import Delivery
from triack.queues.packing import DEAD_LETTER, Outgoing, unpack
from triack.queues.stages import Stage
from triack.tools.compiled import is_compiled


def test_tickets_and_packets_agree_over_batches_and_fragments() -> None:
    """Every message finds the packets that hold it, whatever was sent before and after it."""
    outgoing = make_outgoing()
    bodies = [b"a" * 20, b"b" * 2_000, b"c" * 20, b"d" * 20, b"e" * 1_000]
    tickets = [outgoing.submit(body, len(body)) for body in bodies]
    assert tickets == [0, 1, 2, 3, 4]
    assert outgoing.ordinal_of(4) == 104
    entries = outgoing.poll_packets(1)
    assert [entry.number for entry in entries] == list(range(1, len(entries) + 1))
    outgoing.start(entries)
    for ticket, body in enumerate(bodies):
        held = outgoing.stages.wait(ticket, Stage.ORDERED, lambda reason: None)
        assert (len(held) > 1) == (len(body) > 500)
        assert all(body[:1] in (entry.body or b"") for entry in held)


def test_numbers_go_on_where_the_disk_says() -> None:
    """A number is never used twice."""
    outgoing = make_outgoing(next_number=41)
    outgoing.submit(b"x", 1)
    entries = outgoing.poll_packets(1)
    outgoing.submit(b"y", 1)
    more = outgoing.poll_packets(1)
    assert [entry.number for entry in entries + more] == [41, 42]
    assert outgoing.sequence.next_number == 43


def test_bytes_that_wait_are_counted_and_let_go() -> None:
    """Back-pressure is measured by them."""
    outgoing = make_outgoing(delivery=Delivery.EXPRESS)
    outgoing.submit(b"x" * 300, 300)
    assert (outgoing.pending_bytes, outgoing.unacked_bytes) == (300, 0)
    entries = outgoing.poll_packets(1)
    outgoing.start(entries)
    assert outgoing.pending_bytes == 0
    assert outgoing.unacked_bytes >= 300
    outgoing.handle_freed(entries[:1])
    assert outgoing.unacked_bytes == 0


def test_packets_expire_by_their_deadline_once() -> None:
    """In the order of their deadlines, and only those that are still wanted."""
    outgoing = make_outgoing()
    for reach_by_ms in (300, 100, 200):
        outgoing.submit(Outgoing(b"%d" % reach_by_ms, None, reach_by_ms), 3)
    outgoing.submit(b"for ever", 8)
    entries = outgoing.poll_packets(1)
    outgoing.start(entries)
    assert outgoing.next_expiry_ms == 100
    assert outgoing.poll_expired(99, 9) == []
    outgoing.sequence.remove(entries[2])
    assert outgoing.poll_expired(250, 9) == [entries[1]]
    assert outgoing.poll_expired(250, 9) == []
    assert outgoing.next_expiry_ms == 300


def test_a_packet_cares_before_and_after_a_restart() -> None:
    """Its sender may ask for what only its body tells."""
    outgoing = make_outgoing()
    outgoing.submit(b"plain", 5)
    outgoing.submit(Outgoing(b"quiet", {DEAD_LETTER: False}), 5)
    entries = outgoing.poll_packets(1)
    assert [entry.cares for entry in entries] == [False, True]
    again = make_outgoing()
    for entry in entries:
        again.restore(OutgoingIndex(entry.number, 1, 0, entry.size_bytes, entry.cares), entry.number)
    assert [entry.cares for entry in again.sequence.entries.values()] == [False, True]


def test_what_is_gone_expires_no_more() -> None:
    """Nobody is woken for it, and it takes no room until its time has come."""
    outgoing = make_outgoing()
    for reach_by_ms in (300, 100, 200):
        outgoing.submit(Outgoing(bytes(400), None, reach_by_ms), 400)
    entries = outgoing.poll_packets(1)
    outgoing.start(entries)
    left: list[int | None] = []
    for index in (1, 0, 2):
        outgoing.sequence.remove(entries[index])
        outgoing.handle_freed([entries[index]])
        left.append(outgoing.next_expiry_ms)
    assert left == [200, 200, None]


def test_packets_that_expire_together_come_a_few_at_a_time() -> None:
    """The others are due still."""
    outgoing = make_outgoing()
    for number in range(5):
        outgoing.submit(Outgoing(b"%d" % number, None, 100 + number), 1)
    outgoing.start(outgoing.poll_packets(1))
    assert [entry.number for entry in outgoing.poll_expired(200, 3)] == [1, 2, 3]
    assert outgoing.next_expiry_ms == 103
    assert [entry.number for entry in outgoing.poll_expired(200, 3)] == [4, 5]
    assert outgoing.next_expiry_ms is None


def test_a_stream_is_busy_until_everything_is_freed() -> None:
    """GroupCommit, waiting or unacknowledged."""
    outgoing = make_outgoing()
    assert not outgoing.busy
    outgoing.submit(b"x", 1)
    assert outgoing.busy
    entries = outgoing.poll_packets(1)
    outgoing.start(entries)
    assert outgoing.busy
    outgoing.sequence.handle_sent(entries[:1], 0)
    assert outgoing.sequence.handle_order_ack(1, 1, 0) == entries
    assert not outgoing.busy


def test_a_packet_never_holds_ordinals_of_two_blocks() -> None:
    """A message has its ordinal as soon as it is submitted, and keeps it in its packet; blocks may touch or not."""
    outgoing = make_outgoing(content_bytes=60_000)
    blocks = {1_000: (1_100, 2), 1_002: (5_000, 4_096)}  # the first touches the one before it
    said = []
    for ticket in range(1_010):
        if ticket == outgoing.numbered:
            outgoing.number(*blocks[ticket])
        said.append(outgoing.ordinal_of(outgoing.submit(b"%d" % ticket, 1)))
        assert said[-1] == (100 + ticket if ticket < 1_002 else 5_000 + ticket - 1_002)
        if ticket in (7, 1_003):
            entries = outgoing.poll_packets(1)
            outgoing.start(entries)
    outgoing.start(outgoing.poll_packets(1))
    found: list[int] = []
    for entry in outgoing.sequence.entries.values():
        content = unpack(entry.body or b"")
        assert list(content.bodies) == [b"%d" % (len(found) + at) for at in range(len(content.bodies))]
        found += [content.first_ordinal + at for at in range(len(content.bodies))]
    assert found == said


@pytest.mark.slow
@pytest.mark.skipif(is_compiled(), reason="what machine code allocates is not counted")
def test_a_packet_that_waits_takes_a_third_of_a_kilobyte() -> None:
    """Beside its body, which the disk has; 348 bytes on Python 3.11. A million messages are a hundred thousand."""
    outgoing = make_outgoing()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(100):
            outgoing.submit_many([b"x" * 100] * 1_000, 100_000)
            entries = outgoing.poll_packets(0)
            outgoing.start(entries)
            for entry in entries:
                entry.body = None
            del entries, entry
            outgoing.number(outgoing.submitted + 100, 1_000)
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert taken / len(outgoing.sequence.entries) < 365
