"""Worlds in which something is unusual but right; each of them must pass."""

from collections.abc import Callable

from tests.tools.replay.builder import World, ready
from tests.tools.replay.relays import HONEST
from tests.tools.replay.telling import told

# What is unusual but right; each of them must pass.
HARMLESS: dict[str, Callable[[], World]] = {
    **HONEST,
    **{one.name: one.on(ready) for one in told("harmless.txt")},
}
