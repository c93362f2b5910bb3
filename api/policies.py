"""Settings that make a node acknowledge like other systems.

async with triack.open("plant-a", settings=triack.policies.SOLACE) as node: ...
async with triack.open("plant-b", settings=triack.policies.solace(window=255)) as node: ...
"""

from triack.node.handles import policies
from triack.node.handles.policies import *  # noqa: F403 - all of it is public

__all__ = policies.__all__
