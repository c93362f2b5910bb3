"""Applications that hold messages, and bodies that go out."""

import asyncio
import logging
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import triack
import triack.sync
from tests.machine import PATIENCE_S
from tests.node.nodes import WAIT, Face, make, quick, until
from triack.node.node import port_of
from triack.node.shell import log_keeper
from triack.node.shell.log_keeper import keep_log, prune_log
from triack.node.shell.outgoing_message import DEADLINE_GRAIN_MS, as_bytes, check_size, with_properties
from triack.queues.mailboxes.system_queues import DEAD_LETTER_QUEUE

# What readers have in hand, what takes it back, and what becomes of it when the reader's process dies.

AT_ONCE = triack.Redelivery(first_wait_s=0)

LIFE = """
import asyncio, os, sys, triack

async def main():
    settings = triack.NodeSettings(max_redeliveries=2, redelivery=triack.Redelivery(first_wait_s=0))
    async with triack.open("n", data=sys.argv[1], insecure=True, settings=settings) as node:
        {read}

asyncio.run(main())
"""
ONE_BY_ONE = """
        async for message in node.receive("q"):
            print(message.body.decode(), message.failures, flush=True)
            if message.body == b"poison":
                os._exit(9)
            if message.body == b"last":
                break
"""
BY_HAND = """
        reader = node.receive("q", ack="manual")
        while True:
            message = await reader.get()
            print(message.body.decode(), message.failures, flush=True)
            if message.body == b"poison":
                os._exit(9)
            message.ack()
            if message.body == b"last":
                break
"""
IN_TRANSACTIONS = """
        while True:
            async with node.transaction() as tx:
                message = await tx.receive("q")
                print(message.body.decode(), message.failures, flush=True)
                await tx.send("done", message.body)
                if message.body == b"poison":
                    os._exit(9)
            if message.body == b"last":
                break
"""


async def live(data: Path, read: str) -> list[str]:
    """The messages that one life of a reader was handed."""
    life = LIFE.format(read=read)
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", life, str(data), stdout=PIPE)
    printed, _ = await asyncio.wait_for(child.communicate(), WAIT)
    return printed.decode().splitlines()


async def put(data: Path, *texts: bytes) -> None:
    async with make("n", data) as node:
        for text in texts:
            await node.send("q", text)


@pytest.mark.slow
@pytest.mark.parametrize("read", [ONE_BY_ONE, BY_HAND, IN_TRANSACTIONS])
async def test_a_message_that_kills_its_handler_is_dead_after_three_lives(tmp_path: Path, read: str) -> None:
    """It alone: what was handled before it is handled once, and what comes behind it at last."""
    await put(tmp_path, b"before", b"poison", b"behind", b"last")
    lives = [await live(tmp_path, read) for _ in range(4)]
    assert lives == [["before 0", "poison 0"], ["poison 1"], ["poison 2"], ["behind 0", "last 0"]]
    async with make("n", tmp_path) as node:
        letters = [letter async for letter in node.browse(DEAD_LETTER_QUEUE)]
    assert [(letter.body, letter.reason, letter.attempts) for letter in letters] == [(b"poison", "reader-died", 3)]


@pytest.mark.gate
async def test_an_orderly_end_is_no_death(tmp_path: Path) -> None:
    await put(tmp_path, b"1")
    async with make("n", tmp_path) as node:
        held = node.receive("q")
        await held.get(WAIT)
    async with make("n", tmp_path) as node:
        assert (await node.receive("q").get(WAIT)).failures == 0


async def handle(data: Path) -> None:
    settings = quick(max_redeliveries=1, redelivery=AT_ONCE)
    async with make("n", data, settings=settings) as node:
        async for message in node.receive("q"):
            if message.body == b"poison":
                raise KeyError
            if message.body == b"last":
                return


def handle_in_a_thread(data: Path) -> None:
    settings = quick(max_redeliveries=1, redelivery=AT_ONCE)
    with triack.sync.open("n", data=data, insecure=True, settings=settings) as node:
        for message in node.receive("q"):
            if message.body == b"poison":
                raise KeyError
            if message.body == b"last":
                return


