"""What ``triack.policies`` gives."""

import triack
from triack import policies
from triack.node.handles import policies as node_policies


def test_it_gives_all_that_there_is() -> None:
    assert triack.policies is policies
    assert policies.__all__ == node_policies.__all__
    for name in policies.__all__:
        assert getattr(policies, name) is getattr(node_policies, name)
