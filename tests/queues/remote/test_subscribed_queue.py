"""The queue of a subscription to topics of another node."""

from collections import Counter

from triack.queues.mailboxes.mailbox import Notices
from triack.queues.mailboxes.queued_packet import QueuedPacket
from triack.queues.packing import Passed, pack
from triack.queues.remote.subscribed_queue import SubscribedQueue


def queue_of(left: list[SubscribedQueue]) -> SubscribedQueue:
    return SubscribedQueue(1, "$sub.audit", Notices(Counter()), left.append)


def test_its_last_reader_is_missed_unless_it_has_ended() -> None:
    left: list[SubscribedQueue] = []
    queue = queue_of(left)
    for reader in (print, repr):
        queue.listeners.append(reader)  # type: ignore[arg-type]
    queue.leave(print)
    assert left == []
    queue.leave(repr)  # type: ignore[arg-type]
    assert left == [queue]
    queue.listeners.append(print)
    queue.end()
    queue.leave(print)
    assert (left, queue.has_ended, queue.subscription) == ([queue], True, "audit")
    queue.begin_again()
    assert not queue.has_ended


def test_a_dead_letter_names_the_topic_and_the_subscription() -> None:
    message = Passed(b"1", topic="Games.Cricket", publisher=bytes(16), ordinal=7, sent_at_ms=5)
    (packed,), _ = pack([message], 1_000, 1, 9)
    packet = QueuedPacket((), bytes(16), 1, 1, 1, 2, 1, len(packed.body), [packed.body])
    assert queue_of([]).dead_properties(packet) == {
        "dead_destination": "topic:Games.Cricket",
        "dead_subscription": "audit",
    }
