"""The connection of a client to its node: lines, questions, and what becomes of them while the node is away."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import triack
from tests.node.nodes import SOON, WAIT, make, quick, until
from tests.tools.commands.serving import serving
from triack.base.transitions import IllegalTransition, next_state
from triack.node.client import client as control_client
from triack.node.client.client import Client
from triack.node.client.line import TRANSITIONS, Line, LineEvent, LineState
from triack.node.control.calls import Calls
from triack.node.control.control_frames import VERSION, Link

# The line of a client: its table of moves, and what calls do in each state.


def test_every_state_has_its_row_and_can_be_left_or_is_the_end() -> None:
    assert set(TRANSITIONS) == set(LineState)
    assert {state for row in TRANSITIONS.values() for state in row.values()} == set(LineState)
    for state in LineState:
        assert LineEvent.CLOSE in TRANSITIONS[state]
    with pytest.raises(IllegalTransition):
        next_state(TRANSITIONS, LineState.CLOSED, LineEvent.CONNECTED)


def line_of(client: Client) -> Line:
    """The line of a client, whose state no user sees."""
    return client._line  # noqa: SLF001 - to wait for what would else be a race


@asynccontextmanager
async def lost(data: Path, **how: Any) -> AsyncIterator[Client]:
    """A client whose node has ended."""
    async with make("a", data):
        client = await triack.connect(data, **how).start()
    await until(lambda: line_of(client).state is not LineState.OPEN)
    yield client
    await client.close()


async def test_calls_wait_for_the_next_process_and_fail_when_it_is_away_for_too_long(tmp_path: Path) -> None:
    async with lost(tmp_path, patience=SOON) as client:
        waiting = asyncio.create_task(client.stats())
        with pytest.raises(triack.NodeClosed, match=r"the node of .* has been away for 0\.2 s"):
            await waiting
        with pytest.raises(triack.NodeClosed, match="has been away"):
            await client.send("q", b"x")
        async with make("a", tmp_path) as node:
            await until(lambda: line_of(client).state is LineState.OPEN)
            await client.send("q", b"x", until="ordered")
            assert node.queue_lengths()["q"] == 1


async def test_a_wait_ends_with_its_own_time_or_with_the_client(tmp_path: Path) -> None:
    """Whichever comes first: no reader waits beyond its timeout because the node is away."""
    async with lost(tmp_path, patience=None) as client:
        with pytest.raises(triack.WaitTimeout):
            await client.receive("q").get(SOON)
        waiting = asyncio.create_task(client.receive("q").get())
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(triack.NodeClosed, match="the client is closed"):
            await waiting


async def test_another_node_in_its_place_is_not_used(tmp_path: Path) -> None:
    async with lost(tmp_path / "a", patience=None) as client:
        waiting = asyncio.create_task(client.stats())
        (tmp_path / "a").rename(tmp_path / "old")
        async with make("a", tmp_path / "a"):
            with pytest.raises(triack.NodeClosed, match="another node serves it now"):
                await waiting
            with pytest.raises(triack.NodeClosed, match="another node serves it now"):
                await client.flush()


async def test_a_process_of_another_version_ends_the_wait(tmp_path: Path) -> None:
    async def complain(link: Link) -> None:
        await link.receive()
        await link.send("welcome", v=VERSION + 1)

    async with lost(tmp_path / "a", patience=None) as client:
        (tmp_path / "a").rename(tmp_path / "old")
        async with serving(tmp_path / "a", complain):
            with pytest.raises(triack.ProtocolError, match=f"speaks version {VERSION + 1}"):
                await client.stats()


async def test_a_start_may_wait_for_a_process_to_begin_with(tmp_path: Path) -> None:
    starting = asyncio.create_task(triack.connect(tmp_path, start_timeout=WAIT).start())
    await asyncio.sleep(SOON)
    async with make("a", tmp_path) as node:
        client = await starting
        assert client.node_id == node.node_id
        await client.close()


@pytest.mark.parametrize("name", ["patience", "start_timeout"])
def test_times_are_numbers(tmp_path: Path, name: str) -> None:
    with pytest.raises(triack.UsageError, match=f"connect: {name}"):
        triack.connect(tmp_path, **{name: -1})


# What a client had under way, or in its hands, when the process of its node went away and came back.

Restart = Callable[[], Awaitable[triack.Node]]


@pytest.fixture
async def restarts(tmp_path: Path) -> AsyncIterator[Restart]:
    """Ends the node, if there is one, and begins it again."""
    nodes: list[triack.Node] = []

    async def restart() -> triack.Node:
        if nodes:
            await nodes[-1].close()
        nodes.append(await make("a", tmp_path).start())
        return nodes[-1]

    yield restart
    await nodes[-1].close()


@pytest.fixture
async def client(restarts: Restart, tmp_path: Path) -> AsyncIterator[Client]:
    await restarts()
    async with triack.connect(tmp_path, patience=None) as client:
        yield client


async def test_a_reader_goes_on_and_gets_again_what_it_had_in_hand(restarts: Restart, client: Client) -> None:
    """A late acknowledgement says so, and acknowledges nothing."""
    await client.send_many("q", [b"1", b"2"], until="ordered")
    reader = client.receive("q", ack="manual")
    held = await reader.get(WAIT)
    settled = await reader.get(WAIT)
    settled.ack()
    await client.flush()
    waiting = asyncio.create_task(reader.get(WAIT))
    await asyncio.sleep(0)
    await restarts()
    again = await waiting
    assert (again.body, again.redelivered) == (b"1", True)
    with pytest.raises(
        triack.HandOverEnded, match="went away while this message was being worked on: it will be handed out again"
    ):
        held.ack()
    held.ack()
    again.ack()
    await client.flush()
    assert (await client.queue_lengths())["q"] == 0


async def test_a_loop_goes_on_and_acknowledges_nothing_late(restarts: Restart, client: Client) -> None:
    """The message that was worked on meanwhile comes again."""
    await client.send_many("q", [b"1", b"2"], until="ordered")
    got: list[tuple[bytes, bool]] = []
    async for message in client.receive("q"):
        got.append((message.body, message.redelivered))
        if len(got) == 1:
            await restarts()
        if message.body == b"2":
            break
    assert got == [(b"1", False), (b"1", True), (b"2", True)]


async def test_a_transaction_is_lost_as_a_whole_and_can_be_run_again(restarts: Restart, client: Client) -> None:
    await client.send("q", b"1", until="ordered")

    async def work(*, then: Restart | None = None) -> None:
        async with client.transaction() as tx:
            message = await tx.receive("q", WAIT)
            await tx.send("out", message.body)
            if then is not None:
                await then()

    with pytest.raises(triack.TransactionLost, match="nothing of the transaction has happened; run it again"):
        await work(then=restarts)
    assert await client.queue_lengths() == {"dead-letter": 0, "out": 0, "q": 1}
    await work()
    assert await client.queue_lengths() == {"dead-letter": 0, "out": 1, "q": 0}


async def test_of_a_commit_without_an_answer_both_is_possible(
    restarts: Restart, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is not the one that says to run it again."""
    tx = client.transaction()
    await tx.send("q", b"1")
    held = hold_answers(client, monkeypatch)
    committing = asyncio.create_task(tx.commit())
    await held.wait()
    await restarts()
    with pytest.raises(triack.ConnectionLost, match="all of the transaction happened, or nothing") as lost:
        await committing
    assert (lost.value.maybe_done, isinstance(lost.value, triack.TransactionLost)) == (True, False)


