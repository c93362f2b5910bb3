"""The node, running and at rest."""

import asyncio
import json
import os
import re
import resource
import shutil
import ssl
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any
from unicodedata import normalize

import apsw
import pytest

import triack
from tests.node.nodes import SCHEMES, SOON, WAIT, bodies, make, quick, until
from tests.queues.hostile import batch
from triack.base.commit import Commit, MessageRow, StoreContent, key_of
from triack.node.node import open_at_rest
from triack.queues.stages import Stage
from triack.queues.streams import outbox
from triack.store.folder import STORE_FILE
from triack.store.runs import Reading
from triack.store.store import Store
from triack.tools.replay.log.files import parse_records
from triack.tools.replay.run import replay


@pytest.mark.parametrize("listen", ["udp://0.0.0.0:0", "tcp://[::]:0", "udp://192.0.2.1:7801", "tcp://example.org:1"])
def test_an_insecure_node_stays_on_loopback(listen: str) -> None:
    with pytest.raises(triack.NotLoopback, match="loopback"):
        triack.open("n", data=None, listen=listen, insecure=True)


async def test_an_insecure_node_does_not_reach_beyond_loopback() -> None:
    """Neither by an address nor by a peer's name; refused before anything is queued."""
    with pytest.raises(triack.NotLoopback, match=r"know c at udp://192\.0\.2\.1:7801"):
        triack.open("n", data=None, peers={"c": "udp://192.0.2.1:7801"}, insecure=True)
    async with make("n") as node:
        for place in ("udp://192.0.2.1:1", "tcp://example.org:1", "udp://[2001:db8::1]:1"):
            with pytest.raises(triack.NotLoopback, match="without keys"):
                await node.send(f"{place}/q", b"x")
            with pytest.raises(triack.NotLoopback):
                async with node.transaction() as tx:
                    await tx.send(f"{place}/q", b"x")
        assert node.stats().outgoing == []


async def test_insecure_must_be_said() -> None:
    """Nobody gets an open node by forgetting an argument: it has a key, and so listens where it likes."""
    async with triack.open("n", data=None, listen="udp://0.0.0.0:0") as node:
        assert node.key.startswith("triack-public-")


@pytest.mark.parametrize(
    ("argument", "value", "error", "why"),
    [
        ("name", "a b", triack.AddressError, "name 'a b'"),
        ("name", "", triack.AddressError, "name"),
        ("listen", "udp://127.0.0.1", triack.AddressError, "cannot read address"),
        ("listen", "http://127.0.0.1:1", triack.AddressError, "cannot read address"),
        ("peers", {"b": "nowhere"}, triack.AddressError, "cannot read address"),
        ("peers", {"b": "udp://127.0.0.1:0"}, triack.AddressError, "port"),
        ("name", 5, triack.UsageError, "a name is text, not 5"),
        ("data", "", triack.UsageError, "the path of a directory, not ''"),
        ("data", 5, triack.UsageError, "the path of a directory, not 5"),
        ("log", "", triack.UsageError, "the path of a directory, not ''"),
        ("listen", 7801, triack.UsageError, "an address is text, such as udp://host:port, not 7801"),
        ("queues", "orders", triack.UsageError, "queues must be a list of texts, not 'orders'"),
        ("peers", ["b"], triack.UsageError, "peers must be a dict"),
        ("settings", triack.SessionSettings(), triack.UsageError, "settings must be a NodeSettings, not Session"),
        ("tls", True, triack.UsageError, "tls must be a Tls, not True"),
    ],
)
def test_arguments_are_checked_before_anything_is_made(
    argument: str, value: object, error: type[Exception], why: str
) -> None:
    """A text as the list of queues would be queues of one letter, an empty path the working directory."""
    arguments: dict[str, Any] = {"name": "n", "data": None, "insecure": True, argument: value}
    with pytest.raises(error, match=re.escape(why)):
        triack.open(**arguments)


