"""Connects that were recorded and come again: nothing that is repeated has an effect on an honest peer."""

from itertools import cycle

import pytest

from tests.queues.world import SimNode, World, two
from triack.base.datagram import Kind, read_header
from triack.base.reasons import DropReason
from triack.base.units import MS, SECOND

RECORDED = 18
"""Two more than a peer has places for conversations that are not open."""
EVERY_NS = SECOND // 60
"""Between two repeats: at this rate they take all these places within a round trip of the honest peer."""


def recorded(world: World, a: SimNode, b: SimNode) -> list[bytes]:
    connects: dict[int, bytes] = {}

    def tap(datagram: bytes, _sender: str, to: str) -> None:
        if to == b.address and read_header(datagram).kind is Kind.CONNECT:
            connects[starts] = datagram

    world.network.tap = tap
    starts = 0
    while starts < RECORDED:
        a.send(b, "q", b"recorded")
        assert world.run(10 * SECOND, lambda: not a.busy)
        a.crash()
        a.start()
        starts += 1
    world.network.tap = lambda *_: None
    return list(connects.values())


def time_to_connect(*, attacked: bool, restarted: bool = False, spoofed: bool = False) -> tuple[int, SimNode]:
    """How long a node that is 150 ms away takes to bring a message to another one."""
    world = World(1)
    world.faults.delay_ns = 150 * MS
    a, b = world.node("a"), world.node("b")
    connects = recorded(world, a, b)
    a.crash()
    world.run(60 * SECOND)
    if restarted:
        b.crash()
        b.start()
    replays = cycle(connects)

    def replay() -> None:
        b.receive(next(replays), a.address if spoofed else f"udp://evil:{world.now_ns % 50_000 + 1}")
        world.at(EVERY_NS, replay)

    if attacked:
        replay()
        world.run(2 * SECOND)
    a.start()
    a.send(b, "q", b"hello")
    began_ns = world.now_ns
    assert world.run(30 * SECOND, lambda: not a.busy)
    return world.now_ns - began_ns, b


@pytest.mark.gate
@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("spoofed", [False, True])
def test_recorded_connects_keep_nobody_out(restarted: bool, spoofed: bool) -> None:
    """From any address, the peer's own among them, and after a restart of the one that is called."""
    alone_ns, _ = time_to_connect(attacked=False, restarted=restarted)
    assert alone_ns < 2 * SECOND
    taken_ns, b = time_to_connect(attacked=True, restarted=restarted, spoofed=spoofed)
    assert taken_ns <= 1.1 * alone_ns
    assert b.live.drops[DropReason.REPEATED_CONNECT] > 60


@pytest.mark.gate
def test_a_peer_that_has_lost_its_newest_starts_is_not_locked_out() -> None:
    """Its store is an older copy, so that its connects look like old ones: it proves where it is, and hears of it."""
    world, a, b = two()
    a.send(b, "q", b"1")
    assert world.run(10 * SECOND, lambda: not a.busy)
    a.crash()
    older = a.disk.snapshot()
    a.start()
    recorded(world, a, b)
    a.crash()
    a.disk.restore(older)
    a.start()
    a.send(b, "q", b"2")
    assert world.run(30 * SECOND, lambda: bool(a.live.rollbacks))
    assert b.live.drops[DropReason.REPEATED_CONNECT] > 0
