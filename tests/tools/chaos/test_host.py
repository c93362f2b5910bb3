"""One simulated machine: what it does with a store that it cannot use."""

from triack.base.commit import Commit, OutgoingQueueRow
from triack.store.store import Store
from triack.tools.chaos.host import Host
from triack.tools.chaos.plan import draw
from triack.tools.sim.host import FOLDER
from triack.tools.sim.network import Network
from triack.tools.sim.world import World


def test_a_store_that_says_what_no_node_writes_is_damaged() -> None:
    """Its checksums are right, but there is no such delivery class: the machine is lost, with the reason."""
    world = World(1)
    host = Host(world, Network(world), draw(1).hosts[0])
    with_row = Commit(lanes={1: OutgoingQueueRow(1, "udp://b:1", "orders", 9, 1, 1)}, serial=1)
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
