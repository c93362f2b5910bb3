"""Datagrams of one conversation that came together."""

from tests.queues.world import World
from triack.base.datagram import Header, Kind, Opened
from triack.base.units import SECOND
from triack.queues.manager.burst import Burst


def test_the_newest_counter_counts_once_a_datagram_has_opened() -> None:
    """Before that, the counter in a header proves nothing."""
    world = World(1)
    a, b = world.node("a"), world.node("b")
    a.send(b, "q", b"x")
    world.run(SECOND)
    (conversation,) = b.live.handshakes.conversations.values()
    burst = Burst(conversation, Header(Kind.DATA, 5, 99, 0))
    assert burst.newest.counter == -1
    burst.add(Opened([7, 5], [b"abc", b"de"], []), 16)
    assert (burst.newest.counter, burst.payloads, burst.counters) == (7, [b"abc", b"de"], [7, 5])
    assert burst.size_bytes == 5 + 2 * 16
