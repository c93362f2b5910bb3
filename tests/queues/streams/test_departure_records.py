"""What the log says of outgoing queues: the fields of each event, and neighbours as one record."""

from tests.queues.outgoing import make_outgoing
from tests.queues.records import Log
from triack.base.delivery import Delivery
from triack.base.reasons import DeadReason, HoldReason
from triack.ordering.outgoing import StreamPacket
from triack.queues.streams.dead_message import DeadMessage
from triack.queues.streams.departure_records import DepartureRecords
from triack.queues.streams.outgoing_stream import OutgoingStream

NODE = b"n" * 16


def filled(packets: int) -> tuple[OutgoingStream, list[StreamPacket]]:
    outgoing = make_outgoing(content_bytes=250)
    for number in range(packets):
        outgoing.submit(b"%d" % number * 120, 120)
    entries = outgoing.poll_packets(1)
    outgoing.start(entries)
    return outgoing, entries


def test_neighbours_are_queued_in_one_record() -> None:
    """A gap between them begins another record; recovered packets say that they are."""
    outgoing, entries = filled(5)
    log = Log()
    records = DepartureRecords(log, NODE)
    records.queued(outgoing, [*entries[:2], *entries[3:]], 7)
    records.queued(outgoing, entries, 8, recovered=True)
    assert [(one["first"], one["last"], one["count"], one.get("recovered")) for one in log] == [
        (1, 2, 2, None),
        (4, 5, 2, None),
        (1, 5, 5, True),
    ]


def test_a_queue_of_this_node_has_them_at_once() -> None:
    """Committed, by the name of the queue."""
    outgoing, entries = filled(3)
    log = Log()
    DepartureRecords(log, NODE).local(outgoing, entries, 7)
    assert [(one["event"], one["first"], one["last"], one["queue"]) for one in log] == [("committed", 1, 3, "q")]


def test_a_removal_says_why() -> None:
    """A message that ran out of time is expired, whichever time it was."""
    outgoing, entries = filled(2)
    log = Log()
    records = DepartureRecords(log, NODE)
    records.removed(DeadMessage(outgoing, entries[:1], DeadReason.RECEIVE_TIMEOUT), 7)
    records.removed(DeadMessage(outgoing, entries[1:], DeadReason.PURGED), 8)
    assert [(one["first"], one["reason"]) for one in log] == [(1, "expired"), (2, "purged")]


def test_a_resend_says_when_the_next_is_due() -> None:
    """By its attempt, and the wait of that tier."""
    outgoing, entries = filled(2)
    log = Log()
    records = DepartureRecords(log, NODE)
    records.order_ack(1, 1, 1, 5)
    outgoing.sequence.tier.handle_expired(7, resends=True)
    records.resend(outgoing, entries, 7)
    assert [one["event"] for one in log] == ["order_ack_received", "resend_scheduled"]
    assert {one["origin"] for one in log} == {NODE.hex()}
    assert log[1]["attempt"] == outgoing.sequence.tier.attempt
    assert log[1]["interval_ns"] == outgoing.sequence.tier.interval_of(log[1]["attempt"])


def test_the_word_of_a_full_queue_says_of_which_stream_it_is() -> None:
    """And whether to stop, and then why."""
    outgoing, _ = filled(1)
    log = Log()
    records = DepartureRecords(log, NODE)
    records.hold(outgoing, 7, HoldReason.PEER_QUOTA)
    records.hold(outgoing, 8, None)
    stream = {"origin": NODE.hex(), "stream": outgoing.stream_number, "sequence": outgoing.sequence.sequence}
    held = {"event": "hold_received", **stream, "class": outgoing.delivery.label}
    assert log == [{**held, "at": 7, "stop": True, "reason": "peer-quota"}, {**held, "at": 8, "stop": False}]


def test_a_start_says_what_it_found_of_a_stream_to_a_queue_of_its_own() -> None:
    """Up to which number, or which; of one that was never used, and of those to others, there is nothing to say."""
    log = Log()
    records = DepartureRecords(log, NODE)
    for delivery in (Delivery.TRANSACTIONAL, Delivery.RECOVERABLE):
        for peer, next_number in (("", 4), ("", 1), ("b", 4)):
            records.recovered(make_outgoing(delivery=delivery, peer=peer, next_number=next_number), 7)
    assert [(one["event"], one["class"], one.get("number"), one.get("ranges")) for one in log] == [
        ("position_recovered", "transactional", 3, None),
        ("position_recovered", "recoverable", None, [[1, 3]]),
    ]
