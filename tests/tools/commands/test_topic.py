"""``triack topic``, on a node that runs inside a program and on a directory at rest."""

import json
from pathlib import Path

import pytest

import triack
from tests.tools.processes import triack as command


def run(*arguments: str | Path, text: bytes = b"", code: int = 0) -> list[str]:
    """The lines that a command writes."""
    finished = command("topic", *arguments, stdin=text)
    assert finished.returncode == code, finished.stderr.decode()
    return (finished.stdout if not code else finished.stderr).decode().splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("running", [True, False], ids=["running", "at rest"])
def test_a_durable_subscription_from_its_beginning_to_its_end(tmp_path: Path, *, running: bool) -> None:
    node, at = triack.sync.open("a", data=tmp_path, insecure=True).__enter__(), ("--data", tmp_path)
    if not running:
        node.close()
    every = ("subscribe", "Games.#", "--durable", "audit", "--timeout", "0", *at)
    assert run(*every) == []
    assert run("publish", "Games.Cricket", *at, text=b"1\n2\n3\n") == ["3 messages published"]
    head, row = map(str.split, run("list", *at))
    assert dict(zip(head[:4], row[:4], strict=True)) == {
        "TOPIC": "Games",
        "STRATEGY": "discard_none",
        "SUBSCRIPTIONS": "1",
        "MESSAGES": "3",
    }
    about, _, shown = run("show", "Games", *at)
    assert about.startswith("Games: discard_none, 3 messages, ")
    assert shown.split()[:5] == ["audit", "Games.#", "durable", "0", "3"]
    assert json.loads(run("show", "Games", "--json", *at)[0])["subscriptions"][0]["pending"] == 3
    first, *rest = run(*every, "--json")
    told = json.loads(first)
    assert (told["topic"], told["body"], len(rest)) == ("Games.Cricket", "1", 2)
    assert run("unsubscribe", "audit", *at) == ["subscription audit has ended"]
    assert "there is no such subscription" in run("unsubscribe", "audit", *at, code=2)[-1]
    if running:
        node.close()
    else:
        assert "no process runs the node" in run("subscribe", "Games.#", *at, code=2)[-1]
    assert "there is no topic Plays" in run("show", "Plays", *at, code=2)[-1]
