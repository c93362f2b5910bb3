"""Spans of what a program sends, receives and works on.

A message of a trace carries the trace's context in its headers, as W3C's ``traceparent``, with the flag whether it is
sampled, and its baggage. All others carry nothing more than without tracing, and cost a comparison at either end.
"""

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import wraps
from random import random
from time import time_ns
from typing import Any, ParamSpec, TypeVar, cast

import opentelemetry.context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind

import triack
from triack.base.checks import check_between
from triack.base.errors import UsageError
from triack.node.client.client import Client
from triack.node.handles.message import Message, Messages
from triack.node.node import Node
from triack.tracing.consumer import told, traced
from triack.tracing.spans import CONTEXT_HEADER, about, context_of, links_to, with_context

P = ParamSpec("P")
T = TypeVar("T")
N = TypeVar("N", bound=Node | Client)
Nothing = AbstractContextManager[trace.Span | None]


class _Nothing:
    """A block without a span. Most messages have one, so neither end of it is a call of Python."""

    __enter__ = dict[str, str]().clear  # returns None
    __exit__ = "".format  # accepts anything and returns something empty, so that exceptions leave the block


_NOTHING = cast("Nothing", _Nothing())


def _reader_of_context() -> Callable[[], Context]:
    """What gives the current context: no call of Python, if contexts are where OpenTelemetry usually has them."""
    runtime = getattr(opentelemetry.context, "_RUNTIME_CONTEXT", None)
    variable = getattr(runtime, "_current_context", None)
    return variable.get if isinstance(variable, ContextVar) else opentelemetry.context.get_current


