"""The events of links for programs."""

from typing import get_args

import triack
from triack.base import news


def test_every_event_is_public() -> None:
    """A program can ask for each by its class."""
    assert {kind.__name__ for kind in get_args(news.NodeEvent)} == set(news.__all__) - {"NodeEvent"}
    assert set(news.__all__) <= set(triack.__all__)
