"""Outgoing streams and the outbox."""

import gc
import tracemalloc

import pytest

from tests.queues.outgoing import make_outgoing
from tests.queues.records import Log
from triack.base.commit import OutgoingIndex
from triack.base.delivery import Delivery
from triack.base.reasons import DeadReason
from triack.ordering.outgoing import StreamPacket
from triack.queues.messages import DEAD_LETTER, Outgoing
from triack.queues.packing import unpack
from triack.queues.stages import Stage
from triack.queues.streams.outgoing_stream import ORDINALS_BLOCK, Ordinals, OutgoingStream
from triack.queues.streams.stream_records import StreamRecords
from triack.tools.compiled import is_compiled


def test_tickets_and_packets_agree_over_batches_and_fragments() -> None:
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


def expiring(*reach_by_ms: int) -> tuple[OutgoingStream, list[StreamPacket]]:
    """Messages with these deadlines, in a packet each."""
    outgoing = make_outgoing()
    for deadline_ms in reach_by_ms:
        outgoing.submit(Outgoing(b"body", None, deadline_ms), 4)
    entries = outgoing.poll_packets(1)
    outgoing.start(entries)
    return outgoing, entries


def test_packets_expire_by_their_deadline_once() -> None:
    """In the order of their deadlines, and only those that are still wanted."""
    outgoing, entries = expiring(300, 100, 200, 0)
    assert outgoing.next_expiry_ms == 100
    assert outgoing.poll_expired(99, 9) == []
    outgoing.sequence.remove(entries[2])
    assert outgoing.poll_expired(250, 9) == [entries[1]]
    assert outgoing.poll_expired(250, 9) == []
    assert outgoing.next_expiry_ms == 300


def test_what_is_gone_expires_no_more() -> None:
    outgoing, entries = expiring(300, 100, 200)
    left: list[int | None] = []
    for index in (1, 0, 2):
        outgoing.sequence.remove(entries[index])
        outgoing.handle_freed([entries[index]])
        left.append(outgoing.next_expiry_ms)
    assert left == [200, 200, None]


def test_packets_that_expire_together_come_a_few_at_a_time() -> None:
    outgoing, entries = expiring(*range(100, 105))
    assert (outgoing.poll_expired(200, 3), outgoing.next_expiry_ms) == (entries[:3], 103)
    assert (outgoing.poll_expired(200, 3), outgoing.next_expiry_ms) == (entries[3:], None)


def test_a_packet_cares_before_and_after_a_restart() -> None:
    outgoing = make_outgoing()
    outgoing.submit(b"plain", 5)
    outgoing.submit(Outgoing(b"quiet", {DEAD_LETTER: False}), 5)
    entries = outgoing.poll_packets(1)
    assert [entry.cares for entry in entries] == [False, True]
    again = make_outgoing()
    for entry in entries:
        again.restore(OutgoingIndex(entry.number, 1, 0, entry.size_bytes, entry.cares), entry.number, 1)
    assert [entry.cares for entry in again.sequence.entries.values()] == [False, True]


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


def test_no_two_starts_and_no_two_queues_share_one() -> None:
    """Each outgoing queue takes a block; what another start gives out is far from it."""
    first, second = Ordinals(1), Ordinals(2)
    given = []
    for ordinals in (first, first, second):
        outgoing = make_outgoing()
        outgoing.submit_many([b""] * 1_000, 0)
        ordinals.number(outgoing)
        given.append(outgoing.ordinal_of(outgoing.submit(b"", 0)))
    assert given[1] == given[0] + ORDINALS_BLOCK
    assert given[2] - given[1] > 2**39


# What the log says of outgoing queues: the fields of each event, and neighbours as one record.


def filled(packets: int) -> tuple[OutgoingStream, list[StreamPacket]]:
    outgoing = make_outgoing(content_bytes=250)
    for number in range(packets):
        outgoing.submit(b"%d" % number * 120, 120)
    entries = outgoing.poll_packets(1)
    outgoing.start(entries)
    return outgoing, entries


def test_neighbours_are_queued_in_one_record() -> None:
    outgoing, entries = filled(5)
    log = Log()
    records = StreamRecords(log)
    records.queued(outgoing, [*entries[:2], *entries[3:]], 7)
    records.queued(outgoing, entries, 8, recovered=True)
    assert [(one["first"], one["last"], one["count"], one.get("recovered")) for one in log] == [
        (1, 2, 2, None),
        (4, 5, 2, None),
        (1, 5, 5, True),
    ]


def test_a_removal_says_why() -> None:
    """A message that ran out of time is expired, whichever time it was."""
    outgoing, entries = filled(2)
    log = Log()
    records = StreamRecords(log)
    records.removed(outgoing, entries[:1], DeadReason.RECEIVE_TIMEOUT, 7)
    records.removed(outgoing, entries[1:], DeadReason.PURGED, 8)
    assert [(one["first"], one["reason"]) for one in log] == [(1, "expired"), (2, "purged")]


def test_a_start_says_what_it_found_of_a_stream_to_a_queue_of_its_own() -> None:
    log = Log()
    records = StreamRecords(log)
    for delivery in (Delivery.TRANSACTIONAL, Delivery.RECOVERABLE):
        for peer, next_number in (("", 4), ("", 1), ("b", 4)):
            records.recovered(make_outgoing(delivery=delivery, peer=peer, next_number=next_number), 7)
    assert [(one["event"], one["class"], one.get("number"), one.get("ranges")) for one in log] == [
        ("position_recovered", "transactional", 3, None),
        ("position_recovered", "recoverable", None, [[1, 3]]),
    ]