class Tracing:
    """Makes the spans of nodes and clients.

    Args:
        provider: makes the tracer; None: the one that the program has set.
        sample: the share of sends that begin a new trace where no span is active. The others do not even ask the
            tracer, which is slower than to send a message. What belongs to a trace is traced in any case. The sampler
            of the provider decides after that.
        sample_received: the same for work on messages that have brought no trace, as their sender makes no spans.

    Raises:
        UsageError: this is no share.
    """

    def __init__(
        self, provider: trace.TracerProvider | None = None, *, sample: float = 1.0, sample_received: float = 0.0
    ) -> None:
        check_between("Tracing: sample", sample, 0, 1)
        check_between("Tracing: sample_received", sample_received, 0, 1)
        self._tracer = trace.get_tracer("triack", triack.__version__, provider)
        self._sample = sample
        self._sample_received = sample_received
        self._current = _reader_of_context()
        # A message whose receive has a span, and its context: the work on it is next, and does not read it again.
        self._received: tuple[Message, Context] | None = None

    # ---- sends and receives

    def watch(self, node: N) -> N:
        """Make spans of all that a node or a client sends and receives from now on, transactions included.

        Returns:
            The same node.

        Raises:
            UsageError: this is no node, or it is watched already.
        """
        if not isinstance(node, Node | Client):
            raise UsageError(f"watch {node!r}: spans are made of what nodes and clients do")
        if "send" in vars(node):
            raise UsageError(f"watch {node!r}: it is watched already")
        transaction, receive = node.transaction, node.receive
        self._watch_sends(node)
        there: Any = node
        there.request = self._traced(node.request)
        if isinstance(node, Node):
            there.send_nowait = self._traced_at_once(node.send_nowait)
        there.transaction = lambda: self._watch_transaction(transaction())
        there.receive = lambda *args, **options: traced(receive(*args, **options), self._tell)
        return node

    def _watch_sends(self, there: Any) -> None:
        there.send, there.send_many = self._traced(there.send), self._traced(there.send_many, many=True)

    def _watch_transaction(self, tx: Any) -> Any:
        receive, receive_many = tx.receive, tx.receive_many
        self._watch_sends(tx)

        async def traced_receive(*args: Any, **options: Any) -> Message:
            began_ns = time_ns()
            message: Message = await receive(*args, **options)
            self._tell(message.queue, [message], began_ns)
            return message

        async def traced_receive_many(*args: Any, **options: Any) -> Messages:
            return await told(receive_many(*args, **options), self._tell)

        tx.receive, tx.receive_many = traced_receive, traced_receive_many
        return tx

    def _traced(self, send: Callable[..., Any], *, many: bool = False) -> Callable[..., Any]:
        sample, current = self._sample, self._current

        async def with_span(destination: str, body: Any, **options: Any) -> Any:
            bodies = list(body) if many else body
            with self._sending(destination, len(bodies) if many else 1, options):
                return await send(destination, bodies, **options)

        def traced_send(destination: str, body: Any, **options: Any) -> Any:
            if not current() and (random() >= sample or _carries_context(options)):
                return send(destination, body, **options)
            return with_span(destination, body, **options)

        return wraps(send)(traced_send)

    def _traced_at_once(self, send: Callable[..., T]) -> Callable[..., T]:
        sample, current = self._sample, self._current

        def traced_send(destination: str, body: bytes, **options: Any) -> T:
            if not current() and (random() >= sample or _carries_context(options)):
                return send(destination, body, **options)
            with self._sending(destination, 1, options):
                return send(destination, body, **options)

        return wraps(send)(traced_send)

    def _sending(self, destination: str, count: int, options: dict[str, Any]) -> Nothing:
        """The span of a send, whose context goes into the headers: a trace that is not sampled stays so behind it."""
        span = self._tracer.start_span(
            f"send {destination}", kind=SpanKind.PRODUCER, attributes=about("send", destination, count=count)
        )
        active = trace.use_span(span, end_on_exit=True)
        if span.get_span_context().is_valid:
            options["headers"] = with_context(options.get("headers"), trace.set_span_in_context(span))
        return active

    def _tell(self, queue: str, brought: Sequence[Message], began_ns: int, count: int = 1) -> None:
        """Make the span of a receive, if any of the messages belongs to a trace; see ``Tell``."""
        contexts = [context for message in brought if (context := context_of(message)) is not None]
        if contexts:
            self._received = (brought[0], contexts[0]) if len(brought) == 1 else None
            self._tracer.start_span(
                f"receive {queue}",
                context=contexts[0] if count == 1 else None,
                kind=SpanKind.CLIENT,
                attributes=about("receive", queue, brought, count),
                links=links_to(contexts),
                start_time=began_ns or None,
            ).end()

    def headers(self, headers: Mapping[str, str] | None = None) -> dict[str, str]:
        """Headers with the context of the active span, for a message that is sent later.

        For messages of an outbox: ``enqueue(connection, "orders", body, headers=tracing.headers())``.
        """
        if trace.get_current_span().get_span_context().is_valid:
            return with_context(headers)
        return dict(headers or {})

    # ---- the work on messages

    def processing(self, message: Message, *others: Message) -> Nothing:
        """A block in which one message or several are worked on: what it sends belongs to the same trace.

        The span is a child of the send's for a single message, and linked to the sends of all. It gets the exception
        that leaves the block. ``as`` gives the span; None where no trace has begun.
        """
        packet = message._drawn.run.packet  # noqa: SLF001 - as ``has_properties``, without a call
        properties = (packet.content or packet.open()).properties
        is_plain = properties is None or not properties[message._index]  # noqa: SLF001 - as above
        if is_plain and not others and not self._current() and random() >= self._sample_received:
            return _NOTHING
        return self._process([message, *others])

    def _process(self, messages: Sequence[Message]) -> Nothing:
        received, self._received = self._received, None
        if received is not None and len(messages) == 1 and messages[0] is received[0]:
            contexts = [received[1]]
        else:
            contexts = [context for message in messages if (context := context_of(message)) is not None]
        if not (contexts or self._current()) and random() >= self._sample_received:
            return _NOTHING
        queue = messages[0].queue
        span = self._tracer.start_as_current_span(
            f"process {queue}",
            kind=SpanKind.CONSUMER,
            attributes=about("process", queue, messages),
            links=links_to(contexts),
        )
        return _within(contexts[0], span) if contexts and len(messages) == 1 else span

    def handler(self, work: Callable[[Message], Coroutine[Any, Any, T]]) -> Callable[[Message], Coroutine[Any, Any, T]]:
        """Decorates an async function of a message: its work is a ``processing`` block."""

        @wraps(work)
        async def traced(message: Message) -> T:
            with self.processing(message):
                return await work(message)

        return traced


@contextmanager
def _within(brought: Context, block: AbstractContextManager[T]) -> Iterator[T]:
    """A block in the context that a message has brought: its trace, and its baggage."""
    context = opentelemetry.context.get_current()
    for key, value in brought.items():
        context = opentelemetry.context.set_value(key, value, context)
    token = opentelemetry.context.attach(context)
    try:
        with block as given:
            yield given
    finally:
        opentelemetry.context.detach(token)


def _carries_context(options: Mapping[str, Any]) -> bool:
    return CONTEXT_HEADER in (options.get("headers") or ())
