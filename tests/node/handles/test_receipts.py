"""Receipts and acknowledgement events."""

from collections.abc import Iterable
from typing import Any

import pytest

import triack
from tests.node.nodes import SOON, WAIT, Face, make
from triack.node.control.client_messages import EACH_MESSAGES
from triack.node.handles import consumer, message

NOWHERE = "udp://127.0.0.1:9/q"


async def test_a_wait_that_is_too_short_may_be_repeated_until_the_node_ends() -> None:
    async with make() as node:
        receipts = await node.send_many(NOWHERE, [b"1", b"2"])
        await receipts.queued(WAIT)
        with pytest.raises(triack.WaitTimeout, match=r"2 messages .* not all ordered after [\d.]+ s: no \w+ \w+ at "):
            await receipts.ordered(SOON)
        with pytest.raises(triack.UsageError, match="no such stage"):
            await (await node.send_many(NOWHERE, [b""], delivery=triack.EXPRESS)).ordered(SOON)
    with pytest.raises(triack.NodeClosed):
        await receipts.ordered(WAIT)


async def test_each_message_of_a_list_may_have_properties_of_its_own(node: triack.Node, face: Face) -> None:
    """They beat those for all, also beside keys, in a transaction, and in a list of several frames."""
    said: list[triack.MessageProperties] = [{"headers": {"at": "hall"}}, {"label": "late"}, {}, {"label": "new"}]
    each, bodies = [*said[:3], *said[:3], *said[3:] * (EACH_MESSAGES + 1)], [b""] * (7 + EACH_MESSAGES)
    with_keys = {"keys": [str(at) for at in range(len(bodies))], "headers": {"at": "yard"}}
    await face.send_many("q", bodies, each=each, headers={"at": "yard"})
    await face.send_many("q", bodies, each=each, **with_keys)  # type: ignore[arg-type]
    async with face.transaction() as tx:
        await tx.send_many("q", bodies, each=each, headers={"at": "yard"})
        await tx.send_many("q", bodies, each=each, **with_keys)  # type: ignore[arg-type] # they are there
    async with node.receive("q") as reader:
        for _ in range(3):
            got = [await reader.get(WAIT) for _ in bodies]
            assert [it.headers["at"] for it in got] == ["hall", "yard", "yard"] * 2 + ["yard"] * (EACH_MESSAGES + 1)
            assert [it.label for it in got] == [None, "late", None] * 2 + ["new"] * (EACH_MESSAGES + 1)
        with pytest.raises(triack.WaitTimeout):
            await reader.get(0)


@pytest.mark.parametrize(
    ("each", "why"),
    [
        ([{}], "1 in each for 2 messages"),
        ([{}, "text"], "one of each must be a dict, not 'text'"),
        ([{}, {"key": "k"}], r"key cannot be said in each; keys are in keys="),
        ([{}, {"priority": 7}], "priority cannot be said in each"),
        ([{}, {"colour": "red"}], "colour is no message property"),
        (7, "each must be an Iterable, not 7"),
    ],
)
async def test_what_each_cannot_say_is_refused(node: triack.Node, face: Face, each: Any, why: str) -> None:
    for there in (face, face.transaction()):
        with pytest.raises(triack.UsageError, match=why):
            await there.send_many("q", [b"1", b"2"], each=each)
    await node.flush()
    assert not node.queue_lengths().get("q")


# Messages by the list: held together, done together, and each for itself when somebody wants that.


def numbers(batch: Iterable[triack.Message]) -> list[int]:
    return [int(message.body) for message in batch]


async def fill(node: triack.Node, count: int) -> None:
    await (await node.send_many("q", [b"%d" % number for number in range(count)])).ordered(WAIT)


async def test_a_list_is_acknowledged_when_the_next_is_asked_for(node: triack.Node, face: Face) -> None:
    """All of it, over packets; the last one when the block is left. Single messages may come between."""
    await fill(node, 500)
    async with face.receive("q") as reader:
        assert numbers(await reader.get_many(300)) == list(range(300))
        assert node.queue_lengths()["q"] == 500
        assert int((await reader.get(WAIT)).body) == 300
        assert node.queue_lengths()["q"] == 200
        assert numbers(await reader.get_many()) == list(range(301, 500))
        with pytest.raises(triack.WaitTimeout):
            await reader.get_many(timeout=0)
        assert node.queue_lengths()["q"] == 0
        await fill(node, 3)
        await reader.get_many(2)
    assert node.queue_lengths()["q"] == 1


