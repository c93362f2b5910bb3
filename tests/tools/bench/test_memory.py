"""What a process has resident."""

import sys

import pytest

from triack.tools.bench.memory import missing, resident_bytes


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux tells it in /proc")
def test_what_is_made_is_seen() -> None:
    assert missing() is None
    before = resident_bytes()
    made = bytearray(b"x" * 50_000_000)
    assert 40_000_000 < resident_bytes() - before < 80_000_000
    del made
