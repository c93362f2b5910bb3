"""``triack trace``: where a message is, or where it ended."""

import json
from pathlib import Path

import pytest

import triack
import triack.sync
from tests.node.nodes import WAIT, quick
from tests.tools.processes import message_of
from tests.tools.processes import triack as command
from triack.tools.ports import free_port

pytestmark = pytest.mark.slow

MISSING = f"{'0' * 32}-1"


def trace(folder: Path, message_id: str, *nodes: str, code: int = 0) -> list[list[str]]:
    """The rows that the command writes: node, queue, state and why."""
    options = [option for node in nodes for option in ("--data", folder / node)]
    done = command("trace", message_id, *options)
    assert (done.returncode, done.stderr) == (code, b""), done.stderr.decode()
    head, *rows = done.stdout.decode().splitlines()
    starts = [head.index(title) for title in ("NODE", "QUEUE", "STATE", "AGE", "TRIES", "WHY")]
    cells = [[row[start:end].strip() for start, end in zip(starts, [*starts[1:], None], strict=True)] for row in rows]
    return [[Path(node).name, queue, state, why] for node, queue, state, _, _, why in cells]


def test_a_message_is_followed_from_its_sender_to_its_end(tmp_path: Path) -> None:
    """On its way, in a queue, as a copy of what was read, and as a dead letter with its reason."""
    there = f"udp://127.0.0.1:{free_port()}"
    settings = quick(limits=triack.Limits(queue_journal={"q": triack.Journal(messages=9)}))
    with triack.sync.open("a", data=tmp_path / "a", peers={"b": there}, insecure=True, settings=quick()) as a:
        with triack.sync.open("b", data=tmp_path / "b", listen=there, insecure=True, settings=settings):
            pass
        first, second = a.send("b/q", b"1"), a.send("b/q", b"2")
        way, absent = trace(tmp_path, first.id, "a", "b")
        assert way == ["a", "b/q", "on its way", "by b, waits for answer"]
        assert absent == ["b", "-", "not here", "it has not come, has left, or was read"]
        with triack.sync.open("b", data=tmp_path / "b", listen=there, insecure=True, settings=settings) as b:
            second.ordered(timeout=WAIT)
            sent, waits = trace(tmp_path, first.id, "a", "b")
            assert sent[2:] == [
                "not here",
                "it was sent here, and is needed here no longer: what frees its class has come",
            ]
            assert waits[:3] == ["b", "q", "waits"]
            with b.receive("q", ack="manual") as reader:
                reader.get(WAIT).ack()
                reader.get(WAIT).reject(dead=True)
            b.flush()
            assert trace(tmp_path, first.id, "b") == [["b", "$journal.q", "copy", "it was read"]]
            assert trace(tmp_path, second.id, "b") == [["b", "dead-letter", "dead letter", "reader-refused, for q"]]


def test_a_message_is_found_at_the_relay_where_it_waits(tmp_path: Path) -> None:
    here, there = (f"udp://127.0.0.1:{free_port()}" for _ in range(2))
    routes = [triack.Route("cloud", via="gateway")]
    with (
        triack.sync.open("gateway", data=tmp_path / "gateway", listen=here, settings=quick()) as gateway,
        triack.sync.open("sensor", data=tmp_path / "sensor", routes=routes, settings=quick()) as sensor,
    ):
        with triack.sync.open("cloud", data=tmp_path / "cloud", settings=quick()) as cloud:
            gateway.trust("cloud", cloud.key, there, may_relay=["sensor"])
        sensor.trust("gateway", gateway.key, here, relays_for=["cloud"])
        gateway.trust("sensor", sensor.key, may_relay=["cloud"])
        receipt = sensor.send("cloud/readings", b"21.5")
        receipt.stored(timeout=WAIT)
        sent, waits = trace(tmp_path, receipt.id, "sensor", "gateway")
        assert sent[:3] == ["sensor", "cloud/readings", "on its way"]
        assert waits == ["gateway", "cloud/readings", "on its way", "by cloud, waits for answer"]


def test_messages_are_found_by_their_key(tmp_path: Path) -> None:
    """At the node that has accepted them, as long as the key counts."""
    with triack.sync.open("a", data=tmp_path / "a", insecure=True, settings=quick()) as a:
        receipts = [a.send(queue, b"1", key="order-7") for queue in ("p", "q")]
        a.flush()
    done = command("trace", "--key", "order-7", "--data", tmp_path / "a", "--json")
    places = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert [(it["id"], it["queue"]) for it in places] == [(receipts[0].id, "p"), (receipts[1].id, "q")]
    failed = command("trace", "--key", "order-8", "--data", tmp_path / "a")
    assert "no node of --data has accepted a message with it" in message_of(failed)


def test_a_message_that_is_nowhere(tmp_path: Path) -> None:
    """That is an exit code; what is no id, and no node, is a mistake of the caller."""
    with triack.sync.open("a", data=tmp_path / "a", insecure=True, settings=quick()):
        pass
    (absent,) = trace(tmp_path, MISSING, "a", code=1)
    assert absent[:3] == ["a", "-", "not here"]
    failed = command("trace", "17", "--data", tmp_path / "a")
    assert "is no id of a message" in message_of(failed)
    (tmp_path / "empty").mkdir()
    (unasked, _) = trace(tmp_path, MISSING, "empty", "a", code=1)
    assert unasked[:3] == ["empty", "-", "cannot be asked"]
