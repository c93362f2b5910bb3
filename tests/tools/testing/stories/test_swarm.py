"""The swarm against the shell of a node: seed by seed, exactly once, in order, and every wait ends."""

import pytest

from tests.tools.testing.stories.swarm import Swarm
from triack.testing import World


@pytest.mark.slow
@pytest.mark.triack(seeds=3)
async def test_services_on_failing_machines(triack_world: World) -> None:
    """Nothing twice, nothing out of order, nothing lost that was committed, and nobody hangs."""
    swarm = Swarm(triack_world)
    await swarm.run()
    assert swarm.violations == []
