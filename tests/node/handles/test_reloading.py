"""The verb ``reload``: its result says what has changed. ``tests/node/config/test_reload.py`` has what it does."""

import pytest

import triack
from tests.node.nodes import open_sync
from triack.node.handles.reloading import Reloaded


def test_its_result_is_public() -> None:
    assert triack.Reloaded is Reloaded


def test_it_waits_where_there_is_no_async() -> None:
    with open_sync("a") as node, pytest.raises(triack.UsageError, match="without a file of settings"):
        node.reload()
