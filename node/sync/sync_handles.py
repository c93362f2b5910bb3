"""What a node gives out, for callers that wait: readers, messages, receipts, transactions. Any thread may use them."""

from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, Self, TypeVar

from triack.node.client.client_consumer import ClientConsumer, ClientSubscriber
from triack.node.client.client_transaction import ClientTransaction
from triack.node.handles.consumer import Consumer
from triack.node.handles.consuming import Handler, HandlerOptions
from triack.node.handles.derived import waited
from triack.node.handles.message import Message, Messages, Settle
from triack.node.handles.receipt import Listed, Receipt, Receipts, Waits
from triack.node.handles.subscribing import Subscriber
from triack.node.handles.transaction import Transaction
from triack.node.sync.sync_loop import LoopThread, OverLoop, OverLoopUntilExit

W = TypeVar("W", bound=Waits)


class SyncMessage(Message):
    """A message whose body is read without ``async``."""

    __slots__ = ("_inner", "_loop")

    def __init__(self, loop: LoopThread, inner: Message) -> None:
        self._loop = loop
        self._inner = inner
        super().__init__(b"", *inner.parts)

    body = property(attrgetter("_inner.body"), lambda _self, _body: None)  # which stays where it is
    size = property(attrgetter("_inner.size"))
    is_large = property(attrgetter("_inner.is_large"))

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

    def wrap(settle: Settle) -> Settle:
        return lambda lease, way: loop.tell(lambda: settle(lease, way))

    return SyncMessage(loop, message.settled_by(wrap))


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


class _SyncWaits(OverLoop[W]):
    queued = waited(Waits.queued)
    received = waited(Waits.received)
    stored = waited(Waits.stored)
    onward = waited(Waits.onward)
    ordered = waited(Waits.ordered)
    reached = waited(Waits.reached)


class SyncReceipt(_SyncWaits[Receipt]):
    """A handle on how far a message has come; see ``Receipt``. Each wait takes seconds, None for no limit."""

    @property
    def id(self) -> str:
        """The message's permanent name, which ``Message.id`` has where it arrives."""
        return self._inner.id

    @property
    def number(self) -> int | None:
        """Its place in its outgoing queue; see ``Receipt.number``."""
        return self._inner.number


class SyncReceipts(_SyncWaits[Receipts], Listed[SyncReceipt]):
    """A handle on how far a list of messages has come, and on each of them; see ``Receipts``."""

    def __len__(self) -> int:
        return len(self._inner)

    def _receipt_of(self, index: int) -> SyncReceipt:
        return SyncReceipt(self._loop, self._inner[index])


Begin = Callable[[Transaction | ClientTransaction], Coroutine[Any, Any, Any]]


def _nothing(_loop: LoopThread, _given: object) -> None:
    """Return nothing: there is nothing left to wait for."""


class SyncTransaction(OverLoopUntilExit[Transaction | ClientTransaction]):
    """A context manager: leaving the block commits, an exception rolls back. See ``Transaction``."""

    send = waited(Transaction.send, perform="_step")
    send_many = waited(Transaction.send_many, perform="_step")
    send_stream = waited(Transaction.send_stream, perform="_step")
    reply = waited(Transaction.reply, perform="_step")
    receive = waited(Transaction.receive, perform="_step")
    receive_many = waited(Transaction.receive_many, perform="_step")
    receive_by_id = waited(Transaction.receive_by_id, perform="_step")
    receive_by_correlation_id = waited(Transaction.receive_by_correlation_id, perform="_step")
    remember = waited(Transaction.remember, _nothing)
    expect = waited(Transaction.expect, _nothing)
    note_bridge = waited(Transaction.note_bridge, _nothing)
    note_given = waited(Transaction.note_given, _nothing)
    commit = waited(Transaction.commit, lambda loop, receipts: [SyncReceipt(loop, receipt) for receipt in receipts])
    rollback = waited(Transaction.rollback, _nothing)

    def _step(self, begin: Begin, _wrap: None) -> Any:
        """Send or receive. An interrupted call has done neither, like a cancelled one."""
        undo: list[Callable[[], None]] = []

        async def step() -> Any:
            done = await begin(self._inner)
            undo.append(self._inner.undo_last())
            return done

        return self._faced(self._loop.wait(step(), lambda _: undo[0]()))

    def _faced(self, given: Any) -> Any:
        """Messages whose bodies are read without ``async``; anything else as it is."""
        if isinstance(given, Messages):
            return given.each(self._faced)
        return SyncMessage(self._loop, given) if isinstance(given, Message) else given


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
