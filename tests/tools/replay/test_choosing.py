"""Which engine is done first."""

import os

import pytest

from triack.tools.replay.choosing import choose, free_processors
from triack.tools.replay.log.listing import Listed


def idle(monkeypatch: pytest.MonkeyPatch, processors: int) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: processors)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))


def test_spark_is_for_what_outweighs_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    idle(monkeypatch, 8)
    small = [Listed("a", 70_000)] * 1_080
    large = [Listed("a", 64 << 20)] * 16
    assert choose(small) == (
        "local",
        "local: 75,600,000 bytes in 1,080 files, of which local takes about 12 s, spark 17 s on 8 free processors",
    )
    assert choose(large)[0] == "spark"


def test_processors_that_others_use_are_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    idle(monkeypatch, 8)
    monkeypatch.setattr(os, "getloadavg", lambda: (7.6, 0.0, 0.0))
    assert free_processors() == 1
    assert choose([Listed("a", 64 << 20)] * 16)[0] == "local"
