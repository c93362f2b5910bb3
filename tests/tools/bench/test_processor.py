"""Processor time of a process and of its children."""

import os
import subprocess
import sys

import pytest

from triack.tools.bench.processor import processor_s

WORK_S = 0.2
"""Of processor time, however long it takes."""
BUSY = f"import time\nwhile time.process_time() < {WORK_S}: pass"
WAITS = f"{BUSY}\nprint(flush=True)\ninput()"
PARENT = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {BUSY!r}])
child = subprocess.Popen([sys.executable, "-c", {WAITS!r}], stdin=subprocess.PIPE)
sys.stdin.read()
child.communicate(bytes([10]))
"""


@pytest.mark.slow
def test_what_runs_and_what_is_over_counts() -> None:
    """One child is over, another one runs still."""
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert processor_s(process.pid) >= 2 * WORK_S * 0.9
        process.communicate()
    assert processor_s(process.pid) == 0.0


def test_a_process_sees_itself() -> None:
    assert processor_s(os.getpid()) > 0.0
