"""Handlers that are called in threads, for programs without ``async``."""

from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

from triack.node.handles.consuming import Handler, HandlerOptions
from triack.node.handles.message import Message, Messages
from triack.node.handles.transaction import Transaction
from triack.node.sync.sync_consumer import thread_safe
from triack.node.sync.sync_loop import LoopThread
from triack.node.sync.sync_transaction import SyncTransaction


@contextmanager
def in_threads(
    loop: LoopThread, handler: Handler, options: HandlerOptions
) -> Iterator[Callable[..., Awaitable[object]]]:
    """The same handler for the event loop, while the block lasts: each call runs in one of its threads."""
    wanted: Any = options.get("concurrency", 1)  # which is checked where the handler begins
    threads = ThreadPoolExecutor(max(1, wanted) if type(wanted) is int else 1, "triack-handler")

    async def call(given: Message | Messages, *transaction: Transaction) -> object:
        safe: Any = thread_safe(loop, given) if isinstance(given, Message) else given.each(partial(thread_safe, loop))
        arguments = (safe, *(SyncTransaction(loop, one) for one in transaction))
        return await loop.run(threads, handler, *arguments)

    call.__name__ = str(getattr(handler, "__name__", type(handler).__name__))
    try:
        yield call
    finally:
        threads.shutdown(wait=False)
