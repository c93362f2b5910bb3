"""A message in the hands of an application."""

import asyncio
from pathlib import Path

import pytest

import triack
from tests.node.nodes import WAIT, make
from triack.base.delivery import Delivery
from triack.node.handles.message import Drawn, Message
from triack.queues.mailboxes.mailbox import Lease, QueuedPacket, Run
from triack.queues.packing import Outgoing, pack

ORIGIN = b"o" * 16


class Holder:
    """Notes its calls."""

    def __init__(self) -> None:
        self.told: list[tuple[int, bool | None, int | None]] = []
        self.dead: list[int] = []

    def acknowledge(self, lease: Lease) -> None:
        self.told.append((lease.index, None, None))

    def give_back(self, lease: Lease, *, failed: bool, delay_ms: int | None, dead: bool = False) -> None:
        self.told.append((lease.index, failed, delay_ms))
        if dead:
            self.dead.append(lease.index)


def message(properties: dict[str, object] | None = None, holder: Holder | None = None, sender: str = "shop") -> Message:
    """The second of two messages, the first of which has the ordinal 7."""
    packed, _ = pack([Outgoing(b"first"), Outgoing(b"body", properties)], 1_000, 7, 123)
    packet = QueuedPacket([1], ORIGIN, 1, 1, 1, Delivery.TRANSACTIONAL, 2, 9, [packed[0].body])
    run = Run(packet, 0, 2, redelivered=True, failures={1: 3})
    name_of = {ORIGIN: sender}.__getitem__
    return Message(run.lease(1).body, 1, Drawn("q", run, holder or Holder(), name_of))


def test_a_bare_reply_to_is_a_queue_of_the_sender() -> None:
    """Another is taken as it is; and what this node has sent itself has no sender."""
    assert message({"reply_to": "answers"}).reply_to == "shop/answers"
    assert message({"reply_to": "udp://127.0.0.1:1/q"}).reply_to == "udp://127.0.0.1:1/q"
    assert message({"reply_to": "answers"}, sender="").reply_to == "answers"


def test_a_message_says_what_it_is() -> None:
    found = message({"label": "l", "correlation_id": "c", "dead_reason": "bad-body"})
    assert (found.body, found.queue, found.redelivered, found.failures, found.sent_at) == (
        b"body",
        "q",
        True,
        3,
        0.123,
    )
    assert found.id == f"{ORIGIN.hex()}-8"
    assert (found.label, found.correlation_id, found.reply_to) == ("l", "c", None)
    assert found.properties["dead_reason"] == "bad-body"
    assert repr(found) == f"<Message {found.id} of queue q, 4 bytes>"


@pytest.mark.parametrize("properties", [None, {"label": 5}])
def test_what_the_sender_did_not_set_is_none(properties: dict[str, object] | None) -> None:
    """Nor is what another program set to something that is no text."""
    assert message(properties).label is None


async def test_what_the_sender_set_can_be_sent_on_as_it_is() -> None:
    """All but times to live, and what is not the sender's."""
    headers = {"trace": "1", "größe": "L"}
    async with make(scheme="udp") as node:
        await node.send("q", b"x", headers=headers, label="l", reply_to="r", time_to_be_received=60)
        first = await node.receive("q").get(WAIT)
        await node.send("q2", first.body, **first.forwardable())
        second = await node.receive("q2").get(WAIT)
    assert first.headers == second.headers == headers
    assert second.properties == {"headers": headers, "label": "l", "reply_to": "r"}
    assert message({"dead_reason": "bad-body", "headers": 5}).forwardable() == {}


def test_its_holder_hears_of_each_call() -> None:
    holder = Holder()
    found = message(holder=holder)
    found.ack()
    found.reject()
    found.reject(failed=False, delay=0.0005)
    found.reject(dead=True)
    assert holder.told == [(1, None, None), (1, True, None), (1, False, 1), (1, True, None)]
    assert holder.dead == [1]


async def test_ids_stay_with_the_message_and_are_never_used_again(tmp_path: Path) -> None:
    """Over redelivery and restarts."""
    seen: set[str] = set()
    for life in range(3):
        async with make("n", tmp_path) as node:
            await (await node.send("q", b"x")).queued(WAIT)
            async with node.receive("q", ack="manual") as consumer:
                messages = [await consumer.get(WAIT) for _ in range(life + 1)]
            assert seen <= {message.id for message in messages}
            seen = {message.id for message in messages}
            assert len(seen) == life + 1


@pytest.mark.parametrize("how", ["node", "client"])
async def test_the_most_urgent_message_is_read_first_and_says_its_priority(tmp_path: Path, how: str) -> None:
    """At the sender and the reader. By default it is 3, and 0 of a transactional message."""
    async with make("a", tmp_path / "a", queues=["q"]) as a, triack.connect(tmp_path / "a") as client:
        user = a if how == "node" else client
        await user.send("q", b"transactional")
        await user.send("q", b"default", delivery=triack.RECOVERABLE)
        await user.send_many("q", [b"urgent"], delivery=triack.RECOVERABLE, priority=7)
        async with user.transaction() as tx:
            await tx.send("q", b"idle", delivery=triack.RECOVERABLE, priority=1)
        await user.flush()
        assert a.stats().queues["q"].by_priority == [1, 1, 0, 1, 0, 0, 0, 1]
        shown = [(message.body, message.priority) async for message in user.browse("q")]
        async with user.receive("q") as reader:
            read = [await reader.get(WAIT) for _ in range(4)]
            assert [(message.body, message.priority) for message in read] == shown
        assert shown == [(b"urgent", 7), (b"default", 3), (b"idle", 1), (b"transactional", 0)]
        for priority in (8, -1, True, "5"):
            with pytest.raises(triack.UsageError, match="a priority is a number from 0 to 7"):
                await user.send("q", b"x", delivery=triack.RECOVERABLE, priority=priority)  # type: ignore[arg-type]
        with pytest.raises(triack.UsageError, match="so all of them have priority 0, not 5"):
            await user.send("q", b"x", priority=5)
        await user.send("q", b"x", priority=0)


async def test_a_request_may_be_urgent() -> None:
    async with make("a", queues=["q"]) as a:
        asked = asyncio.create_task(a.request("q", b"?", delivery=triack.RECOVERABLE, priority=6, timeout=WAIT))
        async with a.receive("q") as reader:
            message = await reader.get(WAIT)
            assert message.priority == 6
            await a.reply(message, b"!")
        assert (await asked).body == b"!"
