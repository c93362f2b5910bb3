"""``triack serve --metrics``: a page that Prometheus fetches, as long as the node runs."""

import asyncio
import gzip
import json
import re
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from prometheus_client import Metric

import triack
from tests.node.nodes import WAIT, hanging_disk, make, until
from tests.tools.processes import start
from triack.base.errors import AddressError, StoreError, UsageError
from triack.metrics import exporter
from triack.metrics.collector import NodeCollector
from triack.metrics.exporter import exporting
from triack.node.node import port_of
from triack.tools.commands.serve import serve


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=WAIT) as page:
        return str(page.read(), "utf-8")


async def test_it_is_there_as_long_as_the_block_lasts() -> None:
    async with make("a", scheme="udp") as node:
        async with exporting(node, "127.0.0.1:0") as url:
            assert "\ntriack_store_low 0.0\n" in await asyncio.to_thread(fetch, url)
        with pytest.raises(urllib.error.URLError):
            await asyncio.to_thread(fetch, url)


async def test_a_place_that_is_taken_or_none_is_named() -> None:
    async with make("a", scheme="udp") as node:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            place = f"127.0.0.1:{taken.getsockname()[1]}"
            with pytest.raises(AddressError, match=f"^metrics at {place}: Address already in use$"):
                await exporting(node, place).__aenter__()
        with pytest.raises(AddressError, match="'99999' is not a number"):
            await exporting(node, "127.0.0.1:99999").__aenter__()


def test_a_served_node_says_where(tmp_path: Path) -> None:
    for options in ((), ("--json",)):
        place = ("--listen", "udp://127.0.0.1:0", "--metrics", "127.0.0.1:0", "--data", tmp_path / "a")
        served = start("serve", "--name", "a", *place, *options)
        try:
            line = served.stdout.readline()
            assert options or line.startswith(b"listening udp://")
            url = json.loads(line)["metrics"] if options else served.stdout.readline().decode().split()[1]
            text = fetch(url)
            assert re.search(r'^triack_node\{name="a",.*\} 1.0$', text, re.MULTILINE)
        finally:
            served.terminate()
            served.communicate(timeout=WAIT)
        assert served.wait() == 0


def test_without_the_library_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    for module in ("triack.metrics", "triack.metrics.exporter", "triack.metrics.collector"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    place = "--name a --listen udp://127.0.0.1:0 --metrics 127.0.0.1:0 --data"
    options = [*place.split(), str(tmp_path / "a")]
    with pytest.raises(UsageError, match=r"prometheus_client is not installed here: pip install 'triack\[metrics\]'$"):
        CliRunner().invoke(serve, options, standalone_mode=False, catch_exceptions=False)


async def say(url: str, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.split(":")[2].partition("/")[0]))
    try:
        writer.write(request)
        async with asyncio.timeout(WAIT):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async with make("a", scheme="udp") as node, exporting(node, "127.0.0.1:0") as url:
        yield url


async def test_idle_connections_take_few_places_and_no_threads(url: str) -> None:
    """Each gives its place to the next, and a request is answered."""
    threads = threading.active_count()
    idle = [await asyncio.open_connection("127.0.0.1", int(url.split(":")[2].partition("/")[0])) for _ in range(100)]
    assert b"triack_store_low 0.0" in await say(url, b"GET /metrics HTTP/1.1\r\n\r\n")
    assert threading.active_count() <= threads + 1
    async with asyncio.timeout(WAIT):
        ended = [await reader.read() for reader, _ in idle[: 100 - exporter.CONNECTIONS_MAX]]
    assert set(ended) == {b""}
    for _, writer in idle:
        writer.transport.abort()


async def test_a_request_that_does_not_come_is_not_waited_for(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "REQUEST_S", 0.05)
    assert await say(url, b"GET /metrics HTTP/1.1\r\nHost:") == b""


