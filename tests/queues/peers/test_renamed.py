"""A peer that gets another name in the directory while messages wait for it."""

from dataclasses import replace

from tests.queues.relays import post
from tests.queues.world import SimNode, two
from triack.base.peers import Peer
from triack.base.reasons import Trouble
from triack.base.units import SECOND
from triack.stats.troubles import find_troubles


def test_messages_for_the_old_name_wait_and_the_trouble_names_the_new_one() -> None:
    world, a, b = two()
    a.know(b.peer)
    b.know(a.peer)
    post(a, "b", b"1")
    world.run(5 * SECOND)
    b.end()
    post(a, "b", b"2")
    rename(a, replace(b.peer, name="c"))
    b.start()
    post(a, "c", b"3")
    world.run(20 * SECOND)
    (row,) = [row for row in find_troubles(a.live, world.now_ns) if row.about == "b"]
    assert (row.trouble, "another name here now: c" in row.cause) == (Trouble.RENAMED, True)
    assert "triack trust add b KEY" in row.remedy
    rename(a, b.peer)
    world.run(20 * SECOND)
    assert [row for row in find_troubles(a.live, world.now_ns) if row.about == "b"] == []
    assert b.live.queues.mailboxes["q"].length == 3


def rename(node: SimNode, peer: Peer) -> None:
    """Its operator removes the one peer that it has, and adds this one."""
    node.directory.replace([peer])
    node.act(lambda: node.live.handle_directory_changed(node.world.now_ns))
