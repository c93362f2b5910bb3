"""A sender asks for copies of its messages in every way of sending, and reads them like any queue."""

import asyncio
from pathlib import Path

import pytest

import triack
from tests.node.nodes import SOON, WAIT, bodies, make, open_sync, quick, until
from tests.tools.processes import triack as command
from triack.queues.node_settings import Journal, Limits

SENT = "$journal"


async def test_every_way_of_sending_takes_the_wish(tmp_path: Path) -> None:
    """Single messages, lists, several destinations, transactions, other processes; a message without it has no copy."""
    async with make("b", scheme="udp") as b, make("a", tmp_path) as a:
        where = f"{b.address}/q"
        await a.send(where, b"1", journal=True)
        await a.send_many(where, [b"2", b"3"], journal=True)
        await a.send_to([where, "own"], b"4", journal=True)
        async with a.transaction() as tx:
            await tx.send(where, b"5", journal=True)
            await tx.send(where, b"none")
        async with triack.connect(tmp_path) as client:
            await (await client.send(where, b"6", journal=True)).ordered(WAIT)
            await client.send_many(where, [b"7"], journal=True)
        kept = await bodies(a, SENT, 8)
    assert sorted(kept) == [b"1", b"2", b"3", b"4", b"4", b"5", b"6", b"7"]


def test_a_thread_sends_with_it_too() -> None:
    with open_sync("b", listen=True) as b, open_sync("a") as a:
        for number in range(20):
            a.send(f"{b.address}/q", b"%d" % number, journal=number % 2 == 0)
        with a.receive(SENT) as reader:
            kept = [reader.get(timeout=WAIT).body for _ in range(10)]
    assert kept == [b"%d" % number for number in range(0, 20, 2)]


async def test_a_copy_goes_out_again_by_requeue_and_asks_for_none() -> None:
    async with make("b", scheme="udp") as b, make("a") as a:
        where = f"{b.address}/q"
        receipt = await a.send(where, b"1", journal=True, label="order")
        await receipt.ordered(WAIT)
        await until(lambda: a.queue_lengths().get(SENT) == 1)
        (found,) = [it async for it in a.browse(SENT)]
        assert (found.id, found.destination, found.properties["label"]) == (receipt.id, where, "order")
        assert await a.requeue(queue=SENT) == 1
        assert await bodies(b, "q", 2) == [b"1", b"1"]
        await a.flush()
        assert a.queue_lengths().get(SENT, 0) == 0


async def test_senders_wait_while_the_journal_is_full_and_set_to_hold() -> None:
    """Only those that ask for copies."""
    limits = Limits(sent_journal=Journal(messages=2, when_full="hold"))
    async with make("a", settings=quick(limits=limits)) as a:
        for body in (b"1", b"2"):
            await (await a.send("q", body, journal=True)).ordered(WAIT)
        await until(lambda: a.queue_lengths().get(SENT) == 2)
        waits = asyncio.create_task(a.send("q", b"3", journal=True))
        await a.send("other", b"goes on")
        await asyncio.sleep(SOON)
        assert not waits.done()
        (trouble,) = [it for it in a.stats().troubles if it.trouble == "journal-full"]
        assert (trouble.about, "messages that ask for a copy wait" in trouble.cause) == (SENT, True)
        await a.purge(SENT)
        await asyncio.wait_for(waits, WAIT)


async def test_no_word_but_true_and_false_is_a_wish() -> None:
    async with make("a") as a:
        with pytest.raises(triack.UsageError, match="journal must be True or False, not 'yes'"):
            await a.send("q", b"x", journal="yes")  # type: ignore[arg-type]


def test_the_command_takes_it(tmp_path: Path) -> None:
    data = str(tmp_path)
    done = command("send", "orders", "--data", data, "--insecure", "--journal", stdin=b"one\ntwo\n")
    assert done.returncode == 0, done.stderr
    shown = command("queue", "browse", SENT, "--data", data)
    assert (shown.stdout.count(b"\n"), b"one" in shown.stdout) == (2, True)
