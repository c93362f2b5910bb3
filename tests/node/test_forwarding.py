"""Queues that a node passes on by itself, as its settings say."""

import asyncio
from pathlib import Path

import pytest

import triack
from tests.node.nodes import WAIT, bodies, quick, until
from triack.node import forwarding
from triack.store.store import Store

HERE, THERE = "memory://machine", "memory://cloud"
ON = triack.Forward(f"{THERE}/intake")


def machine(folder: Path, **forwards: triack.Forward) -> triack.Node:
    settings = quick(forwards=forwards)
    return triack.open("machine", data=folder / "machine", listen=HERE, insecure=True, settings=settings)


def cloud(folder: Path) -> triack.Node:
    return triack.open("cloud", data=folder / "cloud", listen=THERE, insecure=True, settings=quick())


async def waits_for(node: triack.Node, name: str) -> str:
    """What operators see of a queue that is not passed on."""
    await until(lambda: any(it.waits_for for it in node.stats().queues["intake"].holders))
    (holder,) = node.stats().queues["intake"].holders
    assert holder.name == name
    return str(holder.waits_for)


async def test_what_arrives_is_passed_on_once_and_in_order(tmp_path: Path) -> None:
    async with machine(tmp_path, intake=ON) as node, cloud(tmp_path) as there:
        await node.send_many("intake", [b"%d" % number for number in range(600)])
        await node.send("intake", b"last", label="end", headers={"shop": "4"}, correlation_id="7")
        assert await bodies(there, "intake", 600) == [b"%d" % number for number in range(600)]
        async with there.receive("intake") as reader:
            last = await reader.get(WAIT)
        assert (last.body, last.label, last.headers, last.correlation_id) == (b"last", "end", {"shop": "4"}, "7")
        assert there.queue_lengths()["intake"] == node.queue_lengths()["intake"] == 0


async def test_a_pattern_chooses_by_label(tmp_path: Path) -> None:
    """All other messages, those without a label among them, go where the settings say."""
    chosen = triack.Forward(f"{THERE}/intake", label="reading-*", others_to="local")
    async with machine(tmp_path, intake=chosen) as node, cloud(tmp_path) as there:
        for label in ("reading-1", "alarm", None, "reading-2"):
            said = {} if label is None else {"label": label}
            await node.send("intake", (label or "none").encode(), **said)  # type: ignore[arg-type]
        assert await bodies(there, "intake", 2) == [b"reading-1", b"reading-2"]
        assert await bodies(node, "local", 2) == [b"alarm", b"none"]


async def test_a_large_message_is_passed_on(tmp_path: Path) -> None:
    body = bytes(range(256)) * 20_000
    async with machine(tmp_path, intake=ON) as node, cloud(tmp_path) as there:
        await node.send_stream("intake", body)
        async with there.receive("intake") as reader:
            message = await reader.get(WAIT)
            assert b"".join([chunk async for chunk in message.stream()]) == body


async def test_messages_wait_while_their_destination_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bounded number on their way, and all others in their queue; operators see why. After a start it goes on."""
    monkeypatch.setattr(forwarding, "AHEAD_BATCHES", 1)
    monkeypatch.setattr(forwarding, "BATCH", 10)
    monkeypatch.setattr(forwarding, "LOOK_S", 0.05)
    async with machine(tmp_path, intake=ON) as node:
        for number in range(50):
            await node.send("intake", b"%d" % number)
        assert f"no process listens at {THERE}" in await waits_for(node, f"forward to {THERE}/intake")
        assert node.queue_lengths()["intake"] >= 40
    async with cloud(tmp_path) as there, machine(tmp_path, intake=ON):
        assert await bodies(there, "intake", 50) == [b"%d" % number for number in range(50)]


async def test_what_cannot_be_sent_stays_in_its_queue(tmp_path: Path) -> None:
    """It is no failure of the message, so that it never dies of that."""
    async with machine(tmp_path, intake=triack.Forward("nowhere/intake")) as node:
        await node.send("intake", b"1")
        assert "unknown peer nowhere" in await waits_for(node, "forward to nowhere/intake")
        assert node.queue_lengths() == {"dead-letter": 0, "intake": 1}
    async with machine(tmp_path) as node, node.receive("intake") as reader:
        message = await reader.get(WAIT)
        assert (message.body, message.failures) == (b"1", 0)


async def test_a_file_adds_and_removes_what_is_passed_on(tmp_path: Path) -> None:
    file = tmp_path / "triack.toml"
    start = '[node]\nname = "machine"\ndata = "machine"\ninsecure = true\n'
    file.write_text(start)
    async with triack.open(config=file) as node:
        await node.send("intake", b"1")
        file.write_text(f'{start}[queues.intake]\nforward.to = "other"\n')
        assert (await node.reload()).in_force[0] == "queues.intake.forward.to"
        assert await bodies(node, "other", 1) == [b"1"]
        file.write_text(start)
        await node.reload()
        await node.send("intake", b"2")
        assert await bodies(node, "intake", 1) == [b"2"]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ('to = "intake"', "queues.intake.forward: it leads back to the same queue"),
        ('to = "cloud/"', "queues.intake.forward: "),
        ('label = "a"', "queues.intake.forward: Forward: to is missing"),
        ('to = "b"\nlabel = "a"', "queues.intake.forward: Forward: others_to is missing"),
        ('to = "b"\nothers_to = "c"', "queues.intake.forward: Forward: others_to is for messages whose label"),
    ],
)
def test_a_mistake_in_the_file_is_told(tmp_path: Path, said: str, why: str) -> None:
    file = tmp_path / "triack.toml"
    file.write_text(f'[node]\ndata = "machine"\n[queues.intake.forward]\n{said}\n')
    with pytest.raises(triack.ConfigError, match=why):
        triack.open("machine", config=file)


async def test_it_ends_with_the_store_of_its_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node whose disk has failed passes nothing on, and does not try again and again."""
    tries: list[str] = []
    tell = forwarding._Forwarder._tell  # noqa: SLF001 - each try ends there

    async def note(self: forwarding._Forwarder, why: str) -> None:
        tries.append(why)
        assert len(tries) < 20
        await tell(self, why)

    def fail(*_: object) -> None:
        raise triack.StoreFailed("the disk is full")

    monkeypatch.setattr(forwarding._Forwarder, "_tell", note)  # noqa: SLF001 - as above
    async with machine(tmp_path, intake=ON) as node:
        await node.send("local", b"1")
        (forwards,) = [task for task in asyncio.all_tasks() if task.get_name() == "triack-forward-intake"]
        monkeypatch.setattr(Store, "apply", fail)
        with pytest.raises(triack.StoreFailed):
            await (await node.send("intake", b"2")).queued(WAIT)
        await until(forwards.done)
    assert len(tries) < 5


async def test_a_mistake_of_ours_does_not_end_it_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr(forwarding._Forwarder, "_send", fail)  # noqa: SLF001 - as above
    async with machine(tmp_path, intake=ON) as node:
        await node.send("intake", b"1")
        await until(lambda: "intake is no longer passed on: ZeroDivisionError: a mistake" in caplog.text)
        assert await bodies(node, "intake", 1) == [b"1"]
