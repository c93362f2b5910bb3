"""Transactions of a node over its control socket."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

import triack
from tests.node.nodes import WAIT
from triack.node.client.client import Client
from triack.node.client.client_transaction import ClientTransaction
from triack.node.control import calls, control_frames, kept

TURNS = 40
"""Of the event loop: a call of this process takes some ten."""


async def cut_off(call: Coroutine[Any, Any, object], turns: int) -> bool:
    """Cancel a call after ``turns`` turns of the loop. Returns whether the call was over before."""
    task = asyncio.create_task(call)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled() or task.exception() is None
    return not task.cancelled()


@pytest.mark.gate
async def test_who_is_cancelled_while_it_receives_has_taken_nothing(node: triack.Node, client: Client) -> None:
    """At whatever turn that is: also when the answer is on its way, and the transaction is committed."""
    received = 0
    for turns in range(TURNS):
        await node.send("orders", b"valves")
        async with client.transaction() as tx:
            call = tx.receive("orders", WAIT) if turns % 2 else tx.receive_many("orders", 1, WAIT)
            received += await cut_off(call, turns)
    await client.flush()
    assert 0 < received < TURNS
    assert node.queue_lengths()["orders"] == TURNS - received


async def test_who_is_cancelled_while_it_sends_has_sent_nothing(node: triack.Node, client: Client) -> None:
    """So that a caller that sends again after a timeout of its own does not send twice."""
    sent = 0
    for turns in range(TURNS):
        async with client.transaction() as tx:
            call = tx.send("orders", b"valves") if turns % 2 else tx.send_many("orders", [b"valves"])
            sent += await cut_off(call, turns)
    await client.flush()
    assert 0 < sent < TURNS
    assert node.queue_lengths()["orders"] == sent


@pytest.mark.gate
async def test_a_list_of_many_frames_that_is_cancelled_is_sent_by_no_part(node: triack.Node, client: Client) -> None:
    sent = 0
    for turns in range(0, 2 * TURNS, 4):
        async with client.transaction() as tx:
            sent += await cut_off(tx.send_many("orders", [b"valves"] * 2_500), turns)
    await client.flush()
    assert 0 < sent < TURNS // 2
    assert node.queue_lengths()["orders"] == 2_500 * sent


async def test_calls_at_once_are_of_one_transaction(node: triack.Node, client: Client) -> None:
    async with client.transaction() as tx:
        await asyncio.gather(tx.send("orders", b"1"), tx.send("orders", b"2"), tx.remember("last", b"2"))
    assert node.queue_lengths()["orders"] == 2
    assert node.recall("last") == b"2"


async def test_a_cancelled_commit_stays_a_cancellation(node: triack.Node, client: Client) -> None:
    """And not the error that the transaction has ended, which a time limit around it would not know as its own."""
    for turns in range(TURNS):
        tx = client.transaction()
        await tx.send("orders", b"valves")

        async def commit(tx: ClientTransaction = tx) -> None:
            async with tx:
                await tx.commit()

        await cut_off(commit(), turns)
    await client.flush()
    assert 0 < node.queue_lengths()["orders"] <= TURNS


async def test_the_end_of_the_node_hides_no_error_of_a_transaction(node: triack.Node, client: Client) -> None:
    async def fail() -> None:
        async with client.transaction() as tx:
            await tx.send("orders", b"valves")
            await client.close()
            raise LookupError

    with pytest.raises(LookupError):
        await fail()


async def test_a_commit_of_any_length_is_answered(
    node: triack.Node, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a few bytes, and with receipts that are kept together, however many: after an error a caller sends again."""
    monkeypatch.setattr(control_frames, "FRAME_BYTES_MAX", 2_000)
    monkeypatch.setattr(kept, "RECEIPTS_MAX", 10)
    await node.send("before", b"x")
    tx = client.transaction()
    for at in range(100):
        await tx.send("orders" if at < 50 else "others", b"%d" % at)
    receipts = await tx.commit()
    await receipts[-1].ordered(WAIT)
    assert [receipt.number for receipt in receipts] == [*range(1, 51), *range(1, 51)]
    async with node.receive("orders") as orders, node.receive("others") as others:
        arrived = await orders.get_many(timeout=WAIT) + await others.get_many(timeout=WAIT)
    assert [receipt.id for receipt in receipts] == [message.id for message in arrived]
    await (await client.send("orders", b"x")).ordered(WAIT)
    with pytest.raises(triack.UsageError, match="it was forgotten"):
        await receipts[0].ordered(WAIT)
    await receipts[-1].ordered(WAIT)  # as is known here


async def test_a_transaction_sends_as_often_as_its_commit_can_tell(
    node: triack.Node, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message too many is refused, and the transaction goes on."""
    monkeypatch.setattr(calls, "STEPS_MAX", 2)
    async with client.transaction() as tx:
        await tx.send("orders", b"1")
        await tx.send_many("orders", [b"2", b"3"])
        for more in (tx.send("orders", b"4"), tx.send_many("orders", [b"4"])):
            with pytest.raises(triack.UsageError, match="it has sent and received 2 times"):
                await more
    assert node.queue_lengths()["orders"] == 3


async def test_what_is_too_long_to_be_asked_is_said_before_anything_happens(node: triack.Node, client: Client) -> None:
    async with client.transaction() as tx:
        await tx.send("orders", b"x")
        with pytest.raises(triack.UsageError, match=r"^tx_remember: .* the control socket takes 8388608 at a time$"):
            await tx.remember("last", bytes(9_000_000))
    assert (node.queue_lengths()["orders"], node.recall("last")) == (1, None)