@pytest.mark.parametrize("listen", [None, "udp://127.0.0.1:0"])
def test_tls_for_servers_wants_a_server_of_tcp(listen: str | None) -> None:
    """A caller that gives a certificate believes that it is used."""
    tls = triack.Tls(server=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    with pytest.raises(triack.UsageError, match=r"tls\.server is for who listens on tcp, and the node "):
        triack.open("n", data=None, listen=listen, tls=tls)


async def test_arguments_of_calls_that_are_of_other_types_are_named() -> None:
    """With an error of Triack's own, whatever it is that was mistaken for what."""
    async with triack.open("n", data=None, listen="memory://n-types", settings=quick()) as node:
        call: Any = node  # as a program without types does
        cases: list[tuple[Callable[[], Any], str]] = [
            (lambda: call.receive(5), "a name is text"),
            (lambda: call.receive("q", redelivery=5), "redelivery must be a Redelivery"),
            (lambda: call.receive("q", name=5), "receive from q: name"),
            (lambda: call.send_many("q", None), "bodies must be an Iterable"),
            (lambda: call.receive(["q"]), "a name is text"),
            (lambda: call.send(["q"], b"x"), "a destination is text"),
            (lambda: call.send("q", b"x", delivery=["express"]), "a class is a triack.Delivery"),
            (lambda: call.purge("q", 5), "ids of messages must be a list of texts, not 5"),
            (lambda: call.requeue("5"), "ids of messages must be a list of texts, not '5'"),
            (lambda: call.recall(["key"]), "recall: a key must be a str"),
            (lambda: call.acknowledgements("q", handler=5), "handler must be a Callable, not 5"),
            (lambda: call.drain("5"), "drain: timeout must be a number of seconds"),
            (lambda: call.reply("q", b"x"), "only a message that was received"),
            (lambda: call.trust("b", 5), "a public key is text"),
            (lambda: call.trust("b", node.key, send="orders"), "trust b: send must be a list of texts"),
            (lambda: call.invite("b", send="orders"), "invite: send must be a list of texts"),
            (lambda: call.enrol(5, "udp://127.0.0.1:9"), "it is text"),
            (lambda: call.enrol("x", "udp://127.0.0.1:9", send="orders"), "enrol: send must be a list of texts"),
            (lambda: call.enrol("x", "udp://127.0.0.1:9", timeout="5"), "enrol: timeout must be a number of seconds"),
        ]
        for work, why in cases:
            with pytest.raises(triack.UsageError, match=why):
                await work()


def test_a_node_that_outlives_its_event_loop_says_so() -> None:
    """It was started in one ``asyncio.run`` and is used in the next: a flush would hang."""
    node = make()

    async def use(work: Callable[[], Any]) -> None:
        await work()

    asyncio.run(use(node.start))
    for call in (node.flush, node.close, lambda: node.send("q", b"x")):
        with pytest.raises(triack.UsageError, match="belongs to the event loop in which it was begun"):
            asyncio.run(use(call))


@pytest.mark.gate
async def test_a_lost_key_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Peers give a stranger no answer, so nothing else would say why they are silent; a first start says nothing."""
    lost = "node a has met other nodes and had no key"
    async with triack.open("b", data=None, listen="udp://127.0.0.1:0") as b:
        for told in (False, True):
            async with triack.open("a", data=tmp_path, settings=quick()) as a:
                await b.trust("a", a.key)
                await a.trust("b", b.key, b.address)
                await a.send("b/q", b"x", until="ordered", timeout=WAIT)
            assert any(record.getMessage().startswith(lost) for record in caplog.records) is told
            (tmp_path / "identity").unlink()


async def test_a_start_that_fails_leaves_nothing_open(tmp_path: Path) -> None:
    """By a bad name of a queue, or a taken address, which is named: the store and the address can be had at once."""
    async with make(scheme="tcp") as other:
        address = other.address
        with pytest.raises(triack.TransportError, match=address):
            await triack.open("n", data=tmp_path, listen=address, insecure=True).start()
        async with make(data=tmp_path):
            pass
    with pytest.raises(triack.AddressError):
        async with triack.open("n", data=tmp_path, listen=address, queues=["a b"], insecure=True):
            pass
    async with triack.open("n", data=tmp_path, listen=address, insecure=True) as node:
        assert node.address == address


async def test_a_node_starts_once_and_closes_as_often_as_you_like() -> None:
    node = make()
    with pytest.raises(triack.NodeClosed):
        await node.send("q", b"x")
    with pytest.raises(triack.NodeClosed, match="not started"):
        node.stats()
    await node.close()
    async with node:
        with pytest.raises(triack.UsageError, match="started before"):
            await node.start()
        receipt = await node.send("q", b"x")
        consumer = node.receive("q")
        await asyncio.gather(node.close(), node.close())
    await node.close()
    for call in (node.send("q", b"x"), node.flush(), receipt.ordered(WAIT), consumer.get(WAIT), node.start()):
        with pytest.raises((triack.NodeClosed, triack.UsageError)):
            await call
    for refused in (lambda: node.send_nowait("q", b"x"), lambda: node.receive("q"), node.transaction):
        with pytest.raises(triack.NodeClosed):
            refused()


async def test_closing_wakes_everyone_who_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Receivers, transactions, receipts and senders get NodeClosed; nobody hangs."""
    monkeypatch.setattr(outbox, "EXPRESS_LIMIT_BYTES", 2_000)
    node = await make(settings=quick(close_timeout_s=0.1)).start()
    nowhere = "udp://127.0.0.1:9/q"

    async def press() -> None:
        while True:
            await node.send(nowhere, b"x" * 500, delivery=triack.EXPRESS)

    receipt = await node.send(nowhere, b"x")
    waiting = [
        asyncio.create_task(work)
        for work in (
            node.receive("q").get(),
            node.transaction().receive("q"),
            receipt.ordered(),
            receipt.received(),
            press(),
            press(),
        )
    ]
    await asyncio.sleep(SOON)
    assert not any(task.done() for task in waiting)
    await node.close()
    done, pending = await asyncio.wait(waiting, timeout=WAIT)
    assert not pending
    assert {type(task.exception()) for task in done} == {triack.NodeClosed}


async def test_closing_on_a_disk_that_hangs_leaves_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The commit in hand ends as it ends; who waited for the next, and the operator, hear that there is none."""
    apply, go_on, stuck = Store.apply, threading.Event(), threading.Event()

    def hang(store: Store, commit: Commit) -> None:
        if commit.messages:
            stuck.set()
            go_on.wait(WAIT)
        apply(store, commit)

    node = await make(data=tmp_path / "node", settings=quick(close_timeout_s=0.02)).start()
    monkeypatch.setattr(Store, "apply", hang)
    tx = node.transaction()
    await tx.send("q", b"1")
    first = asyncio.create_task(tx.commit())
    await asyncio.to_thread(stuck.wait, WAIT)
    await node.send("q", b"2")
    second = asyncio.create_task(node.flush())
    await asyncio.sleep(0)
    closing = asyncio.create_task(node.close())
    with pytest.raises(triack.NodeClosed):
        await asyncio.wait_for(second, WAIT)
    go_on.set()
    receipts, _ = await asyncio.wait_for(asyncio.gather(first, closing), WAIT)
    assert len(receipts) == 1
    (line,) = [record.getMessage() for record in caplog.records if "closes before" in record.getMessage()]
    assert line == "node node closes before all has arrived; lost, as no disk has them: 1 message for q"
    async with make(data=tmp_path / "node") as again:
        assert again.queue_lengths()["q"] == 1


async def test_a_process_without_file_descriptors_tries_again() -> None:
    """A datagram for which it cannot open a socket counts as lost on the way, and goes out when it can."""
    async with make("a") as a, make("b", scheme="udp") as b:
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        try:
            receipt = await a.send(f"{b.address}/q", b"x")
            await until(lambda: a.stats().drops.get("cannot-send", 0) > 0)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        await receipt.ordered(WAIT)


@pytest.mark.parametrize("delivery", list(triack.Delivery))
async def test_closing_drains_what_only_memory_has(delivery: triack.Delivery) -> None:
    """Far more than a window was accepted, then close at once, before a session is open: the other side has all."""
    async with make("b", scheme="udp") as b:
        async with make("a", settings=quick(close_timeout_s=5.0)) as a:
            for number in range(300):
                await a.send(f"{b.address}/q", b"%d" % number * 300, delivery=delivery)
        await until(lambda: b.queue_lengths().get("q", 0) == 300)


async def test_closing_says_what_stays_behind_and_for_whom(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """In one line, and not before it is clear that nobody answers; messages that only memory had are listed apart."""
    loop = asyncio.get_running_loop()
    async with make("a", data=tmp_path / "a", settings=quick(close_timeout_s=0.4)) as a:
        for number in range(3):
            await a.send("udp://127.0.0.1:9/orders", b"%d" % number)
        await a.send("udp://127.0.0.1:9/news", b"x", delivery=triack.EXPRESS)
        began = loop.time()
    assert loop.time() - began > 0.3
    (line,) = [record.getMessage() for record in caplog.records if "closes before" in record.getMessage()]
    assert line == (
        "node a closes before all has arrived; "
        "stored until it is opened again: 3 messages for udp://127.0.0.1:9/orders; "
        "lost, as no disk has them: 1 message for udp://127.0.0.1:9/news"
    )


@pytest.mark.gate
async def test_what_close_could_not_deliver_goes_out_after_the_next_start(tmp_path: Path) -> None:
    async with make("b", scheme="tcp", data=tmp_path / "b") as b:
        address = b.address
    async with make("a", data=tmp_path / "a", settings=quick(close_timeout_s=0.05)) as a:
        for number in range(200):
            await a.send(f"{address}/q", b"%d" % number)
    b = await triack.open("b", data=tmp_path / "b", listen=address, insecure=True, settings=quick()).start()
    async with make("a", data=tmp_path / "a"):
        assert await bodies(b, "q", 200) == [b"%d" % number for number in range(200)]
    await b.close()


def open_files() -> set[str]:
    """What this process has open, sockets included."""
    found = set()
    for fd in os.listdir("/proc/self/fd"):  # noqa: PTH208 - links to sockets are no paths
        try:
            found.add(f"{fd} {os.readlink(f'/proc/self/fd/{fd}')}")  # noqa: PTH115 - the same
        except FileNotFoundError:
            continue
    return found


@pytest.mark.gate
@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_closed_node_leaves_no_task_and_no_file(tmp_path: Path, scheme: str) -> None:
    before = open_files()
    for life in range(2):
        b = await make("b", tmp_path / "b", scheme, log=tmp_path / "log").start()
        a = await make("a", tmp_path / "a", log=tmp_path / "log").start()
        await (await a.send(f"{b.address}/q", b"%d" % life)).ordered(WAIT)
        assert await bodies(b, "q", 1) == [b"%d" % life]
        await a.close()
        await b.close()
    await until(lambda: open_files() <= before)
    await until(lambda: len(asyncio.all_tasks()) == 1)


async def test_a_directory_that_is_gone_ends_the_node(tmp_path: Path) -> None:
    """It fails before it reports anything as durable that no disk has. Closing it leaves no debris."""
    async with make(data=tmp_path / "data") as node:
        await (await node.send("q", b"1")).ordered(WAIT)
        (tmp_path / "data").rename(tmp_path / "moved")
        receipt = await node.send("q", b"2")
        for wait in (receipt.queued, receipt.ordered):
            with pytest.raises(triack.StoreMoved, match=r"store\.db is not in its directory any more"):
                await wait(WAIT)
        assert isinstance(await node.failed(), triack.StoreMoved)
    assert not (tmp_path / "data").exists()
    async with make(data=tmp_path / "moved") as node:
        assert await bodies(node, "q", 1) == [b"1"]


def take_store(data: Path) -> None:
    """Let another process take the store, where locks do not reach."""
    script = (
        "import sys\nfrom pathlib import Path\nfrom triack.store import owner\nfrom triack.store.store import Store\n"
        "owner.fcntl.flock = owner.fcntl.fcntl = lambda *_: None\nStore(Path(sys.argv[1])).load(bytes(16), 1)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(data)], check=True, timeout=WAIT)


@pytest.mark.gate
async def test_a_node_that_does_nothing_finds_that_it_lost_its_store(tmp_path: Path) -> None:
    """It would go on as the same node beside the other process."""
    async with make(data=tmp_path / "data") as node:
        take_store(tmp_path / "data")
        assert isinstance(await asyncio.wait_for(node.failed(), WAIT), triack.StoreLost)


@pytest.mark.gate
async def test_a_service_may_back_up_its_own_directory(tmp_path: Path) -> None:
    """A second node that is started on it by mistake is refused, and nothing is lost."""
    data = tmp_path / "data"
    async with make(data=data) as node:
        await node.send("q", b"1")
        await node.flush()
        copytree(data, tmp_path / "backup")
        with pytest.raises(triack.StoreInUse, match=f"process {os.getpid()} on"):
            await make(data=data).start()
        await node.send("q", b"2")
        await node.flush()
    async with make(data=data) as node:
        assert await bodies(node, "q", 2) == [b"1", b"2"]


async def test_a_full_disk_ends_the_node_and_tells_everyone(tmp_path: Path) -> None:
    """StoreFailed with path and cause at every call and for every waiter; ``failed()`` returns it."""
    apsw.connection_hooks.append(limit := lambda database: database.pragma("max_page_count", 40))
    try:
        async with make("b", tmp_path / "b", "udp") as b, make("a") as a:
            failing = asyncio.create_task(b.failed())
            waiting = [
                asyncio.create_task(b.receive("none").get()),
                asyncio.create_task(b.transaction().receive("none")),
            ]
            queued = [await b.send("q", b"x" * 30_000) for _ in range(60)]
            receipt = await a.send(f"{b.address}/from-a", b"x")
            error = await asyncio.wait_for(failing, WAIT)
            assert isinstance(error, triack.StoreFailed)
            assert str(tmp_path / "b") in str(error)
            assert "the disk is full" in str(error)
            results = await asyncio.gather(*waiting, *(one.queued(WAIT) for one in queued[-3:]), return_exceptions=True)
            assert all(isinstance(result, triack.StoreFailed) for result in results)
            for call in (b.send("q", b"x"), b.flush()):
                with pytest.raises(triack.StoreFailed):
                    await call
            for refused in (lambda: b.receive("q"), b.transaction, lambda: b.send_nowait("q", b"x")):
                with pytest.raises(triack.StoreFailed):
                    refused()
            with pytest.raises(triack.WaitTimeout):
                await receipt.ordered(SOON)
    finally:
        apsw.connection_hooks.remove(limit)


async def test_a_store_whose_rows_contradict_each_other_is_refused(tmp_path: Path) -> None:
    """Each row is what was written, but no node of this version writes such rows."""
    store = Store(tmp_path)
    store.load(b"n" * 16, 1)
    store.apply(Commit(messages=[MessageRow(key_of(9, 1), b"o" * 16, 1, 1, 1, (batch(b"x"),))]))
    store.close()
    with pytest.raises(triack.StoreDamaged, match=f"{STORE_FILE}: KeyError: 9"):
        await make(data=tmp_path).start()
    Store(tmp_path).close()


def segments(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


async def test_records_reach_the_file_before_the_ack_is_seen(tmp_path: Path) -> None:
    """A killed process would lose nothing it acted on: the log is read while the node runs."""
    async with make("b", scheme="udp", log=tmp_path) as b, make("a") as a:
        await (await a.send(f"{b.address}/q", b"x")).reached(Stage.ORDERED, WAIT)
        (file,) = segments(tmp_path)
        assert file.name.endswith(".jsonl.open")
        events = [record["event"] for record in parse_records(file.read_bytes())]
        assert events.index("committed") < events.index("order_ack_sent")


async def test_a_node_shows_its_name_its_address_and_its_state() -> None:
    node = make("b", scheme="udp")
    assert repr(node) == "<Node b, new>"
    async with node:
        assert repr(node) == f"<Node b at {node.address}, open>"
        assert repr(node.receive("orders")) == "<Consumer of queue orders of node b>"
        async with node.transaction() as transaction:
            assert repr(transaction) == "<Transaction of node b, open>"
        assert repr(transaction) == "<Transaction of node b, ended>"
    assert repr(node) == "<Node b, closed>"


async def test_a_program_may_change_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative paths stay where it began: those of its store, its list of peers, its log, and its socket."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "else").mkdir()
    async with triack.open("a", data="a", log="log", settings=quick()) as node, triack.open("b", data=None) as other:
        monkeypatch.chdir(tmp_path / "else")
        await node.trust("b", other.key)
        await node.send("q", b"x", until="stored", timeout=WAIT)
        assert node.stats().room_bytes
        async with triack.connect(tmp_path / "a") as client:
            assert client.name == "a"
    assert not list((tmp_path / "else").iterdir())
    assert (tmp_path / "a" / "trust.json").exists()
    assert not list((tmp_path / "log").glob("*.open"))


@pytest.mark.parametrize("phase", ["the store", "the queues"])
async def test_a_start_that_is_cancelled_ends_before_it_has_read_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    """Also while its queues are filled: with a million messages both take seconds. The directory is free then."""
    async with triack.open("a", data=tmp_path / "a", insecure=True) as node:
        await node.send("q", b"kept")
    step, load, begun, loaded = Reading.step, Store.load, threading.Event(), threading.Event()

    def load_and_tell(store: Store, *arguments: Any) -> StoreContent:
        content = load(store, *arguments)
        loaded.set()
        return content

    def hang(reading: Reading) -> None:
        while (phase == "the store" or loaded.is_set()) and not reading.is_given_up:
            begun.set()
            time.sleep(0.001)
        step(reading)

    monkeypatch.setattr(Store, "load", load_and_tell)
    monkeypatch.setattr(Reading, "step", hang)
    starting = asyncio.create_task(triack.open("a", data=tmp_path / "a", insecure=True).start())
    await asyncio.to_thread(begun.wait)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    monkeypatch.undo()
    async with triack.open("a", data=tmp_path / "a", insecure=True) as node:
        assert await bodies(node, "q", 1) == [b"kept"]


async def test_a_node_starts_where_a_group_was_let_in_and_not_where_everybody_was(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A pod with fsGroup starts a second time; the log says what was done. The key and the peers are repaired, too."""
    data = tmp_path / "a"
    async with triack.open("a", data=data) as node, triack.open("b", data=None) as other:
        await node.trust("b", other.key)
        await node.send("q", b"kept")
    for path in data.iterdir():
        path.chmod(0o660)
    async with triack.open("a", data=data) as node:
        assert await bodies(node, "q", 1) == [b"kept"]
    assert "their group could use them, as fsGroup of Kubernetes has it" in caplog.text
    assert stat.S_IMODE((data / STORE_FILE).stat().st_mode) == 0o600
    (data / STORE_FILE).chmod(0o666)
    with pytest.raises(triack.StoreError, match=r"others may use it \(mode 0666\): chmod 600 it"):
        await triack.open("a", data=data).start()


WHOLE = "주문"
APART = normalize("NFD", WHOLE)


@pytest.mark.parametrize("by_client", [False, True])
async def test_a_name_is_one_however_it_is_written(tmp_path: Path, *, by_client: bool) -> None:
    """For every verb of a node, and for its settings: there is one queue."""
    settings = quick(
        limits=triack.Limits(queue_quota={APART: triack.Quota(messages=1_000)}),
        queue_redelivery={APART: triack.Redelivery()},
    )
    async with make(data=tmp_path / "n", settings=settings) as node, triack.connect(data=tmp_path / "n") as client:
        it: Any = client if by_client else node
        await it.send(APART, b"1", admin_queue=APART, acks=triack.Acks.FULL_RECEIVE)
        await it.send_many(WHOLE, [b"2"])
        async with it.transaction() as tx:
            await tx.send(APART, b"3")
        assert node.queue_lengths()[WHOLE] == 3
        assert [message.body async for message in it.browse(APART)] == [b"1", b"2", b"3"]
        await it.pause(APART)
        assert node.stats().queues[WHOLE].state == "paused"
        assert await it.resume(APART)
        await it.set_quota(APART, messages=10)
        assert node.stats().queues[WHOLE].max_messages == 10
        assert (await it.receive(APART).get(WAIT)).queue == WHOLE
        assert await it.move(APART, f"{APART}.2") == 3
        assert await it.purge(f"{WHOLE}.2") == 3
        async with it.subscribe(f"{APART}.#", durable=APART) as reader:
            await it.publish(f"{WHOLE}.{APART}", b"goal")
            message = await reader.get(WAIT)
            assert (message.body, message.topic) == (b"goal", f"{WHOLE}.{WHOLE}")
        await it.unsubscribe(WHOLE)
        assert set(node.queue_lengths()) == {WHOLE, f"{WHOLE}.2", "dead-letter"}


# The node of a directory that no process runs, and the session log that it goes on with.


async def run_once(data: Path, log: Path | None) -> None:
    """A node keeps two messages."""
    async with make("plant", data, log=log, settings=quick(close_timeout_s=0.0)) as node:
        await (await node.send_many("orders", [b"1", b"2"])).ordered(WAIT)


def starts_in(log: Path) -> list[tuple[int, str]]:
    """Which starts have records there, in files called after whom."""
    files = sorted(log.iterdir())
    return [(json.loads(file.read_text().splitlines()[0])["incarnation"], file.name.split("-")[0]) for file in files]


async def test_what_is_looked_at_is_missing_in_no_replay(tmp_path: Path) -> None:
    """Nobody says where the log is; what was purged meanwhile is accounted for."""
    data, log = tmp_path / "data", tmp_path / "log"
    await run_once(data, log)
    async with open_at_rest(data) as rest:
        assert rest.queue_lengths()["orders"] == 2
        assert await rest.purge("orders") == 2
    await run_once(data, log)
    assert starts_in(log) == [(1, "plant"), (2, "plant"), (3, "plant")]
    verdict = replay(log)
    assert (verdict.verdict, verdict.missing) == ("pass", [])


@pytest.mark.gate
async def test_what_recorded_nothing_goes_on_with_nothing(tmp_path: Path) -> None:
    """The last start was without a log, or its log has been removed: no folder is made for a look."""
    data, log = tmp_path / "data", tmp_path / "log"
    await run_once(data, log)
    await run_once(data, None)
    async with open_at_rest(data):
        pass
    assert starts_in(log) == [(1, "plant")]
    await run_once(data, log)
    shutil.rmtree(log)
    async with open_at_rest(data):
        pass
    assert not log.exists()


@pytest.mark.gate
async def test_a_copy_leaves_the_log_of_the_original_alone(tmp_path: Path) -> None:
    data, log = tmp_path / "data", tmp_path / "log"
    await run_once(data, log)
    shutil.copytree(data, tmp_path / "copy")
    async with open_at_rest(tmp_path / "copy") as rest:
        assert rest.queue_lengths()["orders"] == 2
    assert starts_in(log) == [(1, "plant")]


async def test_a_log_that_cannot_be_written_keeps_nobody_from_looking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log may be another user's. A node that is started with that log raises, and does not open it."""
    data, log = tmp_path / "data", tmp_path / "log"
    await run_once(data, log)

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("triack.node.files.log_file.LogFile._open_next", refuse)
    async with open_at_rest(data) as rest:
        assert rest.queue_lengths()["orders"] == 2
    assert f"open session log in {log}: Permission denied; what is done now is not in it" in caplog.text
    with pytest.raises(triack.StoreError, match="open session log in"):
        await run_once(data, log)
