"""Ended subscriptions release what they had wanted, once, in turns."""

from tests.queues.topics.bench import Bench
from triack.base.delivery import Delivery
from triack.queues.mailboxes.queued_packet import QueuedPacket
from triack.queues.topics.leaving import Leaving


def test_each_content_is_released_once_for_all_that_ended_alike() -> None:
    bench, released = Bench(1), list[tuple[int, int]]()
    alike = [bench.subscribe(durable=None) for _ in range(3)]
    further, chess = bench.subscribe(durable=None), bench.subscribe("Games.Chess")
    bench.publish(4, delivery=Delivery.TRANSACTIONAL)
    bench.publish(1, "Chess", delivery=Delivery.TRANSACTIONAL)
    bench.read(further, 3)

    def release(packet: QueuedPacket, subscriptions: int) -> int:
        released.append((packet.first_place, subscriptions))
        return 1

    leaving = Leaving(bench.root.contents, release)
    for one in (*alike, further, chess):
        leaving.add(one)
    leaving.go(3)
    assert len(released) == 2, "each takes two steps"
    leaving.add(alike[0])  # those that are like it have begun
    while leaving:
        leaving.go(1)
    first = alike[0].after + 1
    assert sorted(released) == sorted(
        [
            *((first + at, times) for at in range(5) for times in (3, 1)),
            *((first + at, 1) for at in (3, 4)),
            (first + 4, 1),
        ]
    )
