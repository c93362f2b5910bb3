"""A path that loses most of what is sent carries what it can: nobody waits for longer than it takes to be heard."""

from random import Random

import pytest

from tests.queues.world import SimNode, World, numbered
from triack.base.units import MS, SECOND
from triack.queues.node_settings import NodeSettings
from triack.tools.sim.faults import Faults

MESSAGES = 1_000
SEEDS = 6


class Bursts:
    """Datagrams that leave together are lost together, as where the system or a packet filter carries them as one.

    Attributes:
        loss: the share that is lost.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loss = 0.0
        self._chance = Random()
        send = SimNode.send_datagrams

        def lose(node: SimNode, address: str, datagrams: list[bytes]) -> None:
            if self._chance.random() >= self.loss:
                send(node, address, datagrams)

        monkeypatch.setattr(SimNode, "send_datagrams", lose)

    def begin(self, seed: int) -> None:
        """Lose nothing at first, and then what that seed says."""
        self.loss = 0.0
        self._chance.seed(seed)


@pytest.mark.slow
def test_a_path_that_loses_whole_bursts_does_not_wait_for_its_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three seconds for a thousand packets. With a wait that doubled after each lost probe it was ten."""
    bursts, settings = Bursts(monkeypatch), NodeSettings(messages_per_packet=1)
    took_ns = 0
    for seed in range(SEEDS):
        bursts.begin(seed)
        world = World(seed, Faults(delay_ns=5 * MS))
        a, b = world.node("a", settings), world.node("b", settings)
        a.send(b, "q", b"first")
        world.run(SECOND)
        bursts.loss = 0.6
        a.send(b, "q", *numbered(0, MESSAGES))
        start_ns = world.now_ns
        assert world.run(60 * SECOND, lambda b=b: b.length("q") > MESSAGES)  # type: ignore[misc]
        took_ns += world.now_ns - start_ns
        bursts.loss = 0.0
        assert b.read_all("q") == [b"first", *numbered(0, MESSAGES)]
    assert took_ns < SEEDS * 5 * SECOND
