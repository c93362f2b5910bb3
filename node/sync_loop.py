"""An event loop in a thread of its own, for callers that wait."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from triack.base.errors import NodeClosed
from triack.node.event_loop import new_event_loop

__all__ = ["LoopThread"]

T = TypeVar("T")

CLOSED = "the node is closed"
"""What every caller is told that comes too late."""


class LoopThread:
    """An event loop in a thread.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._ended = threading.Lock()
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.run_until_complete(_cancel_all(self._loop))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._thread.is_alive()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Carry it out, and wait for its end; whoever is interrupted meanwhile cancels it.

        Raises:
            NodeClosed: the loop has ended, or ends before that.
        """
        with self._ended:
            if not self.runs:
                work.close()
                raise NodeClosed(CLOSED)
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except CancelledError:
            raise NodeClosed(CLOSED) from None
        except BaseException:
            future.cancel()
            raise

    def tell(self, work: Callable[[], None]) -> None:
        """Carry it out, and raise what it raises."""

        async def told() -> None:
            work()

        self.wait(told())

    def end(self) -> None:
        """Stop the loop. A second call does nothing."""
        with self._ended:
            if self.runs:
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()


async def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    """End what an interrupted caller has left behind, so that it lets go of its files, and whoever waits for it."""
    tasks = asyncio.all_tasks(loop) - {asyncio.current_task(loop)}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