def hold_answers(client: Client, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """From now on the client hears no answers on this connection; the event says that the first has come."""
    connection, came = line_of(client).connection, asyncio.Event()
    assert connection is not None

    def ignore(*_: object) -> bool:
        came.set()
        return True

    monkeypatch.setattr(connection, "_is_aside", ignore)
    return came


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_send_whose_answer_is_lost(
    restarts: Restart, client: Client, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    """With a key it is sent again, and is there once; without, the error says that it may have been accepted."""
    held = hold_answers(client, monkeypatch)
    sending = asyncio.create_task(client.send("q", b"1", key=key))
    await held.wait()
    await restarts()
    if key is None:
        with pytest.raises(triack.ConnectionLost, match="it may have done it, or not") as lost:
            await sending
        assert lost.value.maybe_done
    else:
        await (await sending).ordered(WAIT)
    assert (await client.queue_lengths())["q"] == 1


async def test_a_send_that_had_not_begun_waits_for_the_node(restarts: Restart, client: Client, tmp_path: Path) -> None:
    node = await restarts()
    await node.close()
    await until(lambda: line_of(client).state is LineState.WAITING)
    sending = asyncio.create_task(client.send("q", b"1"))
    await asyncio.sleep(SOON)
    assert not sending.done()
    await restarts()
    await (await sending).ordered(WAIT)


@pytest.mark.gate
async def test_a_receipt_of_a_message_with_a_key_goes_on(restarts: Restart, client: Client) -> None:
    """Also in a list, and when it was waited for; others say that the outcome is unknown."""
    keyed = await client.send("udp://127.0.0.1:9/q", b"1", key="k")
    listed = await client.send_many("q", [b"1", b"2"], keys=["a", "b"])
    plain = await client.send("q", b"3")
    await plain.queued(WAIT)
    waiting = asyncio.create_task(keyed.received(WAIT))
    await asyncio.sleep(0)
    await restarts()
    await listed.ordered(WAIT)
    await listed[1].ordered(WAIT)
    await plain.queued(WAIT)
    with pytest.raises(triack.ConnectionLost, match="the node has it on its disk, and will send it"):
        await plain.ordered(WAIT)
    with pytest.raises(triack.WaitTimeout):
        await keyed.received(SOON)
    assert not waiting.done()
    waiting.cancel()


@pytest.mark.gate
async def test_a_flush_does_not_vouch_for_what_another_process_had_accepted(restarts: Restart, client: Client) -> None:
    """It may be lost; the next one is about what this process has accepted."""
    await client.send("q", b"1")
    await restarts()
    await client.send("q", b"2", until="queued")
    with pytest.raises(triack.ConnectionLost, match="may not be on its disk"):
        await client.flush()
    await client.flush()
    await client.send("q", b"3")
    await restarts()
    with pytest.raises(triack.ConnectionLost, match="may not be on its disk"):
        await client.drain(WAIT)
    await client.drain(WAIT)


async def test_events_go_on_after_a_mark(restarts: Restart, client: Client) -> None:
    events = await client.events()
    settled = await client.acknowledgements("q")
    await client.send("q", b"1", until="ordered")
    assert await anext(settled) == triack.AckEvent(triack.AckKind.ACK, 1, 1)
    event, outcome = asyncio.create_task(anext(events)), asyncio.create_task(anext(settled))
    await asyncio.sleep(0)
    await restarts()
    assert isinstance(await event, triack.EventsMissed)
    gap = await outcome
    assert (gap.kind, gap.count) == (triack.AckKind.GAP, 0)
    await client.send("q", b"2", until="ordered")
    assert await anext(settled) == triack.AckEvent(triack.AckKind.ACK, 1, 1)


async def test_what_changes_something_is_not_done_twice(
    restarts: Restart, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An invitation of a process that has ended is over, and a look is made again."""
    await client.send("q", b"1", until="ordered")
    held = hold_answers(client, monkeypatch)
    purging, looking = asyncio.create_task(client.purge("q")), asyncio.create_task(client.stats())
    await held.wait()
    await restarts()
    with pytest.raises(triack.ConnectionLost, match="purge: "):
        await purging
    assert "q" in (await looking).queues


class Away:
    """A client whose node has gone away or stands still, with what it had begun before."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.reader = client.receive("none", ack="manual")
        self.begun = client.transaction()
        self.subscribed = client.subscribe("Games.#")

    async def begin(self) -> None:
        await self.begun.send("q", b"x")
        await self.subscribed
        self.events = await self.client.events()
        self.receipt = await self.client.send("udp://127.0.0.1:9/q", b"x", key="k")
        with pytest.raises(triack.WaitTimeout):
            await self.reader.get(0)


async def in_a_transaction(away: Away) -> None:
    async with away.client.transaction() as tx:
        await tx.receive("none")


async def in_a_begun_transaction(away: Away) -> None:
    async with away.begun as tx:
        await tx.send("q", b"x")


async def a_large_body_in_a_transaction(away: Away) -> None:
    async with away.client.transaction() as tx:
        await tx.send_stream("q", bytes(5_000_000))


async def in_a_block(away: Away) -> None:
    async with away.client.receive("none") as reader:
        await reader.get()


async def in_a_begun_block(away: Away) -> None:
    async with away.reader as reader:
        await reader.get()


async def next_outcome(away: Away) -> None:
    async for _ in await away.client.acknowledgements("q"):
        pass


async def all_that_waits(away: Away) -> None:
    async for _ in away.client.browse("q"):
        pass


async def next_event(away: Away) -> None:
    async for _ in await away.client.events():
        pass


async def in_a_subscription(away: Away) -> None:
    async with away.client.subscribe("Games.#") as reader:
        await reader.get()


CALLS: dict[str, Callable[[Away], Awaitable[object]]] = {
    "send": lambda it: it.client.send("q", b"x"),
    "send_many": lambda it: it.client.send_many("q", [b"x", b"y"]),
    "send_stream": lambda it: it.client.send_stream("q", bytes(5_000_000)),
    "request": lambda it: it.client.request("q", b"x"),
    "publish": lambda it: it.client.publish("Games.Go", b"x"),
    "stats": lambda it: it.client.stats(),
    "flush": lambda it: it.client.flush(),
    "get": lambda it: it.reader.get(),
    "get_many": lambda it: it.client.receive("none").get_many(),
    "block": in_a_block,
    "begun block": in_a_begun_block,
    "close": lambda it: awaited(it.reader.close()),
    "pause": lambda it: it.subscribed.pause(),
    "browse": all_that_waits,
    "acknowledgements": next_outcome,
    "begun events": lambda it: anext(it.events),
    "receipt": lambda it: it.receipt.ordered(),
    "stage": lambda it: it.client.send("q", b"x", until="ordered"),
    "send_to": lambda it: it.client.send_to(["q", "r"], b"x"),
    "ping": lambda it: it.client.ping("udp://127.0.0.1:9"),
    "recall": lambda it: it.client.recall("k"),
    "subscription": in_a_subscription,
    "transaction": in_a_transaction,
    "begun transaction": in_a_begun_transaction,
    "commit": lambda it: it.begun.commit(),
    "rollback": lambda it: awaited(it.begun.rollback()),
    "large body in a transaction": a_large_body_in_a_transaction,
    "events": next_event,
    "consume": lambda it: it.client.consume("none", print),
    "consume in transactions": lambda it: it.client.consume("none", print, transaction=True),
    "consume in turn": lambda it: it.client.consume("none", print, ordered_by=lambda _: "k"),
}


async def awaited(call: Awaitable[None]) -> None:
    await call


async def cancel_after(turns: int, call: Awaitable[object]) -> None:
    """Cancel a call after some turns of the event loop; some more, and it has ended."""
    task = asyncio.ensure_future(call)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    for _ in range(50):
        await asyncio.sleep(0)
    assert task.done()
    await asyncio.gather(task, return_exceptions=True)


Leave = Callable[[triack.Node, Client], Awaitable[None]]


@pytest.fixture(params=["away", "still"])
def leave(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Leave:
    """The process of the node ends, or takes no calls any more, as when it is stopped: clients see no end of it."""

    async def take(*_: object) -> None:
        await asyncio.Event().wait()

    async def leave(node: triack.Node, client: Client) -> None:
        if request.param == "still":
            monkeypatch.setattr(control_client, "GOODBYE_S", 0.01)
            monkeypatch.setattr(Calls, "_take", take)
            return
        await node.close()
        await until(lambda: line_of(client).state is not LineState.OPEN)

    return leave


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_call_that_is_cancelled_while_the_node_is_away_ends(
    tmp_path: Path, call: Callable[[Away], Awaitable[object]], leave: Leave
) -> None:
    """Within some turns of the event loop, whatever the client's patience, and nothing complains later."""
    complaints: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    node = await make("a", tmp_path, settings=quick(close_timeout_s=0.01)).start()
    async with triack.connect(tmp_path, patience=None) as client:
        away = Away(client)
        await away.begin()
        await leave(node, client)
        for turns in (0, 1, 2, 5, 20):
            await cancel_after(turns, call(away))
    await node.close()
    del away
    gc.collect()
    await asyncio.sleep(0)
    assert complaints == []


@pytest.mark.parametrize("transaction", [False, True])
async def test_a_handler_that_is_cancelled_while_the_node_is_away_ends(
    tmp_path: Path, leave: Leave, *, transaction: bool
) -> None:
    """Its messages come again; nobody waits until a node that may be stopped has heard of it."""
    node, begun = await make("a", tmp_path).start(), asyncio.Event()

    async def handle(*_: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with triack.connect(tmp_path, patience=None) as client:
        await client.send("q", b"x")
        handling = asyncio.create_task(client.consume("q", handle, transaction=transaction, stop_timeout=0))
        await begun.wait()
        await leave(node, client)
        handling.cancel()
        async with asyncio.timeout(WAIT):
            await asyncio.wait([handling])
    await node.close()


async def test_who_stops_while_the_node_is_away_does_not_wait_to_say_why_messages_wait(
    restarts: Restart, client: Client
) -> None:
    """Only operators read that, and the next process of the node is told with the next failure."""
    node, begun, go_on = await restarts(), asyncio.Event(), asyncio.Event()
    await client.send("q", b"x")

    async def fail(_: triack.Message) -> None:
        begun.set()
        await go_on.wait()
        raise LookupError

    handling = asyncio.create_task(client.consume("q", fail, stop_timeout=WAIT))
    await begun.wait()
    await node.close()
    await until(lambda: line_of(client).state is not LineState.OPEN)
    go_on.set()
    handling.cancel()
    await asyncio.wait([handling], timeout=WAIT)
    assert handling.done()


@pytest.mark.gate
async def test_events_that_begin_anew_keep_nothing_of_before(restarts: Restart, client: Client) -> None:
    """At the client, for each process of the node."""
    events = await client.events()
    before = len(weakref.finalize._registry)  # type: ignore[attr-defined]  # noqa: SLF001 - nothing else counts them
    for _ in range(3):
        event = asyncio.create_task(anext(events))
        await asyncio.sleep(0)
        await restarts()
        await event
    gc.collect()
    assert len(weakref.finalize._registry) <= before  # type: ignore[attr-defined]  # noqa: SLF001


# A call that a client ends has ended, awaited or not; and calls that are plain on a node are plain here.


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[triack.Node]:
    async with make("n", tmp_path) as found:
        await found.send("q", b"1")
        await found.flush()
        yield found


async def test_a_rollback_that_nobody_awaits_is_one(node: triack.Node, tmp_path: Path) -> None:
    """The block does not commit what was rolled back in it."""
    async with triack.connect(tmp_path) as client:
        for where in (node, client):
            async with where.transaction() as tx:
                await tx.send("done", b"1")
                await tx.receive("q", WAIT)
                tx.rollback(failed=False)
            await until(lambda: node.stats().queues["q"].in_hand == 0)
            assert node.queue_lengths().get("done", 0) == 0


async def test_an_error_that_nobody_awaits_is_no_noise(
    node: triack.Node, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client = await triack.connect(tmp_path, patience=0).start()
    transaction = client.transaction()
    await transaction.receive("q", WAIT)
    await node.close()
    transaction.rollback()
    with pytest.raises(triack.NodeClosed):
        await client.flush()
    await asyncio.sleep(0)
    await client.close()
    assert [record for record in caplog.records if record.name == "asyncio"] == []
