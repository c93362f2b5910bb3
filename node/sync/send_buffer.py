"""Messages that threads have sent, until the event loop takes them.

Promise: to send a message a thread needs no turn of the loop. When ``put`` returns, the message was checked and there
was room for it. The loop takes it before anything that any thread asks for later, and the node accepts all that it
finds as one list. An interrupted thread has put its whole message there, or nothing: it changes nothing of the node
itself.
"""

import threading

from triack.base.delivery import Delivery
from triack.base.errors import TriackError
from triack.node.handles.receipt import NodeReceipts, Receipt
from triack.node.shell.engine_handle import EngineHandle
from triack.node.shell.outgoing_message import MessageProperties
from triack.node.sync.sync_loop import LoopThread
from triack.queues.messages import Outgoing
from triack.queues.stages import Stage, StageName
from triack.queues.streams.outgoing_stream import OutgoingStream, Row

MESSAGES_MAX = 1_000
"""With more, the next sender waits for the loop: as many as the loop accepts in a few milliseconds."""
BYTES_MAX = 1024 * 1024
"""The same for the bytes of the messages, which the node's own limits do not count."""


class _Run:
    """Consecutive messages to one outgoing queue.

    Attributes:
        messages: what the loop has not taken.
        count: how many there were.
        size_bytes: what they count in limits on memory.
        rows: what they became; None before that.
        error: why they became nothing: the node had ended.
    """

    __slots__ = ("count", "error", "messages", "outgoing", "rows", "size_bytes")

    def __init__(self, outgoing: OutgoingStream) -> None:
        self.outgoing = outgoing
        self.messages: list[bytes | Outgoing] = []
        self.count = 0
        self.size_bytes = 0
        self.rows: list[Row] | None = None
        self.error: TriackError | None = None


class SendBuffer:
    """The buffer of one node."""

    def __init__(self, loop: LoopThread, port: EngineHandle) -> None:
        self._loop = loop
        self._port = port
        self._lock = threading.Lock()
        self._runs: list[_Run] = []
        # Of messages that the node has not accepted.
        self._messages = self._bytes = 0

    def put(
        self, destination: str, body: bytes, delivery: Delivery, properties: MessageProperties
    ) -> "BufferedReceipt | None":
        """Accept a message for sending; see ``Node.send``.

        Returns its receipt; None if the caller must ask the loop: to wait for room, for an error, for a key.
        """
        port = self._port
        if port.settings.blocking.stage_of(delivery) is not None or self._loop.is_this_thread:
            return None
        with self._lock:
            before = self._messages, self._bytes
            if before[0] >= MESSAGES_MAX or before[1] >= BYTES_MAX:
                return None
            prepared = port.prepare_at_hand(destination, body, delivery, properties, before=before)
            if prepared is None:
                return None
            outgoing, message, size_bytes = prepared
            if not self._runs:
                self._loop.post(self._take)  # first: after an interrupt between the two, nothing is left untaken
            if not self._runs or self._runs[-1].outgoing is not outgoing:
                self._runs.append(_Run(outgoing))
            run = self._runs[-1]
            run.messages.append(message)
            run.count += 1
            run.size_bytes += size_bytes
            self._messages += 1
            self._bytes += size_bytes
            return BufferedReceipt(self, run, len(run.messages) - 1)

    def _take(self) -> None:
        """Have the node accept what is there; in the loop."""
        with self._lock:
            runs, self._runs = self._runs, []
        for run in runs:
            messages, run.messages = run.messages, []
            try:
                run.outgoing, run.rows = self._port.accept_at_hand(run.outgoing, messages, run.size_bytes)
            except TriackError as error:
                run.error = error
        with self._lock:
            self._messages -= sum([run.count for run in runs])
            self._bytes -= sum([run.size_bytes for run in runs])

    def receipt(self, run: _Run, index: int) -> Receipt:
        """The receipt of a message, from any thread. Raises NodeClosed, StoreFailed: the node ended before it."""
        if run.rows is None and run.error is None:
            self._loop.tell(self._take)
        if run.error is not None:
            raise run.error
        return NodeReceipts(self._port, run.outgoing, run.rows or [])[index]


class BufferedReceipt(Receipt):
    """The receipt of a message that the loop may not have taken yet; see ``Receipt``."""

    __slots__ = ("_buffer", "_index", "_run")

    def __init__(self, buffer: SendBuffer, run: _Run, index: int) -> None:
        self._buffer = buffer
        self._run = run
        self._index = index

    def __repr__(self) -> str:
        return f"<Receipt of a message to {self._run.outgoing.destination}, {self._run.outgoing.delivery.label}>"

    id = property(lambda self: self._buffer.receipt(self._run, self._index).id)
    number = property(lambda self: self._buffer.receipt(self._run, self._index).number)

    async def reached(self, stage: Stage | StageName, timeout: float | None = None) -> None:
        """Wait for a stage given as a value; see ``Receipt``."""
        await self._buffer.receipt(self._run, self._index).reached(stage, timeout)
