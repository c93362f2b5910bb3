"""Attributes and contexts."""

from opentelemetry import context, trace

from tests.tools.tracing.conftest import Spans
from triack.tracing.spans import about, links_to, with_context


def test_a_list_has_its_number() -> None:
    assert about("send", "orders", count=1).keys() == about("process", "orders").keys()
    assert about("send", "orders", count=3)["messaging.batch.message_count"] == 3


def test_the_headers_of_the_sender_stay(spans: Spans) -> None:
    given = {"by": "till 3"}
    assert with_context(given) == given
    with spans.provider.get_tracer("t").start_as_current_span("s"):
        assert with_context(given).keys() == {"by", "traceparent"}
    assert given == {"by": "till 3"}


def test_one_link_for_each_span(spans: Spans) -> None:
    span = spans.provider.get_tracer("t").start_span("s")
    brought = trace.set_span_in_context(span, context.Context())
    assert len(links_to([brought, brought, context.Context()])) == 1
    span.end()
