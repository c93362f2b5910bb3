"""What applications meet: rights, a disk without room, names of strangers, journals, the guide's examples."""

import asyncio
import logging
import re
import subprocess
import sys
import traceback
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import triack
import triack.outbox
from tests.node.nodes import WAIT, bodies, make, quick, until
from tests.tools.processes import triack as command
from triack.node.files.keys import IDENTITY_FILE, KeyKind, encode_key
from triack.testing import World

# What a peer with a key may do at a node: send to the queues that it was given, and nothing else at all. Receiving,
# browsing and administration are for the owner of a node's data directory (``tests/node/control``): nothing on the
# wire asks for them.


@asynccontextmanager
async def pair(*may_send: str, **more: object) -> AsyncIterator[tuple[triack.Node, triack.Node]]:
    """Two nodes with keys; the second lets the first one send to these queues."""
    settings = quick(**more)
    async with (
        triack.open("a", data=None, settings=quick()) as a,
        triack.open("b", data=None, listen="udp://127.0.0.1:0", settings=settings) as b,
    ):
        await a.trust("plant-b", b.key, b.address)
        await b.trust("plant-a", a.key, send=list(may_send) or None)
        yield a, b


async def refused(node: triack.Node, queue: str, body: bytes, **more: object) -> tuple[str, triack.Message]:
    """Why a message was not delivered, and its dead letter."""
    receipt = await node.send(f"plant-b/{queue}", body, **more)  # type: ignore[arg-type]
    with pytest.raises(triack.DeliveryFailed) as caught:
        await receipt.stored(WAIT)
    async with node.receive("dead-letter") as consumer:
        return caught.value.reason, await consumer.get(WAIT)


@pytest.mark.gate
@pytest.mark.parametrize("delivery", [triack.Delivery.RECOVERABLE, triack.Delivery.TRANSACTIONAL])
async def test_a_peer_sends_to_its_queues_and_no_others(delivery: triack.Delivery) -> None:
    """The refusal is definite: the receipt says why, and the dead letter is sure not to have been delivered."""
    async with pair("orders", "in-*") as (a, b):
        for queue in ("orders", "in-1"):
            await (await a.send(f"plant-b/{queue}", b"mine", delivery=delivery)).stored(WAIT)
        for queue in ("secret", "orders2", "in"):
            reason, letter = await refused(a, queue, b"not mine", delivery=delivery)
            assert reason == "access-denied"
            assert letter.body == b"not mine"
            found = letter.properties
            assert (found["dead_reason"], found["dead_destination"]) == ("access-denied", f"plant-b/{queue}")
            assert found["dead_maybe_delivered"] is False
        assert set(b.queue_lengths()) <= {"orders", "in-1", "dead-letter"}
        assert await bodies(b, "orders", 1) == [b"mine"]


async def test_a_permission_that_is_taken_back_counts_from_the_next_message() -> None:
    """Messages that were taken stay; the session goes on, and so does another queue."""
    async with pair("orders", "other") as (a, b):
        await (await a.send("plant-b/orders", b"before")).ordered(WAIT)
        await b.trust("plant-a", send=["other"])
        assert (await refused(a, "orders", b"after"))[0] == "access-denied"
        await (await a.send("plant-b/other", b"still")).ordered(WAIT)
        assert await bodies(b, "orders", 1) == [b"before"]
        assert len(b.stats().sessions) == 1


# A disk without room: nothing new is accepted, what is there goes out and is read, and a full disk can be emptied.

LOW, ENOUGH = 10_000_000, 10**9