async def test_a_page_that_is_not_fetched_in_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that asks for it and does not read it has its place for a while."""
    made: list[exporter._Exporter] = []

    class Seen(exporter._Exporter):  # noqa: SLF001 - nobody else knows who is connected
        def __init__(self, pages: exporter._Pages, node: triack.Node) -> None:
            super().__init__(pages, node)
            made.append(self)

    monkeypatch.setattr(exporter, "_Exporter", Seen)
    monkeypatch.setattr(exporter, "ANSWER_S", 0.05)
    monkeypatch.setattr(exporter, "_encode", lambda *_: bytes(50_000_000))
    async with make("a", scheme="udp") as node, exporting(node, "127.0.0.1:0") as url:
        _, writer = await asyncio.open_connection("127.0.0.1", int(url.split(":")[2].partition("/")[0]))
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        await until(lambda: made[0]._connections)  # noqa: SLF001
        await until(lambda: not made[0]._connections)  # noqa: SLF001
        writer.transport.abort()


OTHERS = (b"/", b"/metric", b"/metrics/", b"/healthz/x", b"/favicon.ico")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", b"431 Request Header Fields Too Large"),
        (b"metrics, please\r\n\r\n", b"400 Bad Request"),
        (b"GET http://[ HTTP/1.1\r\n\r\n", b"400 Bad Request"),
        (b"GET / GOPHER/1.1\r\n\r\n", b"400 Bad Request"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"405 Method Not Allowed"),
        *((b"GET %s HTTP/1.1\r\n\r\n" % path, b"404 Not Found") for path in OTHERS),
    ],
)
async def test_what_is_no_request_for_metrics_gets_an_error(url: str, request_: bytes, status: bytes) -> None:
    assert (await say(url, request_)).startswith(b"HTTP/1.1 " + status + b"\r\n")


async def test_a_page_may_be_compressed(url: str) -> None:
    said = await say(url, b"GET /metrics HTTP/1.1\r\nAccept-Encoding: gzip\r\n\r\n")
    head, _, content = said.partition(b"\r\n\r\n")
    assert b"\r\nContent-Encoding: gzip\r\n" in head
    assert b"triack_store_low 0.0" in gzip.decompress(content)


async def test_a_page_that_cannot_be_made_is_logged(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_: NodeCollector) -> Iterator[Metric]:
        raise TimeoutError

    monkeypatch.setattr(NodeCollector, "collect", refuse)
    assert (await say(url, b"GET /metrics HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    assert "metrics: a page could not be made: TimeoutError " in caplog.messages


async def test_pages_take_a_part_of_the_time(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many are asked for: one is made at a time, and the next one waits."""
    times: list[float] = []

    def make_slowly(_: NodeCollector) -> Iterator[Metric]:
        times.append(time.monotonic())
        time.sleep(0.02)
        times.append(time.monotonic())
        return iter(())

    monkeypatch.setattr(NodeCollector, "collect", make_slowly)
    monkeypatch.setattr(exporter, "SHARE", 0.25)
    await asyncio.gather(*(say(url, b"GET /metrics HTTP/1.1\r\n\r\n") for _ in range(3)))
    taken = [end - begin for begin, end in zip(times[::2], times[1::2], strict=True)]
    rests = [begin - end for end, begin in zip(times[1:-1:2], times[2::2], strict=True)]
    assert len(rests) == 2
    assert all(rest >= 2.9 * work for rest, work in zip(rests, taken, strict=False))


async def status_of(url: str, path: str) -> tuple[bytes, bytes]:
    head, _, content = (await say(url, b"GET %s HTTP/1.1\r\n\r\n" % path.encode())).partition(b"\r\n\r\n")
    return head.split(b" ")[1], content.strip()


async def test_a_node_is_well_while_its_store_works() -> None:
    """A disk that hangs for ten seconds does not work; one that has failed does not, either."""
    async with make("a", scheme="udp") as node, exporting(node, "127.0.0.1:0") as url:
        for path in ("/healthz", "/readyz"):
            assert await status_of(url, path) == (b"200", b"OK")
        with hanging_disk(node, 11):
            for path in ("/healthz", "/readyz"):
                assert await status_of(url, path) == (b"503", b"the disk of node a has not answered for 11 s")
        port_of(node)._driver._fail(None, StoreError("the disk is gone"))  # noqa: SLF001 - as if it failed
        assert await status_of(url, "/healthz") == (b"503", b"the disk is gone")


async def test_a_node_is_ready_while_it_takes_messages_and_has_the_links_that_are_asked_for() -> None:
    async with make("b", scheme="udp") as b, make("a", scheme="udp") as a, exporting(a, "127.0.0.1:0") as url:
        wanted = f"/readyz?link={b.address}"
        assert await status_of(url, wanted) == (b"503", f"no session with {b.address}".encode())
        await (await a.send(f"{b.address}/q", b"x")).ordered(WAIT)
        assert await status_of(url, wanted) == (b"200", b"OK")
        admission = port_of(a).engine.inbox.admission  # a full disk takes long to make
        admission.disk_room.is_low = True
        assert await status_of(url, "/readyz") == (b"503", b"the disk of node a has less room than its reserve")
        assert (await status_of(url, "/healthz"))[0] == b"200"
        admission.disk_room.is_low = False
