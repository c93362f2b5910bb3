"""Reading a queue, with messages that any thread may settle, for callers that wait."""

from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Self

from triack.node.client.client_consumer import ClientConsumer
from triack.node.client.client_subscriber import ClientSubscriber
from triack.node.handles.consumer import Consumer
from triack.node.handles.derived import waited
from triack.node.handles.message import Holder, Message, Messages
from triack.node.handles.subscribing import Subscriber
from triack.node.sync.sync_loop import LoopThread, OverLoopUntilExit
from triack.queues.mailboxes.mailbox import Lease


class _ThreadSafe:
    """Answers for a message that any thread may settle."""

    def __init__(self, loop: LoopThread, holder: Holder) -> None:
        self._loop = loop
        self._holder = holder

    def acknowledge(self, lease: Lease) -> None:
        """The message is done."""
        self._loop.tell(lambda: self._holder.acknowledge(lease))

    def give_back(self, lease: Lease, *, failed: bool, delay_ms: int | None, dead: bool = False) -> None:
        """The message is redelivered, or is dead."""
        self._loop.tell(lambda: self._holder.give_back(lease, failed=failed, delay_ms=delay_ms, dead=dead))


class SyncMessage(Message):
    """A message whose body is read without ``async``."""

    __slots__ = ("_inner", "_loop")

    def __init__(self, loop: LoopThread, inner: Message) -> None:
        self._loop = loop
        self._inner = inner
        super().__init__(b"", *inner.parts)

    @property
    def body(self) -> bytes:
        """The bytes that were sent. Raises LargeBody for those of a large message."""
        return self._inner.body

    @body.setter
    def body(self, body: bytes) -> None:
        """Do nothing: it stays where it is."""

    @property
    def size(self) -> int:
        """Length of its body in bytes."""
        return self._inner.size

    @property
    def is_large(self) -> bool:
        """Whether it was sent in parts."""
        return self._inner.is_large

    def stream(self) -> Iterator[bytes]:  # type: ignore[override]
        """Yield the body, a part at a time: ``for chunk in message.stream()``; see ``Message.stream``."""
        chunks = self._inner.stream()

        async def following() -> bytes:
            return await anext(chunks, b"")

        while chunk := self._loop.wait(following()):
            yield chunk

    def save(self, path: str | Path) -> int:  # type: ignore[override]
        """Write the body to a file; see ``Message.save``."""
        return self._loop.wait(self._inner.save(path))


def thread_safe(loop: LoopThread, message: Message) -> Message:
    """The same message, to be settled by any thread."""
    return SyncMessage(loop, message.held_by(lambda holder: _ThreadSafe(loop, holder)))


class SyncConsumer(OverLoopUntilExit[Consumer | ClientConsumer]):
    """An iterator over the messages of one queue; also a context manager. See ``Consumer``."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        return self.get()

    get = waited(Consumer.get, perform="_draw")
    get_many = waited(Consumer.get_many, perform="_draw")
    get_by_id = waited(Consumer.get_by_id, perform="_draw")
    get_by_correlation_id = waited(Consumer.get_by_correlation_id, perform="_draw")

    def _draw(self, begin: Callable[[Any], Coroutine[Any, Any, Any]], _wrap: None) -> Any:
        safe = partial(thread_safe, self._loop)

        async def draw() -> Any:
            given = await begin(self._inner)
            return given.each(safe) if isinstance(given, Messages) else safe(given)

        return self._loop.wait(draw(), _put_back)

    def close(self) -> None:
        """Give back unacknowledged messages, and receive no more."""
        self.__exit__(GeneratorExit, None, None)


class SyncSubscriber(SyncConsumer):
    """An iterator over the messages of one subscription; also a context manager. See ``Subscriber``."""

    _inner: Subscriber | ClientSubscriber

    pause = waited(Subscriber.pause)
    resume = waited(Subscriber.resume)


def _put_back(unseen: Message | Messages) -> None:
    """Give back messages of an interrupted call: the next call would acknowledge them unseen."""
    for message in unseen if isinstance(unseen, Messages) else [unseen]:
        message.reject(failed=False)
