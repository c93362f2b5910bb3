"""Neighbouring packets share the record of what was handed out."""

from typing import Any

from triack.base.delivery import Delivery
from triack.queues.mailboxes.handed import handed_fields
from triack.queues.mailboxes.mailbox import QueuedPacket, Run

STREAM = {"queue": "q", "origin": "a1" * 16, "stream": 1, "sequence": 5, "class": "transactional"}


def drawn(number: int, first: int = 0, count: int = 10, *, stream: int = 1, redelivered: bool = False) -> Run:
    packet = QueuedPacket([], b"\xa1" * 16, stream, 5, number, Delivery.TRANSACTIONAL, 10, 0, [])
    run = Run(packet, first, 10, redelivered=redelivered)
    run.next = first + count
    return run


def fields(*runs: Run) -> list[dict[str, Any]]:
    return list(handed_fields("q", runs))


def test_packets_that_follow_each_other_are_one_record() -> None:
    """The last one may be handed out in part; so may the first, from wherever it stood."""
    (said,) = fields(drawn(3, 4, 6), drawn(4), drawn(5), drawn(6, 0, 2))
    assert said == {**STREAM, "redelivered": False, "number": 3, "place": 4, "counts": [[1, 6], [2, 10], [1, 2]]}


def test_what_does_not_follow_is_another_record() -> None:
    """A packet that is passed over, the rest of one, what comes again, and what is of another stream."""
    apart = [drawn(1), drawn(3), drawn(3, 4, 1), drawn(4, redelivered=True), drawn(5, stream=2)]
    assert [said["number"] for said in fields(*apart)] == [1, 3, 3, 4, 5]
    assert fields() == []
