"""What ``triack.sync`` gives."""

import inspect

import triack
from triack import sync


def test_everything_public_is_there_and_documented() -> None:
    """The module is there with ``import triack`` alone; what its calls give can be named in annotations."""
    assert triack.sync is sync
    assert set(sync.__all__) == {"connect", "open"} | {name for name in dir(sync) if name.startswith("Sync")}
    for name in sync.__all__:
        assert inspect.getdoc(getattr(sync, name)), name
