"""``triack send`` when the process that serves its directory lets it down."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import triack
from tests.tools.commands.serving import answer, hear, serving, welcome
from triack.base.errors import ProtocolError
from triack.node.control.control_frames import VERSION, Link
from triack.node.files.access import DEFAULT_SUITE
from triack.queues.stages import STAGES
from triack.tools.commands import send
from triack.tools.commands.tally import STORED, stored_but


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The end of standard input, which is a pipe, where lines are written."""
    out, into = os.pipe()
    monkeypatch.setattr(send, "STDIN", out)
    os.write(into, b"one\ntwo\n")
    yield into
    os.close(into)


async def run(data: Path, delivery: triack.Delivery = triack.TRANSACTIONAL, timeout: float = 10) -> int:
    """The command, without its process."""
    order = send._Order("orders", delivery, STAGES[delivery], data, "a", None, True, [], {}, DEFAULT_SUITE, None)  # noqa: SLF001
    return await send._send(order, timeout)  # noqa: SLF001


async def produce(link: Link, accepted: int = 0) -> None:
    """Begin a conversation as a node does that has accepted ``accepted`` lines of this producer."""
    await welcome(link)
    await answer(link, "produce", producer=3, accepted=accepted)


async def take(link: Link) -> None:
    """Say that two lines are safe."""
    await produce(link)
    call = await answer(link, "take")
    assert (call["producer"], call["first"], call["sizes"]) == (3, 1, [3, 3])


async def test_another_version_is_refused(tmp_path: Path, writer: int) -> None:
    async def other(link: Link) -> None:
        await welcome(link, v=VERSION + 1)

    async with serving(tmp_path / "a", other):
        with pytest.raises(ProtocolError, match=rf"^bad-hello: the serving process speaks version {VERSION + 1}$"):
            await run(tmp_path / "a")


async def test_express_lines_are_not_sent_twice(
    tmp_path: Path, writer: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """When the node goes away it is not known which have left."""
    async with serving(tmp_path / "a", take):
        assert await run(tmp_path / "a", triack.EXPRESS) == 1
    lost = "the connection to the node that serves the directory was lost, and express messages are not sent twice"
    assert capsys.readouterr().err.splitlines() == [
        f"triack: lines 1-2 not received: {lost}",
        f"triack: what follows line 2 was not sent: {lost}",
    ]


async def test_a_node_that_has_forgotten_lines_is_another_store(
    tmp_path: Path, writer: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """They were safe, says the first; the one that comes in its place has never heard of them."""
    async with serving(tmp_path / "a", take, produce):
        assert await run(tmp_path / "a") == 1
    lost = f"the node of {tmp_path / 'a'} has lost lines 1-2: it is not the same store"
    assert capsys.readouterr().err.splitlines() == [
        f"triack: lines 1-2 not ordered: {lost}",
        f"triack: what follows line 2 was not sent: {lost}",
    ]


async def test_the_error_says_what_lines_wait_for(
    tmp_path: Path, writer: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a suspended link nothing is sent when the node runs; the node says so in answer to ``forget``."""

    async def store_in_silence(link: Link) -> None:
        await produce(link)
        await hear(link, do="take")
        with suppress(ConnectionError):
            await hear(link, op="bye")

    async def remember(link: Link) -> None:
        await produce(link, accepted=2)
        await answer(link, "forget", waits_for="restart")

    async with serving(tmp_path / "a", store_in_silence, remember):
        assert await run(tmp_path / "a", timeout=0.2) == 1
    told = capsys.readouterr().err.splitlines()[0]
    assert told == f"triack: lines 1-2 not yet ordered: not after 0.2 s; {stored_but('restart')}"


async def test_what_was_stored_when_it_gives_up_is_reported_as_that(
    tmp_path: Path, writer: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Though the answer was still to come: a user who hears otherwise sends it again. The node is to forget us."""
    said = []

    async def store_in_silence(link: Link) -> None:
        await produce(link)
        await hear(link, do="take")
        with suppress(ConnectionError):
            await hear(link, op="bye")

    async def remember(link: Link) -> None:
        await produce(link, accepted=2)
        said.append((await answer(link, "forget", waits_for=""))["producer"])

    async with serving(tmp_path / "a", store_in_silence, remember):
        assert await run(tmp_path / "a", timeout=0.2) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"triack: lines 1-2 not yet ordered: not after 0.2 s; {STORED}",
        "triack: what follows line 2 was not sent: not after 0.2 s",
    ]
    assert said == [3]
