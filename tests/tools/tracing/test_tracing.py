"""Spans of messages."""

import asyncio
import sys
from collections import Counter
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.context import attach, detach
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, TraceFlags, use_span

import triack
from tests.machine import PATIENCE_S
from tests.tools.tracing.conftest import Spans
from triack.tracing import Tracing
from triack.tracing.spans import links_to, with_context

WAIT = PATIENCE_S


def ids(span: ReadableSpan) -> tuple[int, int]:
    assert span.context is not None
    return span.context.trace_id, span.context.span_id


def linked(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


async def test_a_message_is_followed_from_its_sender_to_what_its_work_sends(shop: triack.Node, spans: Spans) -> None:
    """One trace: the send, the receive, the work, and the send of the answer within it."""
    tracing = Tracing(spans.provider)
    node = tracing.watch(shop)
    await node.send("orders", b"12 valves", headers={"by": "till 3"})
    async with node.receive("orders") as reader:
        message = await reader.get(WAIT)
        with tracing.processing(message) as span:
            assert span is not None
            await node.send("invoices", b"for 12")
    assert spans.names == ["send orders", "receive orders", "send invoices", "process orders"]
    (sent,), (received,), (worked,) = (spans.named(f"{it} orders") for it in ("send", "receive", "process"))
    (answered,) = spans.named("send invoices")
    assert message.headers["by"] == "till 3"
    assert {ids(it)[0] for it in (sent, received, worked, answered)} == {ids(sent)[0]}
    assert linked(received) == linked(worked) == [ids(sent)]
    assert worked.parent is not None
    assert answered.parent is not None
    assert (worked.parent.span_id, answered.parent.span_id) == (ids(sent)[1], ids(worked)[1])
    assert [it.kind for it in (sent, received, worked)] == [SpanKind.PRODUCER, SpanKind.CLIENT, SpanKind.CONSUMER]
    assert dict(worked.attributes or {}) == {
        "messaging.system": "triack",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "orders",
        "messaging.message.id": message.id,
        "messaging.message.body.size": 9,
    }


async def test_lists_have_one_span_and_a_link_to_each_send(shop: triack.Node, spans: Spans) -> None:
    tracing = Tracing(spans.provider)
    node = tracing.watch(shop)
    await node.send_many("orders", [b"1", b"2"])
    node.send_nowait("orders", b"3")
    async with node.receive("orders") as reader:
        messages = [*await reader.get_many(3, WAIT)]
        messages += await reader.get_many(3, WAIT) if len(messages) < 3 else []
        with tracing.processing(*messages):
            pass
    many, one = spans.named("send orders")
    (worked,) = spans.named("process orders")
    assert (many.attributes or {})["messaging.batch.message_count"] == 2
    assert linked(worked) == [ids(many), ids(one)]
    assert worked.parent is None


async def test_transactions_and_clients_are_watched(shop: triack.Node, spans: Spans, tmp_path: Path) -> None:
    tracing = Tracing(spans.provider)
    async with triack.connect(data=tmp_path / "shop") as client:
        tracing.watch(client)
        async with client.transaction() as tx:
            await tx.send("orders", b"1")
            await tx.send_many("orders", [b"2", b"3"])
        async with client.transaction() as tx:
            assert (await tx.receive("orders", WAIT)).body == b"1"
            assert len(await tx.receive_many("orders", 2, WAIT)) == 2
        await client.send("orders", b"4")
        async for message in client.receive("orders"):
            assert message.body == b"4"
            break
    assert spans.names.count("send orders") == 3
    assert spans.names.count("receive orders") == 3


async def test_a_failure_is_the_spans_failure(shop: triack.Node, spans: Spans) -> None:
    tracing = Tracing(spans.provider)
    node = tracing.watch(shop)
    await node.send("orders", b"1")

    @tracing.handler
    async def work(message: triack.Message) -> None:
        raise LookupError(message.body.decode())

    message = await node.receive("orders", ack="manual").get()
    with pytest.raises(LookupError):
        await work(message)
    (worked,) = spans.named("process orders")
    assert worked.events[0].name == "exception"
    with pytest.raises(triack.MessageTooLarge):
        await node.send("orders", bytes(5_000_000))
    assert spans.named("send orders")[1].events[0].name == "exception"


async def test_what_is_not_sampled_costs_nothing_on_the_way(shop: triack.Node, spans: Spans) -> None:
    """No header, no span; what belongs to a trace has spans nevertheless, and so has work that is asked for."""
    tracing = Tracing(spans.provider, sample=0)
    node = tracing.watch(shop)
    await node.send("orders", b"1")
    message = await node.receive("orders", ack="manual").get()
    with tracing.processing(message) as span:
        assert span is None
    assert (message.headers, spans.names) == ({}, [])
    with spans.provider.get_tracer("web").start_as_current_span("POST /orders"):
        await node.send("orders", b"2")
    with Tracing(spans.provider, sample_received=1).processing(message):
        pass
    assert spans.names == ["send orders", "POST /orders", "process orders"]


async def test_a_message_of_an_outbox_stays_in_the_trace_of_its_request(shop: triack.Node, spans: Spans) -> None:
    tracing = Tracing(spans.provider)
    assert tracing.headers({"by": "till 3"}) == {"by": "till 3"}
    with spans.provider.get_tracer("web").start_as_current_span("POST /orders") as request:
        headers = tracing.headers({"by": "till 3"})
    node = tracing.watch(shop)
    async with node.transaction() as tx:
        await tx.send("orders", b"1", headers=headers)
    with tracing.processing(await node.receive("orders", ack="manual").get()) as span:
        assert span is not None
        assert span.get_span_context().trace_id == request.get_span_context().trace_id
    assert spans.named("send orders") == []


async def test_a_request_and_its_answer_are_one_trace(shop: triack.Node, spans: Spans) -> None:
    tracing = Tracing(spans.provider)
    node = tracing.watch(shop)

    async def answer() -> None:
        question = await node.receive("questions", ack="manual").get()
        with tracing.processing(question):
            await node.reply(question, b"yes")

    answering = asyncio.create_task(answer())
    assert (await node.request("questions", b"durable?", timeout=WAIT)).body == b"yes"
    await answering
    found = [ids(span)[0] for name in ("send questions", "process questions") for span in spans.named(name)]
    found += [ids(span)[0] for span in spans.named(next(it for it in spans.names if "$replies" in it))]
    assert len(found) == 3
    assert len(set(found)) == 1


async def test_headers_of_others_are_no_trace(shop: triack.Node, spans: Spans) -> None:
    """And the block of such a message lets exceptions pass."""
    tracing = Tracing(spans.provider, sample=0)
    await tracing.watch(shop).send("orders", b"1", headers={"traceparent": "00-zz-1-01"})
    message = await shop.receive("orders", ack="manual").get()
    with suppress(LookupError):
        with tracing.processing(message) as span:
            assert span is None
            raise LookupError
        pytest.fail("it was swallowed")
    assert spans.names == []


@pytest.mark.parametrize("share", [-0.1, 1.1, "all"])
def test_a_share_is_between_0_and_1(share: Any) -> None:
    with pytest.raises(triack.UsageError, match="Tracing: sample"):
        Tracing(sample=share)


async def test_only_nodes_are_watched_and_only_once(shop: triack.Node, spans: Spans) -> None:
    tracing = Tracing(spans.provider)
    tracing.watch(shop)
    with pytest.raises(triack.UsageError, match="it is watched already"):
        tracing.watch(shop)
    with pytest.raises(triack.UsageError, match="spans are made of what nodes and clients do"):
        tracing.watch(object())  # type: ignore[type-var]


SENT = 300


async def calls_of_tracing(node: triack.Node, tracing: Tracing) -> Counter[str]:
    """Send and work on messages, and count the calls of the room's functions and of OpenTelemetry's."""
    calls = Counter[str]()

    def count(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and (
            "opentelemetry" in frame.f_code.co_filename or "/triack/tracing/" in frame.f_code.co_filename
        ):
            calls[frame.f_code.co_name] += 1

    async with node.receive("orders") as reader:
        sys.setprofile(count)
        try:
            for number in range(SENT):
                await node.send("orders", b"%d" % number)
            got = 0
            async for message in reader:
                with tracing.processing(message):
                    got += 1
                if got == SENT:
                    break
        finally:
            sys.setprofile(None)
    return calls


async def test_a_message_that_is_not_sampled_costs_two_calls(
    shop: triack.Node, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One for its send and one for ``processing``; that of the reader is in place of the reader's own."""
    monkeypatch.setattr("triack.tracing.tracing.random", (0.5).__float__)
    tracing = Tracing(spans.provider, sample=0.01)
    calls = await calls_of_tracing(tracing.watch(shop), tracing)
    assert calls.pop("__anext__") <= SENT + 10  # it goes on when it has waited
    assert calls == {"traced_send": SENT, "processing": SENT}
    assert spans.names == []


@pytest.mark.gate
async def test_a_context_is_read_once(shop: triack.Node, spans: Spans) -> None:
    """The spans of a receive and of the work that follows share it; work on another message reads its own."""
    tracing = Tracing(spans.provider)
    calls = await calls_of_tracing(tracing.watch(shop), tracing)
    assert calls["with_context"] == calls["_tell"] == calls["_process"] == SENT
    assert calls["context_of"] == SENT
    await shop.send_many("orders", [b"1"])
    await shop.send("orders", b"2")
    async with shop.receive("orders") as reader:
        first, second = await reader.get(WAIT), await reader.get(WAIT)
        for message in (first, second, first):
            with tracing.processing(message):
                pass
    assert linked(spans.named("process orders")[-3]) == linked(spans.named("process orders")[-1])
    assert linked(spans.named("process orders")[-2]) == [ids(spans.named("send orders")[-1])]


async def test_one_of_a_hundred_costs_the_others_nothing(
    shop: triack.Node, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = cycle([0.0, *[0.5] * 99])
    monkeypatch.setattr("triack.tracing.tracing.random", lambda: next(draws))
    tracing = Tracing(spans.provider, sample=0.01, sample_received=0.0)
    node = tracing.watch(shop)
    for number in range(SENT):
        await node.send("orders", b"%d" % number)
    async with node.receive("orders") as reader:
        messages = [*await reader.get_many(SENT, WAIT)]
        while len(messages) < SENT:
            messages += await reader.get_many(SENT, WAIT)
    traced = [int(message.body) for message in messages if message.has_properties]
    assert traced == [0, 100, 200]
    assert [message.headers.keys() for message in messages if message.has_properties] == [{"traceparent"}] * 3
    assert len(spans.named("send orders")) == 3
    received = spans.named("receive orders")
    assert sum(len(linked(span)) for span in received) == 3


async def test_a_trace_that_is_not_sampled_stays_so_behind_a_message(shop: triack.Node, spans: Spans) -> None:
    """Its context travels, and no span of it is recorded, at either end."""
    tracing = Tracing(spans.provider)
    node = tracing.watch(shop)
    asked = NonRecordingSpan(SpanContext(1 << 127 | 5, 7, is_remote=True, trace_flags=TraceFlags(0)))
    with use_span(asked):
        await node.send("orders", b"x")
    async with node.receive("orders") as reader:
        message = await reader.get(WAIT)
        with tracing.processing(message) as span:
            assert span is not None
            assert span.get_span_context().trace_id == 1 << 127 | 5
            await node.send("invoices", b"y")
    assert spans.names == []


async def test_work_on_a_message_has_the_baggage_of_its_send(shop: triack.Node, spans: Spans) -> None:
    """And gives it to what it sends; outside of the block nothing is left of it."""
    tracing = Tracing(spans.provider)
    node = tracing.watch(shop)
    token = attach(baggage.set_baggage("tenant", "acme"))
    await node.send("orders", b"x")
    detach(token)
    async with node.receive("orders") as reader:
        message = await reader.get(WAIT)
        with tracing.processing(message):
            assert baggage.get_baggage("tenant") == "acme"
            await node.send("invoices", b"y")
    assert baggage.get_baggage("tenant") is None
    async with node.receive("invoices") as reader:
        assert (await reader.get(WAIT)).headers["baggage"] == "tenant=acme"


async def test_it_acknowledges_gives_back_and_closes_as_ever(shop: triack.Node, spans: Spans) -> None:
    node = Tracing(spans.provider).watch(shop)
    await node.send_many("orders", [b"1", b"2"])
    reader = node.receive("orders")

    async def read() -> None:
        async with reader:
            async for message in reader:
                if message.body == b"2":
                    raise LookupError

    with pytest.raises(LookupError):
        await read()
    assert "orders" in repr(reader)
    reader.close()
    assert node.queue_lengths()["orders"] == 1
    assert (await node.receive("orders", ack="manual").get()).failures == 1
    assert spans.names.count("receive orders") == 3


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
