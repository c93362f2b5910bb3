"""The examples run as a user would run them, and print what they say."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"

OUTPUTS = {
    "embed_in_service.py": "handled order 0\nhandled order 1\nhandled order 2\n",
    "forward_queue.py": "".join(f"sale {number} via branch\n" for number in range(5)),
    "request_reply.py": "IS IT DURABLE?\nIS IT IN ORDER?\n",
}


def test_every_example_has_a_test() -> None:
    """An example that nobody runs goes stale."""
    assert sorted(OUTPUTS) == sorted(path.name for path in EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("name", sorted(OUTPUTS))
def test_example(name: str) -> None:
    """Each example ends well and prints exactly what it should."""
    done = subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, OUTPUTS[name], "")