@pytest.mark.gate
@pytest.mark.parametrize("waits", [True, False], ids=["async", "sync"])
async def test_an_error_that_ends_the_program_is_a_failure(tmp_path: Path, *, waits: bool) -> None:
    """Though the loop has no block of its own: its message has failed, and is dead after two of them."""
    await put(tmp_path, b"before", b"poison", b"last")
    for _ in range(2):
        with pytest.raises(KeyError):
            await (handle(tmp_path) if waits else asyncio.to_thread(handle_in_a_thread, tmp_path))
    await (handle(tmp_path) if waits else asyncio.to_thread(handle_in_a_thread, tmp_path))
    async with make("n", tmp_path) as node:
        (letter,) = [letter async for letter in node.browse(DEAD_LETTER_QUEUE)]
        assert (letter.body, letter.reason) == (b"poison", "max-redeliveries")


async def test_an_error_is_no_failure_of_what_others_have_since(tmp_path: Path) -> None:
    """A loop that was left by break has nothing to do with it, once its message was handled elsewhere."""
    await put(tmp_path, b"1", b"2")
    with pytest.raises(KeyError):
        await leave_and_fail(tmp_path)
    async with make("n", tmp_path) as node:
        assert [(it.body, it.attempts) async for it in node.browse("q")] == [(b"2", 0)]


async def leave_and_fail(data: Path) -> None:
    async with make("n", data) as node:
        async for _ in node.receive("q"):
            break
        async with node.receive("q") as reader:
            assert (await reader.get(WAIT)).body == b"1"
        raise KeyError


CLIENT = """
import asyncio, sys, triack

async def main():
    async with triack.connect(sys.argv[1]) as client:
        {read}
        print("has it", flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""
READS = 'reader = client.receive("q", name="worker"); message = await reader.get()'
RECEIVES = 'tx = client.transaction(); message = await tx.receive("q")'


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[triack.Node]:
    async with make("n", tmp_path, settings=quick(max_redeliveries=1, redelivery=AT_ONCE)) as found:
        await found.send("q", b"1")
        await found.send("q", b"2")
        await found.flush()
        yield found


async def start(data: Path, read: str) -> asyncio.subprocess.Process:
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", CLIENT.format(read=read), str(data), stdout=PIPE)
    assert child.stdout is not None
    assert await asyncio.wait_for(child.stdout.readline(), WAIT) == b"has it\n"
    return child


@pytest.mark.slow
@pytest.mark.parametrize("read", [READS, RECEIVES])
async def test_a_client_that_dies_has_failed(node: triack.Node, tmp_path: Path, read: str) -> None:
    """After one more than the further tries its message is dead, and the one behind it is untouched."""
    for failures in (0, 1):
        child = await start(tmp_path, read)
        assert [(it.attempts, it.body) async for it in node.browse("q")] == [(0, b"2")], failures
        child.send_signal(signal.SIGKILL)
        await child.wait()
        await until(lambda: not node.stats().queues["q"].in_hand)
    letter = await node.receive(DEAD_LETTER_QUEUE).get(WAIT)
    assert (letter.body, letter.properties["dead_reason"]) == (b"1", "reader-died")
    assert [(it.attempts, it.body) async for it in node.browse("q")] == [(0, b"2")]


@pytest.mark.slow
async def test_a_client_that_is_interrupted_has_not_failed(node: triack.Node, tmp_path: Path) -> None:
    child = await start(tmp_path, READS)
    child.send_signal(signal.SIGINT)
    await child.wait()
    await until(lambda: not node.stats().queues["q"].in_hand)
    assert [it.attempts async for it in node.browse("q")] == [0, 0]


@pytest.mark.slow
async def test_stats_say_which_process_has_a_message(node: triack.Node, tmp_path: Path) -> None:
    child = await start(tmp_path, READS)
    (holder,) = node.stats().queues["q"].holders
    assert (holder.name, holder.pid, holder.messages) == ("worker", child.pid, 1)
    async with triack.connect(tmp_path) as client:
        assert (await client.stats()).queues["q"].holders[0].pid == child.pid
    child.kill()
    await child.wait()


async def test_stats_say_which_task_has_how_much_since_when(node: triack.Node) -> None:
    asyncio.current_task().set_name("packer")  # type: ignore[union-attr]
    reader = node.receive("q", ack="manual")
    held = [await reader.get(WAIT), await reader.get(WAIT)]
    queue = node.stats().queues["q"]
    assert [(it.name, it.pid, it.messages) for it in queue.holders] == [("packer", None, 2)]
    assert queue.in_hand == 2
    assert queue.oldest_s is not None
    assert 0 <= queue.holders[0].since_s <= queue.oldest_s
    for message in held:
        message.ack()
    assert node.stats().queues["q"].holders == []
    assert node.stats().queues["q"].oldest_s is None


async def test_a_transaction_and_a_list_are_holders(node: triack.Node) -> None:
    transaction = node.transaction()
    await transaction.receive("q")
    listed = await node.receive("q", ack="manual", name="lists").get_many(10, WAIT)
    holders = node.stats().queues["q"].holders
    assert sorted((it.name == "lists", it.messages) for it in holders) == [(False, 1), (True, 1)]
    transaction.rollback(failed=False)
    listed[0].reject(failed=False)
    assert node.stats().queues["q"].holders == []


async def test_what_is_released_comes_again(node: triack.Node, face: Face) -> None:
    """To another reader, marked, and as no failure; the first reader gets an error with the message's name."""
    hung = face.receive("q", ack="manual")
    late = await hung.get(WAIT)
    assert await face.release("q") == 1
    assert await node.release("q") == 0
    again = await node.receive("q", ack="manual").get(WAIT)
    assert (again.id, again.redelivered, again.failures) == (late.id, True, 0)
    with pytest.raises(triack.HandOverEnded, match=f"message {late.id} of queue q was taken back"):
        late.ack()
    late.reject()
    again.ack()
    await face.flush()
    assert node.queue_lengths()["q"] == 1


