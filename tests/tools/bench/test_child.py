"""A process of a run follows its options."""

import json
import subprocess
import sys

import pytest

from tests.machine import PATIENCE_S
from triack.tools.bench.run import CHILD
from triack.tools.bench.work import Work


@pytest.mark.slow
@pytest.mark.gate
def test_a_sender_without_a_receiver_says_so_and_ends() -> None:
    options = {"role": "sender", "system": "tcp", "work": Work().to_json(), "found": {"host": "127.0.0.1", "port": 1}}
    ended = subprocess.run(
        [sys.executable, "-m", CHILD, json.dumps(options)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 1
    assert "error" in json.loads(ended.stdout)


@pytest.mark.slow
@pytest.mark.gate
def test_a_receiver_says_where_it_is_and_what_it_saw() -> None:
    options = {"role": "receiver", "system": "tcp", "work": Work().to_json()}
    ended = subprocess.run(
        [sys.executable, "-m", CHILD, json.dumps(options)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    told = [json.loads(line) for line in ended.stdout.splitlines()]
    assert told[0]["found"]["port"] > 0
    assert told[-1]["delivered"] == 0
    assert ended.returncode == 0