async def test_bodies_of_a_list_need_no_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are those of its messages, and the list is acknowledged as one whose messages were looked at."""
    bodies = [b"%d" % number for number in range(700)]
    async with make() as node:
        await fill(node, 700)
        with monkeypatch.context() as patched:
            patched.delattr(message.Message, "__init__")
            async with node.receive("q") as reader:
                first = await reader.get_many(650)
                assert (len(first), first.bodies, repr(first)) == (650, bodies[:650], "<650 messages>")
                with pytest.raises(TypeError):
                    first[0]
        assert [it.body for it in await node.receive("q").get_many()] == bodies[650:]


async def test_a_list_gives_the_same_messages_whenever_it_is_looked_at(node: triack.Node, face: Face) -> None:
    """As a list does, whatever it is asked first; two are added as lists are."""
    await fill(node, 5)
    async with face.receive("q") as reader:
        first, second = await reader.get_many(3), await reader.get_many(3)
    assert first[-1] is list(first)[2] is first[1:][1] is next(reversed(first))
    assert first.index(first[1]) == 1
    first.bodies.clear()
    assert numbers(first + second) == list(range(5))
    assert [it.body for it in second] == second.bodies


async def fail_half_done(face: Face) -> None:
    async with face.receive("q") as reader:
        batch = await reader.get_many(4)
        batch[0].ack()
        batch[2].ack()
        raise KeyError


async def test_a_block_that_raises_gives_back_what_is_not_settled(node: triack.Node, face: Face) -> None:
    """Each counts a failure; what was acknowledged one by one does not come again, and the order is kept."""
    await fill(node, 5)
    with pytest.raises(KeyError):
        await fail_half_done(face)
    async with face.receive("q") as reader:
        again = await reader.get_many()
        assert numbers(again) == [1, 3, 4]
        assert [(it.redelivered, it.failures) for it in again] == [(True, 1), (True, 1), (False, 0)]


async def test_single_messages_and_lists_out_of_one_packet_come_again_together(node: triack.Node, face: Face) -> None:
    """A list takes some of a packet, single messages those before and behind it: each is in the reader's hands."""
    await fill(node, 6)
    reader = face.receive("q", ack="manual")
    (await reader.get(WAIT)).ack()
    taken = [*await reader.get_many(2), await reader.get(WAIT), *await reader.get_many(1)]
    assert numbers(taken) == [1, 2, 3, 4]
    taken[1].ack()
    reader.close()
    async with face.receive("q") as other:
        assert numbers(await other.get_many()) == [1, 3, 4, 5]


async def test_by_hand_each_message_is_settled_for_itself(node: triack.Node, face: Face) -> None:
    """In any order, and once: an old message of what came again changes nothing."""
    await fill(node, 4)
    async with face.receive("q", ack="manual") as reader:
        one, two, three, four = await reader.get_many(4)
        three.ack()
        two.reject(failed=False)
        four.ack()
        (again,) = await reader.get_many(4)
        assert (again.body, again.redelivered) == (b"1", True)
        two.ack()
        await face.flush()
        assert node.queue_lengths()["q"] == 2
        again.ack()
        one.ack()
        one.ack()
        await face.flush()
        assert node.queue_lengths()["q"] == 0


async def test_a_list_is_as_long_as_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its number, or by the bytes that end it; a number that is none is refused."""
    monkeypatch.setattr(consumer, "BATCH_BYTES", 10)
    async with make() as node:
        for body in (b"12345", b"67890", b"", b"a" * 100, b"b", b"c", b"d", b"e"):
            await (await node.send("q", body)).ordered(WAIT)
        async with node.receive("q") as reader:
            taken = [[message.body for message in await reader.get_many(3)] for _ in range(4)]
            assert taken == [[b"12345", b"67890"], [b"", b"a" * 100], [b"b", b"c", b"d"], [b"e"]]
            for most in (0, True, "1"):
                with pytest.raises(triack.UsageError, match="whole number above 0"):
                    await reader.get_many(most)  # type: ignore[arg-type]
