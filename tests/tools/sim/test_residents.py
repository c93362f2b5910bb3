"""A node that joins knows all others, and they know it, each by a key of its own."""

from triack.base.peers import Directory, Peer
from triack.tools.sim.residents import Residents, draw_key, public_of
from triack.tools.sim.world import World
from triack.transport.noise import KEY_BYTES


class Somebody:
    """A node that only remembers the peers that it was given."""

    def __init__(self, world: World, name: str) -> None:
        self.peer = Peer(name, keys=(public_of(draw_key(world, name)),))
        self.known: list[Peer] = []

    def know(self, peer: Peer) -> None:
        self.known.append(peer)


def test_all_who_join_know_each_other() -> None:
    residents, world = Residents(), World(1)
    a, b, c = (Somebody(world, name) for name in "abc")
    for one in (a, b, c):
        residents.join(one)
    assert [[peer.name for peer in one.known] for one in (a, b, c)] == [["b", "c"], ["a", "c"], ["a", "b"]]
    assert Directory(a.known).trusts("b", b.peer.keys[0])


def test_keys_are_the_worlds_chance_and_of_one_node() -> None:
    """The same seed and name, the same key; and the public one is not the private one."""
    assert draw_key(World(1), "a") == draw_key(World(1), "a")
    drawn = {draw_key(World(seed), name) for seed in (1, 2) for name in "ab"}
    assert len(drawn) == 4
    assert {len(key) for key in drawn} == {KEY_BYTES}
    assert not drawn & {public_of(key) for key in drawn}