async def test_a_reader_that_acknowledges_by_itself_hears_of_the_release(node: triack.Node, face: Face) -> None:
    """Once, when it asks for the next; then it goes on."""
    async with face.receive("q") as reader:
        first = await reader.get(WAIT)
        assert await face.release("q") == 1
        with pytest.raises(triack.HandOverEnded):
            await reader.get(WAIT)
        assert (await reader.get(WAIT)).id == first.id
    with pytest.raises(triack.HandOverEnded):
        await release_within(face)
    assert node.queue_lengths()["q"] == 1


async def release_within(face: Face) -> None:
    async with face.receive("q") as reader:
        await reader.get(WAIT)
        await face.release("q")


async def test_a_list_is_released_as_a_whole(node: triack.Node) -> None:
    batch = await node.receive("q", ack="manual").get_many(10, WAIT)
    assert await node.release("q") == 2
    for message in batch:
        with pytest.raises(triack.HandOverEnded):
            message.ack()
    assert [it.body for it in await node.receive("q").get_many(10, WAIT)] == [b"1", b"2"]


async def test_of_a_transaction_whose_message_was_released_nothing_happens(node: triack.Node, face: Face) -> None:
    transaction = face.transaction()
    await transaction.receive("q")
    await transaction.send("done", b"result")
    assert await face.release("q") == 1
    with pytest.raises(triack.HandOverEnded):
        await transaction.send("done", b"more")
    with pytest.raises(triack.HandOverEnded):
        await transaction.commit()
    assert node.queue_lengths()["done"] == 0
    assert node.queue_lengths()["q"] == 2


async def test_an_ack_that_crosses_the_release_fails_with_the_next_call(node: triack.Node, tmp_path: Path) -> None:
    async with triack.connect(tmp_path) as client:
        late = await client.receive("q", ack="manual").get(WAIT)
        port_of(node).holding.take_back("q")
        late.ack()
        with pytest.raises(triack.HandOverEnded, match=late.id):
            await until_raised(client)


async def until_raised(client: triack.Client) -> None:
    async with asyncio.timeout(WAIT):
        while True:
            await client.flush()


async def test_a_queue_that_is_none_cannot_be_released(node: triack.Node) -> None:
    with pytest.raises(triack.QueueNotFound):
        await node.release("nosuch")


