"""One simulated machine: a store that it cannot use, and readers that wait for its messages."""

from dataclasses import replace

from triack.base.commit import Commit, OutgoingStreamRow
from triack.base.delivery import Delivery
from triack.base.peers import Peer
from triack.base.units import SECOND
from triack.store.store import Store
from triack.tools.chaos.drawing import draw
from triack.tools.chaos.host import Host
from triack.tools.sim.host import FOLDER
from triack.tools.sim.network import Network
from triack.tools.sim.world import World


def test_a_store_that_says_what_no_node_writes_is_damaged() -> None:
    """Its checksums are right, but there is no such delivery class: the machine is lost, with the reason."""
    world = World(1)
    host = Host(world, Network(world), draw(1).hosts[0])
    with_row = Commit(streams={1: OutgoingStreamRow(1, "udp://b:1", "orders", 9, 1, 1)}, serial=1)
    store = Store(FOLDER, vfs=host.disk.vfs, page_bytes=host.plan.page_bytes)
    store.load(b"n" * 16, 1)
    store.apply(with_row)
    store.close()
    host.start()
    assert (host.engine, host.ends) == (None, ["store-damaged"])
    assert str(host.lost) == f"open store {store.path}: ValueError: 9 is not a valid Delivery"
    host.start()
    assert host.lives == 1, "a lost machine does not start again"
    host.disk.close()


def test_a_waiter_for_messages_hears_once_by_a_process_that_works() -> None:
    """Not while the machine is down, and not again for what is still there."""
    world = World(1)
    host = Host(world, Network(world), draw(1).hosts[0])
    told: list[int] = []
    host.await_messages("orders", lambda: told.append(world.now_ns))
    host.start()
    host.act(lambda: host.live.submit(host.live.outgoing_stream("", "orders", Delivery.RECOVERABLE), b"x", 1))
    assert told == []
    world.run(SECOND)
    assert (len(told), host.has_messages("orders")) == (1, True)
    host.act(lambda: None)
    host.crash_after(down_ns=SECOND)
    host.await_messages("orders", lambda: told.append(world.now_ns))
    assert (len(told), host.has_messages("orders")) == (1, False)
    world.run(SECOND)
    assert (len(told), host.has_messages("orders")) == (2, True)
    host.disk.close()


def test_a_machine_that_moves_is_found_where_others_look_for_it() -> None:
    """Datagrams that were sent to it before arrive there."""
    world = World(1)
    network = Network(world)
    plans = [
        replace(draw(1).hosts[0], name=name, address=f"udp://{name}:1", others=(f"udp://{name}:2",)) for name in "ab"
    ]
    one, other = hosts = [Host(world, network, plan) for plan in plans]
    for host in hosts:
        host.start()
    other.move("udp://b:2", SECOND)
    one.act(lambda: one.live.submit(one.live.outgoing_stream("b", "q", Delivery.RECOVERABLE), b"x", 1))
    world.run(10 * SECOND)
    assert (other.ends, other.has_messages("q")) == (["killed"], True)
    for host in hosts:
        host.disk.close()


def test_a_process_that_stood_still_does_what_has_waited_in_order() -> None:
    """When its pause is over, however often it was made longer, or everything is healed; and nothing if it has died."""
    world = World(1)
    host = Host(world, Network(world), draw(1).hosts[0])
    host.start()
    done: list[int] = []

    def pause(first: int) -> None:
        host.pause(2 * SECOND)
        for number in (first, first + 1):
            host.act(lambda number=number: done.append(number))  # type: ignore[misc]

    pause(1)
    world.run(SECOND)
    host.pause(3 * SECOND)
    world.run(2 * SECOND)
    assert done == []
    world.run(SECOND)
    assert done == [1, 2]
    pause(3)
    host.heal()
    host.act(lambda: done.append(5))
    assert done == [1, 2, 3, 4, 5]
    pause(6)
    host.crash_after(down_ns=SECOND)
    world.run(9 * SECOND)
    assert done == [1, 2, 3, 4, 5]
    host.disk.close()


def test_who_stands_still_learns_of_others_when_it_goes_on() -> None:
    """With all that follows from it, before anything later; a host that has died reads it at its start."""
    world = World(1)
    host = Host(world, Network(world), draw(1).hosts[0])
    host.start()
    for name, dies in (("x", False), ("y", True)):
        host.know(Peer(name))
        host.pause(SECOND)
        host.forget(name)
        assert host.directory.named(name) is not None
        if dies:
            host.crash_after(down_ns=SECOND // 2)
        world.run(2 * SECOND)
        assert host.directory.named(name) is None
    host.disk.close()
