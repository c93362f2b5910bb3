"""``triack request``: one message, and its answer."""

import json
import threading
from pathlib import Path

import pytest

from tests.node.nodes import WAIT, open_sync, quick
from tests.tools.processes import triack as command
from triack import sync

pytestmark = pytest.mark.slow


def answer(node: sync.SyncNode, times: int) -> None:
    with node.receive("prices") as reader:
        for _ in range(times):
            asked = reader.get(WAIT)
            node.reply(asked, asked.body.upper(), label=asked.label)


def test_the_answer_is_written(tmp_path: Path) -> None:
    """Of an argument, and of standard input; with a process that runs the node, and without."""
    with open_sync("b", listen=True) as b:
        answering = threading.Thread(target=answer, args=(b, 2))
        answering.start()
        with sync.open("a", data=tmp_path / "a", listen="udp://127.0.0.1:0", insecure=True, settings=quick()):
            place = ("--data", tmp_path / "a")
            done = command("request", f"{b.address}/prices", "tea", *place)
            assert (done.returncode, done.stdout) == (0, b"TEA\n")
            done = command("request", f"{b.address}/prices", "--label", "l", "--json", *place, stdin=b"tea\n")
            assert json.loads(done.stdout) == {"body": "TEA\n", "label": "l", "headers": {}}
        answering.join(WAIT)


def test_no_answer_is_an_error_that_names_the_time(tmp_path: Path) -> None:
    with open_sync("a", tmp_path):
        pass
    done = command("request", "q", "x", "--timeout", "0.2", "--data", tmp_path)
    assert done.returncode == 1
    assert b"no answer to a request to q after 0.2 s" in done.stderr