async def test_what_is_in_hand_for_too_long_is_taken_back_as_a_failure(node: triack.Node) -> None:
    """With one more failure it is dead, by the name of that."""
    reader = node.receive("q", ack="manual", hand_over_timeout=0.01)
    late = await reader.get(WAIT)
    await until(lambda: not node.stats().queues["q"].in_hand)
    with pytest.raises(triack.HandOverEnded, match="its hand-over timeout was over"):
        late.ack()
    again = await reader.get(WAIT)
    assert (again.id, again.failures) == (late.id, 1)
    letter = await node.receive(DEAD_LETTER_QUEUE).get(WAIT)
    assert (letter.id, letter.properties["dead_reason"]) == (late.id, "hand-over-timeout")


@pytest.mark.parametrize("timeout", [0, -1, True, "5", float("nan"), float("inf")])
async def test_a_timeout_that_cannot_be_is_refused(node: triack.Node, tmp_path: Path, timeout: float) -> None:
    with pytest.raises(triack.UsageError, match="hand_over_timeout must be a number of seconds"):
        node.receive("q", hand_over_timeout=timeout)
    async with triack.connect(tmp_path) as client:
        with pytest.raises(triack.UsageError, match="hand_over_timeout must be a number of seconds"):
            client.receive("q", hand_over_timeout=timeout)


NOW_MS = 1_700_000_000_001
MAX = 4 * 1024 * 1024


@pytest.mark.parametrize("body", [b"x", bytearray(b"x"), memoryview(b"x")])
def test_a_body_is_made_of_bytes(body: object) -> None:
    assert as_bytes("q", body) == b"x"
    with pytest.raises(triack.UsageError, match="send to q: a body is bytes, not str"):
        as_bytes("q", "x")


def test_a_body_may_have_four_mib() -> None:
    check_size("q", bytes(MAX))
    with pytest.raises(triack.MessageTooLarge, match=f"{MAX + 1} bytes"):
        check_size("q", bytes(MAX + 1))


def test_deadlines_count_from_now_and_are_rounded_up() -> None:
    """So that messages sent together share packets, and none dies early."""
    message = with_properties("q", b"x", {"time_to_reach_queue": 2, "time_to_be_received": 0.25, "label": "l"}, NOW_MS)
    assert message.reach_by_ms == 1_700_000_002_100
    assert (message.receive_by_ms, message.properties) == (1_700_000_000_300, {"label": "l"})
    assert message.reach_by_ms % DEADLINE_GRAIN_MS == 0


def test_what_does_not_exist_yet_is_refused_by_name_and_what_does_is_listed() -> None:
    """A slip of the keyboard is found without the documentation."""
    valid = (
        "valid are correlation_id, reply_to, label, headers, time_to_reach_queue, time_to_be_received, key, priority, "
        "ack_now, seal, dead_letter, admin_queue, acks, journal"
    )
    with pytest.raises(triack.UsageError) as refused:
        with_properties("q", b"x", {"lable": "5"}, NOW_MS)  # type: ignore[typeddict-unknown-key]
    assert str(refused.value) == f"send to q: lable is no message property; {valid}"


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (True, None),
        ("dead-letter", None),
        (None, None),
        (False, {"dead_letter": False}),
        ("mine", {"dead_letter": "mine"}),
    ],
)
def test_a_sender_says_what_becomes_of_a_message_that_ends(said: Any, kept: Any) -> None:
    assert with_properties("q", b"x", {"dead_letter": said}, NOW_MS).properties == kept


@pytest.mark.parametrize("said", [5, "$replies", "a/b", "", ".x"])
def test_a_queue_for_dead_letters_has_a_name_of_a_queue(said: Any) -> None:
    with pytest.raises(triack.UsageError, match=r"^send to q: dead_letter"):
        with_properties("q", b"x", {"dead_letter": said}, NOW_MS)


