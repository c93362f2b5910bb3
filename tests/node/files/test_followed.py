"""A file that is acted by again whenever it has changed: nobody's change is missed, and none is acted by twice."""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.node.nodes import WAIT, until
from triack.base.errors import IdentityError
from triack.node.files import private_files
from triack.node.files.followed import Followed
from triack.node.files.private_files import PrivateFiles

POLLS_S = 0.05
"""The file is looked at many times meanwhile."""


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_files, "POLL_SECONDS", 0.001)


class Story(PrivateFiles):
    """A file with a number, which the node acts by.

    Attributes:
        used: the numbers that it has acted by.
        read_count: how often the file was read.
        on_read: does something when it has been read.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._other = PrivateFiles(folder)
        self.used: list[int] = []
        self.read_count = 0
        self.on_read: Callable[[], object] = lambda: None
        self.write(1)
        self.followed = Followed(self, "f", self._decode, self._use)
        self.followed.open()

    def write(self, number: object) -> None:
        """As another process does."""
        self._other.change("f", lambda _: str(number).encode())

    def read(self, name: str) -> bytes | None:
        content = super().read(name)
        self.read_count += 1
        self.on_read()
        return content

    def _decode(self, content: bytes | None) -> int:
        if content is None or not content.isdigit():
            raise IdentityError("no number")
        return int(content)

    def _use(self, number: int) -> None:
        assert threading.current_thread() is threading.main_thread()
        self.used.append(number)

    @asynccontextmanager
    async def watched(self) -> Any:
        task = asyncio.create_task(self.followed.watch(asyncio.to_thread))
        try:
            yield
            assert not task.done()
        finally:
            task.cancel()


async def test_a_change_is_acted_by_once(tmp_path: Path) -> None:
    story = Story(tmp_path)
    async with story.watched():
        story.write(2)
        await until(lambda: story.used == [1, 2])
        count = story.read_count
        await asyncio.sleep(POLLS_S)
        assert (story.used, story.read_count) == ([1, 2], count)


async def test_what_cannot_be_read_for_a_while_is_read_then(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody has to change the file again, and the log has one line of it, however often it was tried."""
    story = Story(tmp_path)

    def fail() -> None:
        raise IdentityError("read f: Too many open files")

    async with story.watched():
        story.on_read = fail
        story.write(2)
        await until(lambda: story.read_count > 10)
        story.on_read = lambda: None
        await until(lambda: story.used == [1, 2])
    assert caplog.messages == ["f not used, the one before is still in force: read f: Too many open files"]


async def test_what_cannot_be_understood_waits_for_the_next_change(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is not read again and again, however large it is."""
    story = Story(tmp_path)
    async with story.watched():
        story.write("two")
        await until(lambda: caplog.messages)
        count = story.read_count
        await asyncio.sleep(POLLS_S)
        assert (story.used, story.read_count, len(caplog.messages)) == ([1], count, 1)
        story.write(2)
        await until(lambda: story.used == [1, 2])


async def test_an_own_change_is_read_once(tmp_path: Path) -> None:
    """Also when the watcher sees it before the node acts by it; what the change returns is handed on."""
    story = Story(tmp_path)

    def change() -> str:
        story.write(2)
        time.sleep(POLLS_S)  # the watcher looks meanwhile
        return "done"

    async with story.watched():
        assert await story.followed.load(asyncio.to_thread, change) == "done"
        assert story.used == [1, 2]
        count = story.read_count
        await asyncio.sleep(POLLS_S)
        assert (story.used, story.read_count) == ([1, 2], count)


@pytest.mark.parametrize("when", ["before it is read", "after it was read"])
async def test_a_change_of_another_right_after_an_own_one_is_not_missed(tmp_path: Path, when: str) -> None:
    """The other process writes between the node's own change and the moment at which the node acts on it."""
    story = Story(tmp_path)

    def change() -> None:
        story.write(2)
        if when == "before it is read":
            story.write(3)
        else:
            story.on_read = interfere

    def interfere() -> None:
        story.on_read = lambda: None
        story.write(3)

    await story.followed.load(asyncio.to_thread, change)
    async with story.watched():
        await until(lambda: story.used[-1] == 3)


async def test_what_is_read_late_does_not_undo_what_came_after_it(tmp_path: Path) -> None:
    """The watcher has read the file when the node changes it: the node acts by the change at last."""
    story = Story(tmp_path)
    has_read, may_go_on = threading.Event(), threading.Event()

    def wait() -> None:
        story.on_read = lambda: None
        has_read.set()
        may_go_on.wait(WAIT)

    async with story.watched():
        story.on_read = wait
        story.write(2)
        await until(has_read.is_set)
        changing = asyncio.create_task(story.followed.load(asyncio.to_thread, lambda: story.write(3)))
        await asyncio.sleep(POLLS_S)
        may_go_on.set()
        await changing
        assert story.used == [1, 2, 3]
        await asyncio.sleep(POLLS_S)
        assert story.used == [1, 2, 3]


async def test_a_change_whose_maker_is_cancelled_is_acted_by(tmp_path: Path) -> None:
    """It is written down all the same, and seen there."""
    story = Story(tmp_path)
    begun, may_go_on = threading.Event(), threading.Event()

    def change() -> None:
        begun.set()
        may_go_on.wait(WAIT)
        story.write(2)

    async with story.watched():
        changing = asyncio.create_task(story.followed.load(asyncio.to_thread, change))
        await until(begun.is_set)
        changing.cancel()
        may_go_on.set()
        await until(lambda: story.used == [1, 2])
        assert changing.cancelled()