async def test_nothing_is_accepted_below_the_reserve_and_all_is_above_it(triack_world: World) -> None:
    """At both ends: a send is refused by name, arrivals wait at their sender; express messages take no disk."""
    left, right = triack_world.machine("left"), triack_world.machine("right")
    with right:
        there = triack.open("right", data="right", listen="udp://127.0.0.1:7802", insecure=True)
    with left:
        here = triack.open("left", data="left", insecure=True)
    to = "udp://127.0.0.1:7802/q"
    async with there, here:
        events = there.events()
        await (await here.send(to, b"before")).ordered(timeout=30)
        right.disk.free_bytes = LOW
        await asyncio.sleep(1)
        await (await here.send(to, b"with it the room is looked at")).ordered(timeout=30)
        event = await asyncio.wait_for(anext(events), 60)
        while not isinstance(event, triack.StoreLow):
            event = await asyncio.wait_for(anext(events), 60)
        assert event.is_low
        assert there.stats().store_low
        with pytest.raises(triack.NoRoom, match="less room than its reserve"):
            await there.send("q", b"refused")
        await there.send("q", b"fleeting", delivery=triack.EXPRESS)
        waits = await here.send(to, b"waits")
        with pytest.raises(triack.WaitTimeout):
            await waits.ordered(timeout=20)
        assert there.queue_lengths()["q"] == 3
        right.disk.free_bytes = ENOUGH
        await waits.ordered(timeout=20)
        assert not there.stats().store_low
        assert await asyncio.wait_for(anext(events), 60) == triack.StoreLow(False, there.stats().room_bytes or 0)


FULL_DISK = """
import asyncio, sys
from pathlib import Path
import triack

folder = Path(sys.argv[1])

async def fill():
    async with triack.open("a", data=folder / "a", insecure=True) as node:
        for _ in range(50):
            await node.send("q", bytes(100_000))
        await node.flush()
    assert (folder / "a" / "ballast").stat().st_size > 40_000_000
    with open(folder / "other", "wb", buffering=0) as other:
        try:
            while other.write(bytes(65_536)):
                pass
        except OSError as error:
            print("other:", error.strerror)

async def empty():
    async with triack.open("a", data=folder / "a", insecure=True) as node:
        assert node.stats().store_low
        try:
            await node.send("q", b"more")
        except triack.NoRoom:
            print("refused")
        taken = 0
        async for message in node.receive("q"):
            taken += 1
            if taken == 50:
                break
        (folder / "other").unlink()
        while node.stats().store_low:
            await asyncio.sleep(0.1)
        await (await node.send("q", b"more")).queued()
    print("taken", taken)

asyncio.run(fill())
asyncio.run(empty())
"""
TMPFS = 'mount -t tmpfs -o size=400m tmpfs "$1" && exec "$2" -c "$3" "$1"'