def test_a_request_for_answers_has_a_queue_and_flags() -> None:
    """A queue of the sending node: by its bare name, or with the name of that node."""
    for queue in ("acks", "plant-a/acks"):
        said: Any = {"admin_queue": queue, "acks": triack.Acks.FULL_RECEIVE}
        message = with_properties("q", b"x", said, NOW_MS, "plant-a")
        assert message.properties == {"admin": {"queue": "acks", "acks": 14}}
    assert with_properties("q", b"x", {"acks": triack.Acks.NONE}, NOW_MS).properties is None


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"admin_queue": "acks"}, "admin_queue needs acks, too"),
        ({"acks": triack.Acks.FULL_RECEIVE}, "acks needs admin_queue, too"),
        ({"admin_queue": "acks", "acks": 0}, "admin_queue needs acks, too"),
        ({"admin_queue": "acks", "acks": 16}, r"acks must be a triack\.Acks"),
        ({"admin_queue": "acks", "acks": True}, r"acks must be a triack\.Acks"),
        ({"admin_queue": 5, "acks": 1}, "admin_queue must be the name of a queue"),
        ({"admin_queue": "$journal", "acks": 1}, "is a name of the node's own queues"),
        ({"admin_queue": "dead-letter", "acks": 1}, "is a name of the node's own queues"),
        ({"admin_queue": "plant-b/acks", "acks": 1}, "is not a queue of this node, plant-a"),
    ],
)
def test_a_request_for_answers_that_cannot_be_is_refused(said: Any, why: str) -> None:
    with pytest.raises(triack.UsageError, match=why):
        with_properties("q", b"x", said, NOW_MS, "plant-a")


def test_a_life_is_for_messages_without_one() -> None:
    assert with_properties("q", b"x", {}, NOW_MS, life_s=2).reach_by_ms == 1_700_000_002_100
    own: Any = {"time_to_reach_queue": 5}
    assert with_properties("q", b"x", own, NOW_MS, life_s=2).reach_by_ms == 1_700_000_005_100


def test_headers_are_texts_by_name() -> None:
    message = with_properties("q", b"x", {"headers": {"a": "b"}, "label": None}, NOW_MS)
    assert message.properties == {"headers": {"a": "b"}}
    for headers in ("a=b", {"a": 5}, {5: "a"}, [("a", "b")]):
        with pytest.raises(triack.UsageError, match=r"^send to q: headers must be"):
            with_properties("q", b"x", {"headers": headers}, NOW_MS)  # type: ignore[typeddict-item]


# A node keeps its logs for as long as its setting says.


async def test_logs_are_pruned_at_the_start_and_each_day(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(log_keeper, "EVERY_S", 0)
    runs: list[tuple[Path, str, float]] = []

    async def prune(folder: Path, node: str, keep_s: float) -> str:
        runs.append((folder, node, keep_s))
        if len(runs) == 3:
            raise asyncio.CancelledError
        return ""

    with pytest.raises(asyncio.CancelledError):
        await keep_log(tmp_path, "a1", 60.0, prune)
    assert runs == [(tmp_path, "a1", 60.0)] * 3


async def test_a_failure_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def prune(_folder: Path, _node: str, _keep_s: float) -> str:
        return "No space left on device"

    caplog.set_level(logging.WARNING)
    keeping = asyncio.create_task(keep_log(tmp_path, "a1", 60.0, prune))
    async with asyncio.timeout(PATIENCE_S):
        while "No space left" not in caplog.text:  # noqa: ASYNC110 - the other task tells
            await asyncio.sleep(0)
    keeping.cancel()
    assert f"old session logs in {tmp_path} stay: No space left on device" in caplog.text


@pytest.mark.slow
async def test_the_command_says_why_it_failed(tmp_path: Path) -> None:
    assert await prune_log(tmp_path / "nowhere", "a1" * 16, 60.0) == f"no such directory: {tmp_path / 'nowhere'}"


async def test_a_program_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert await prune_log(tmp_path, "a1" * 16, 60.0) == "cannot run triack log prune: No such file or directory"


@pytest.mark.slow
async def test_a_node_removes_its_old_segments(tmp_path: Path) -> None:
    """Those of its earlier starts, once it has written in this one."""
    data, log = tmp_path / "data", tmp_path / "log"
    for _ in range(2):
        async with triack.open("a", data=data, log=log):
            pass
    assert len(list(log.glob("*.jsonl"))) == 2
    settings = triack.NodeSettings(log_keep_s=0.001)
    async with triack.open("a", data=data, log=log, settings=settings), asyncio.timeout(PATIENCE_S):
        while list(log.glob("a-000001-*")):  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.05)
    assert (log / "pruned.summary").exists()
