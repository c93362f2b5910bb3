"""The resident memory of a process."""

import os
import subprocess
import sys
from mmap import mmap

import pytest

from triack.tools.bench.memory import missing, peak_bytes, resident_bytes


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux tells it in /proc")
def test_what_is_made_is_seen() -> None:
    assert missing() is None
    before = resident_bytes()
    # Straight from the system: what a process has freed may still be its own, and is used again first.
    with mmap(-1, 50_000_000) as made:
        made.write(b"x" * 50_000_000)
        assert 40_000_000 < resident_bytes() - before < 80_000_000


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux tells it in /proc")
def test_the_peak_of_another_process_is_seen() -> None:
    """Memory that it has given back counts; for a process that is over the answer is 0."""
    code = "made = bytearray(80_000_000); del made; print('done', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"done\n"
        assert 80_000_000 < peak_bytes(child.pid) < 200_000_000
        child.communicate(b"\n")
    assert peak_bytes(child.pid) == 0
    assert peak_bytes(os.getpid()) > 0
