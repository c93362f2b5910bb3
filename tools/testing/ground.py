"""The base of a simulated world's parts: time, the network and its addresses, the event loop, and the story."""

import contextvars

from triack.base.units import SECOND
from triack.testing.endpoint import Links
from triack.testing.keyring import Keyring
from triack.testing.loop import VirtualLoop
from triack.tools.sim.network import Network
from triack.tools.sim.world import START_NS
from triack.tools.sim.world import World as Time


class Ground:
    """A world without machines.

    Args:
        seed: of all randomness.
        max_events: after this many the test counts as endless.

    Attributes:
        seed: the seed of the world.
        time: clock and events.
        network: carries the datagrams; ``network.counts`` counts what happens to them.
        links: the addresses of the machines.
        keyring: their keys.
        loop: the event loop of everything in it.
        context: tasks that belong to no machine are made in this context.
        told: the changes to the world, line by line.
    """

    def __init__(self, seed: int, max_events: int) -> None:
        self.seed = seed
        self.time = Time(seed)
        self.network = Network(self.time)
        self.links = Links(self.network)
        self.keyring = Keyring(self.time.chance)
        self.loop = VirtualLoop(self.time, max_events)
        self.context = contextvars.copy_context()
        self.told: list[str] = []

    @property
    def now(self) -> float:
        """Seconds since the world began."""
        return (self.time.now_ns - START_NS) / SECOND

    def tell(self, what: str) -> None:
        """Keep a line for the story of the test."""
        self.told.append(f"{self.now:12.6f} s  {what}")
