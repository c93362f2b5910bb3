"""Names and attributes of spans, as OpenTelemetry's conventions for messaging have them, and contexts in headers.

https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/
"""

from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry import propagate, trace
from opentelemetry.context import Context

from triack.node.handles.message import Message

CONTEXT_HEADER = "traceparent"
"""The header of W3C's Trace Context, by which a message belongs to a trace."""


def about(operation: str, queue: str, messages: Sequence[Message] = (), count: int = 1) -> dict[str, Any]:
    """The attributes of a span of ``send``, ``receive`` or ``process``, for a queue or a destination.

    ``messages`` are those received, or some of them; ``count`` is how many there are, if more.
    """
    attributes: dict[str, Any] = {
        "messaging.system": "triack",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": queue,
    }
    count = max(len(messages), count)
    if count > 1:
        attributes["messaging.batch.message_count"] = count
    elif messages:
        attributes["messaging.message.id"] = messages[0].id
        attributes["messaging.message.body.size"] = messages[0].size
    return attributes


def with_context(headers: Mapping[str, str] | None, context: Context | None = None) -> dict[str, str]:
    """The headers of a message with a context, by default the current one: its receiver can continue the trace."""
    carrier = dict(headers or {})
    propagate.inject(carrier, context)
    return carrier


def context_of(message: Message) -> Context | None:
    """The context that a message has brought; None for none."""
    headers = message.headers if message.has_properties else None
    return (propagate.extract(headers, Context()) or None) if headers else None


def links_to(contexts: Sequence[Context]) -> list[trace.Link]:
    """Links to the spans that sent messages; sends of one list have one span, and one link."""
    found: dict[int, trace.Link] = {}
    for context in contexts:
        sent = trace.get_current_span(context).get_span_context()
        if sent.is_valid:
            found.setdefault(sent.span_id, trace.Link(sent))
    return list(found.values())
