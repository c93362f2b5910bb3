"""What stands between applications and the engine: users see verbs, tools see the port, nobody sees the engine."""

import asyncio
import inspect
import re
from pathlib import Path

import pytest

import triack
from tests.node.nodes import WAIT, bodies, make, until
from triack.node.node import port_of
from triack.node.shell.engine_handle import TURN_MESSAGES

NOWHERE = "udp://127.0.0.1:9/q"
VERBS = {
    *("start", "close", "failed", "address", "node_id"),
    *("key", "trust", "revoke", "invite", "enrol", "reload", "routes", "set_routes", "explain_route", "purge_transit"),
    *(
        "send",
        "send_many",
        "send_nowait",
        "send_stream",
        "send_to",
        "publish",
        "subscribe",
        "unsubscribe",
        "transaction",
        "flush",
        "drain",
        "recall",
        "reply",
        "request",
    ),
    *("receive", "consume", "handler", "queue_lengths", "stats", "streams", "events", "acknowledgements", "ping"),
    *("browse", "create_queue", "requeue", "move", "purge", "release", "pause", "resume", "set_quota", "peek"),
}


def test_a_node_shows_the_verbs_of_users_and_nothing_else() -> None:
    """The port has all that consumers, receipts and transactions need."""
    assert {name for name, _ in inspect.getmembers(triack.Node) if not name.startswith("_")} == VERBS
    assert {name for name in vars(make()) if not name.startswith("_")} == {"name", "settings"}


async def test_there_is_no_port_before_the_start() -> None:
    """NodeClosed, as everywhere."""
    with pytest.raises(triack.NodeClosed, match="not started"):
        port_of(make())


async def test_destinations_of_one_queue_share_what_they_send_by() -> None:
    """By peer name or by address: one stream, in order; another class is another one."""
    async with make(peers={"b": "udp://127.0.0.1:9"}) as node:
        port = port_of(node)
        by_name, by_address = (port.outgoing_stream(at, triack.TRANSACTIONAL) for at in ("b/q", NOWHERE))
        assert by_name is by_address
        assert port.outgoing_stream("b/q", triack.EXPRESS) is not by_name


async def test_who_sends_at_once_sends_in_the_order_of_the_calls() -> None:
    """However many tasks do: letting others run is for a task that sends again and again."""
    many = [b"%d" % number for number in range(10 * TURN_MESSAGES)]
    async with make() as node:
        await asyncio.gather(*(node.send("q", body) for body in many))
        assert await bodies(node, "q", len(many)) == many


async def test_who_sends_again_and_again_lets_others_run() -> None:
    """Though there is room for all of it."""
    done, seen = 0, set[int]()

    async def watch() -> None:
        while done < 10 * TURN_MESSAGES:
            seen.add(done)
            await asyncio.sleep(0)

    async with make() as node:
        watching = asyncio.create_task(watch())
        while done < 10 * TURN_MESSAGES:
            await node.send("q", b"")
            done += 1
        await watching
        assert len(seen) >= 9


@pytest.mark.slow
async def test_packets_of_an_earlier_life_are_waited_for(tmp_path: Path) -> None:
    """By number, as their receipts are gone; those that come later do not count."""
    async with make("b", tmp_path / "b", "udp") as b:
        destination, address = f"{b.address}/q", b.address
    async with make("a", tmp_path / "a") as a:
        await (await a.send(destination, b"old")).queued(WAIT)
    async with make("a", tmp_path / "a") as a:
        port = port_of(a)
        outgoing = port.outgoing_stream(destination, triack.TRANSACTIONAL)
        end = outgoing.sequence.next_number
        assert port.unfinished_before(outgoing, end)
        async with triack.open("b", data=tmp_path / "b", listen=address, insecure=True):
            await until(lambda: not port.unfinished_before(outgoing, end))
        await (await a.send(destination, b"new")).queued(WAIT)
        assert not port.unfinished_before(outgoing, end)


async def test_what_is_remembered_is_there_before_it_is_durable_and_after_the_end() -> None:
    """``recall`` never waits, and never fails."""
    node = make()
    assert node.recall("k") is None
    async with node:
        port_of(node).remember("k", b"v")
        assert node.recall("k") == b"v"
        await port_of(node).commit()
        port_of(node).remember("k", None)
        assert node.recall("k") is None
        port_of(node).remember("k", b"last")
    assert node.recall("k") == b"last"


async def test_a_queue_that_is_much_like_another_is_announced(caplog: pytest.LogCaptureFixture) -> None:
    """It is made, as it may be meant; in a node with a fixed set it is refused, with the name that is near."""
    async with make() as node:
        for queue in ("orders", "ordres", "ordres", "stock"):
            node.receive(queue)
    assert [record.getMessage() for record in caplog.records] == ["new queue ordres, which is much like orders"]
    async with make(queues=["orders"]) as node:
        for queue, why in (("ordres", "; did you mean orders?"), ("stock", "; there is dead-letter, orders")):
            told = re.escape(f"queue {queue} does not exist on node node{why}")
            with pytest.raises(triack.QueueNotFound, match=f"^{told}$"):
                node.receive(queue)
