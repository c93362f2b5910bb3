"""Each machine of an engine asserts what is true of it: a state that contradicts itself is seen at the next step."""

from collections.abc import Callable

import pytest

from tests.queues.relays import line, post
from tests.queues.world import SimNode
from triack.base.units import MS
from triack.queues.manager.engine import Engine
from triack.queues.manager.invariants import check_invariants

Breaks = Callable[[Engine], None]


def window(engine: Engine) -> None:
    next(iter(engine.handshakes.conversations.values())).session.window.in_flight_bytes += 1  # type: ignore[attr-defined]


def waiting(engine: Engine) -> None:
    for outgoing in engine.outbox.streams:
        outgoing.sequence._to_send.clear()  # noqa: SLF001


def passing(engine: Engine) -> None:
    engine.transits.streams[0].sequence._to_send.clear()  # noqa: SLF001


def committed(engine: Engine) -> None:
    engine.inbox.streams[0].sequence.committed = (1 << 40, 1)


def charged(engine: Engine) -> None:
    engine.inbox.admission.streams.total_bytes += 1


@pytest.fixture
def nodes() -> dict[str, SimNode]:
    """An origin whose relay cannot pass on, and a node that has got something."""
    net = line("arb")
    post(net["a"], "r", b"1")
    net.world.run(500 * MS)
    net["b"].crash()
    post(net["a"], "b", *[bytes(2_000)] * 3)
    net.world.run(20 * MS)
    post(net["a"], "b", *[bytes(2_000)] * 90)
    net.world.run(MS)
    return {name: net[name] for name in "ar"}


@pytest.mark.parametrize(
    ("name", "broken"), [("a", window), ("a", waiting), ("r", passing), ("r", committed), ("r", charged)]
)
def test_a_state_that_contradicts_itself_is_seen(nodes: dict[str, SimNode], name: str, broken: Breaks) -> None:
    engine = nodes[name].live
    check_invariants(engine)
    broken(engine)
    with pytest.raises(AssertionError):
        check_invariants(engine)
