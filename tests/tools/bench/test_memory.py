"""What a process has resident."""

import sys
from mmap import mmap

import pytest

from triack.tools.bench.memory import missing, resident_bytes


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux tells it in /proc")
def test_what_is_made_is_seen() -> None:
    assert missing() is None
    before = resident_bytes()
    # Straight from the system: what a process has freed may still be its own, and is used again first.
    with mmap(-1, 50_000_000) as made:
        made.write(b"x" * 50_000_000)
        assert 40_000_000 < resident_bytes() - before < 80_000_000