@pytest.mark.slow
def test_a_node_on_a_full_disk_can_be_started_and_emptied(tmp_path: Path) -> None:
    """Another program fills a real file system to the last byte; the ballast makes the room that draining takes."""
    shell = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    probe = subprocess.run([*shell, 'mount -t tmpfs tmpfs "$1"', "sh", tmp_path], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip(f"this system lets nobody mount a file system of their own: {probe.stderr!r}")
    done = subprocess.run(
        [*shell, TMPFS, "sh", tmp_path, sys.executable, FULL_DISK], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == ["other: No space left on device", "refused", "taken 50"], done.stderr


# Payloads and keys, told apart from all else, through a running pair of nodes: they are in no log, error or figure.

PAYLOAD = b"canary-of-a-payload"
SECRET = b"canary-of-a-shared-secret-32-byt"
LABEL = "canary-of-a-label"


def forms(secret: bytes) -> list[str]:
    return [secret.decode("latin-1"), secret.hex(), b64encode(secret).decode().rstrip("=")[:-1], repr(secret)[2:-1]]


async def fail(work: Awaitable[object]) -> str:
    """What a failure says of itself when all of it is printed."""
    with pytest.raises(triack.TriackError) as caught:
        await work
    lines = traceback.format_exception(caught.value)
    return "".join(lines[-1:]) + repr(caught.value) + repr(vars(caught.value))


async def life(data: Path, log: Path) -> str:
    """Everything that can be done with a message, well and badly. Returns what errors and figures said."""
    said: list[str] = []
    async with (
        triack.open("a", data=data / "a", log=log, settings=quick()) as a,
        triack.open("b", data=data / "b", log=log, listen="udp://127.0.0.1:0", settings=quick()) as b,
    ):
        psk = encode_key(KeyKind.SHARED, SECRET)
        await a.trust("plant-b", b.key, b.address, psk=psk)
        await b.trust("plant-a", a.key, send=["open-*"], psk=psk)
        for delivery in triack.Delivery:
            await (await a.send("plant-b/open-q", PAYLOAD, delivery=delivery, label=LABEL)).received(WAIT)
        async with b.receive("open-q", ack="manual") as consumer:
            message = await consumer.get(WAIT)
            message.reject(delay=0)
            said.append(repr(message))
        denied = await a.send("plant-b/closed", PAYLOAD, label=LABEL)
        said.append(await fail(denied.ordered(WAIT)))
        said.append(await fail(a.send("plant-b/open-q", PAYLOAD * 300_000)))
        said.append(await fail(a.send("plant-b/open-q", PAYLOAD, headers={"x": LABEL * 1_000})))
        said.append(await fail(a.send("plant-b/open-q", PAYLOAD.decode())))  # type: ignore[arg-type]
        said.append(await fail(a.trust("plant-b", psk=psk[:-1])))
        await b.revoke("plant-a")
        late = await a.send("plant-b/open-q", PAYLOAD, label=LABEL)
        said.append(await fail(late.ordered(0.3)))
        said += [repr(it) for node in (a, b) for it in (node, node.stats(), node.queue_lengths(), late)]
    said.append(await fail(a.send("plant-b/open-q", PAYLOAD)))
    return "\n".join(said)


@pytest.mark.gate
async def test_no_payload_and_no_key_is_in_any_log_error_or_figure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Private keys, the shared secret, bodies and labels; whatever level is logged."""
    caplog.set_level(logging.DEBUG)
    said = await life(tmp_path / "data", tmp_path / "log")
    logged = "".join(record.getMessage() + repr(vars(record)) for record in caplog.records)
    records = "".join(file.read_text() for file in (tmp_path / "log").rglob("*") if file.is_file())
    assert "access-denied" in said
    assert "revoked" in logged + records
    assert "packet_sent" in records
    keys = [
        line
        for node in "ab"
        for line in (tmp_path / "data" / node / IDENTITY_FILE).read_text().splitlines()
        if line and not line.startswith("#")
    ]
    assert len(keys) == 2
    secrets = [*keys, encode_key(KeyKind.SHARED, SECRET), LABEL, *forms(PAYLOAD), *forms(SECRET)]
    for secret in secrets:
        assert len(secret) > 10
        for place, text in {"an error or figure": said, "the operator's log": logged, "a session log": records}.items():
            assert secret not in text, f"{secret[:12]} is in {place}"


# A sender asks for copies of its messages in every way of sending, and reads them like any queue.

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


DOCS = Path(__file__).parents[3] / "docs"
GUIDE = [DOCS / f"{name}.md" for name in ("guide", "sending", "receiving", "transactions", "processes", "limits")]
OBJECTS = {
    "node": triack.Node,
    "receipt": triack.Receipt,
    "reader": triack.Consumer,
    "message": triack.Message,
    "tx": triack.Transaction,
    "triack": triack,
}


def code() -> str:
    """Code blocks and code spans of the guide's pages, strings left out."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in GUIDE)
    text = re.sub(r"^```.*$", "", text, flags=re.MULTILINE)  # a fence is no code span
    found = re.findall(r"^    .*$", text, re.MULTILINE) + re.findall(r"`([^`]+)`", text)
    return re.sub(r'"[^"]*"', '""', "\n".join(found))


def test_every_class_and_constant_of_the_guide_is_exported() -> None:
    names = set(re.findall(r"(?<![\w.])[A-Z]\w+", code())) - {"True", "False", "None"}
    assert {"NodeSettings", "Redelivery", "WaitTimeout"} <= names
    assert names <= set(triack.__all__)


@pytest.mark.parametrize("owner", OBJECTS)
def test_every_method_of_the_guide_is_there(owner: str) -> None:
    names = set(re.findall(rf"\b{owner}\.([a-z]\w+)", code()))
    assert names
    for name in names:
        assert hasattr(OBJECTS[owner], name) or name in getattr(OBJECTS[owner], "__slots__", ()), name
