"""What is handed out by the run."""

import pytest

from triack.base.delivery import Delivery
from triack.queues.mailboxes.queued_packet import QueuedPacket
from triack.queues.mailboxes.run import Run
from triack.queues.packing import Outgoing, pack


@pytest.fixture
def run() -> Run:
    """Messages 2 to 8 of a packet of ten."""
    packet = QueuedPacket([1], b"o" * 16, 1, 1, 1, Delivery.TRANSACTIONAL, 10, 9, [b"a" * 9])
    return Run(packet, 2, 9, redelivered=False)


def test_single_messages_and_many_are_drawn_from_the_same(run: Run) -> None:
    """In order, each once, and no more than there are."""
    assert run.draw() == 2
    assert run.draw_many(3) == range(3, 6)
    assert run.draw() == 6
    assert list(run.draw_many(100)) == [7, 8]
    assert len(run.draw_many(100)) == 0
    assert run.draw() == -1
    assert run.next == 9


def test_of_a_run_that_has_stopped_nothing_more_is_drawn(run: Run) -> None:
    run.draw_many(2)
    run.stop()
    assert len(run.draw_many(5)) == 0
    assert (run.next, run.end) == (4, 4)


def test_what_was_drawn_has_a_size() -> None:
    """Of the bodies; with properties, of the packet that has them."""
    for labels, drawn_bytes in ((None, 5), ("lmn", 2_000)):
        made = zip((b"1", b"22", b"333"), labels or (None,) * 3, strict=True)
        messages = [Outgoing(body, {"label": label * 1_000} if label else None) for body, label in made]
        ((packed,), _) = pack(messages, 60_000, 1, 1)
        packet = QueuedPacket([1], b"o" * 16, 1, 1, 1, Delivery.TRANSACTIONAL, 3, len(packed.body), [packed.body])
        run = Run(packet, 1, 3, redelivered=False)
        size_bytes = run.size_of(run.draw_many(2))
        assert size_bytes == 5 if labels is None else drawn_bytes < size_bytes == packet.size_bytes
