"""The examples run as a user would run them, and print what they say."""

import re
import socket
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


def test_the_code_of_the_readme(tmp_path: Path) -> None:
    """The first program that a user copies works, and prints what the page says."""
    page = (EXAMPLES.parent / "README.md").read_text()
    found = re.search(r"```python\n(.*?)```.*?It prints `(.*?)`", page, re.DOTALL)
    assert found is not None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    program = found[1].replace("7802", port)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, found[2] + "\n", "")
