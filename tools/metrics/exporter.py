"""A node's metrics over HTTP, for Prometheus to fetch, as ``triack serve --metrics`` serves them; and its health.

    /metrics    the metrics
    /healthz    200 while the store works, or else 503
    /readyz     200 while the node also accepts messages; with ``?link=PEER``, only while the link to that peer is up
                or idle

Promise: any client costs the node a bounded share of its time. Connections are served in the node's own event loop, a
few at a time, and each has a deadline; a silent one makes room for the next. ``prometheus_client`` makes pages, one at
a time in one thread, and for a tenth of the time at most.
"""

import asyncio
import http
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

from prometheus_client import CollectorRegistry, make_wsgi_app

import triack
from triack.base.errors import AddressError
from triack.base.printable import printable
from triack.metrics.collector import NodeCollector
from triack.node.files import operator_log
from triack.node.node import port_of
from triack.stats.causes import why_not_ready
from triack.transport.address import Address
from triack.transport.resolve import bound, resolve_listening

CONNECTIONS_MAX = 16
"""At a time: several monitors, each with one. Each needs a descriptor, of which a node needs some for its peers."""
HEAD_BYTES_MAX = 8 * 1024
"""As other servers limit a request; Prometheus sends some hundred bytes."""
REQUEST_S = 5.0
"""How long a request may need to arrive: it is one packet."""
ANSWER_S = 10.0
"""How long a page may need to be fetched, as long as Prometheus waits by default (``scrape_timeout``)."""
HUNG_S = 10.0
"""A store with a job of this length does not work: twice the longest stall of a disk that recovers."""
SHARE = 0.1
"""The part of the time in which pages are made: a monitor wants one in fifteen seconds or so."""

_Page = tuple[str, list[tuple[str, str]], bytes]


@asynccontextmanager
async def exporting(node: triack.Node, place: str) -> AsyncIterator[str]:
    """Serve the metrics of a node, in the clear and to every client, as long as the block lasts.

    ``place`` is ``host:port``; port 0 selects a free one. Yields the URL. Raises AddressError when it cannot listen
    there.
    """
    wanted = Address.parse(f"tcp://{place}", listening=True)
    registry = CollectorRegistry()
    registry.register(NodeCollector(node))
    exporter = _Exporter(_Pages(registry), node)
    try:
        port = await exporter.listen(wanted)
    except OSError as cause:
        raise AddressError(f"metrics at {place}: {cause.strerror or cause}") from cause
    try:
        host = f"[{wanted.host}]" if ":" in wanted.host else wanted.host
        yield f"http://{host}:{port}/metrics"
    finally:
        await exporter.close()


class _Pages:
    """The pages: the WSGI application of ``prometheus_client`` (PEP 3333), called in a thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._application: Callable[..., list[bytes]] = make_wsgi_app(registry)
        self._turn = asyncio.Lock()
        self._free_s = 0.0

    async def page(self, request: "_Request") -> _Page:
        """The answer to a request; waits while others are answered, and then for the time that ``SHARE`` demands."""
        async with self._turn:
            await asyncio.sleep(max(0.0, self._free_s - time.monotonic()))
            begun_s = time.monotonic()
            try:
                return await asyncio.to_thread(self._make, request)
            except Exception as error:  # noqa: BLE001 - whatever a page is made of; the monitor sees that there is none
                operator_log.error(f"metrics: a page could not be made: {type(error).__name__} {error}")
                return _plain(http.HTTPStatus.INTERNAL_SERVER_ERROR)
            finally:
                ended_s = time.monotonic()
                self._free_s = ended_s + (ended_s - begun_s) * (1 / SHARE - 1)

    def _make(self, request: "_Request") -> _Page:
        started: list[tuple[str, list[tuple[str, str]]]] = []
        environment = {
            "REQUEST_METHOD": request.method,
            "PATH_INFO": request.path,
            "QUERY_STRING": request.query,
            "HTTP_ACCEPT": request.headers.get("accept", ""),
            "HTTP_ACCEPT_ENCODING": request.headers.get("accept-encoding", ""),
        }
        content = b"".join(self._application(environment, lambda status, headers: started.append((status, headers))))
        status, headers = started[0]
        return status, headers, content


@dataclass(frozen=True, slots=True)
class _Request:
    """The head of a request (RFC 9112), as far as it matters here; names of headers in lower case."""

    method: str
    path: str
    query: str
    headers: dict[str, str]

    @classmethod
    def parse(cls, head: bytes) -> "_Request":
        """Read it. Raises ValueError if it is none."""
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, version = first.split(" ")
        if not version.startswith("HTTP/1."):
            raise ValueError(version)
        url = urlsplit(target)
        pairs = (line.partition(":") for line in lines if line)
        return cls(method, unquote(url.path), url.query, {name.lower(): value.strip() for name, _, value in pairs})


class _Exporter:
    """The server. Each connection is for one request, as a monitor returns after many seconds."""

    def __init__(self, pages: _Pages, node: triack.Node) -> None:
        self._pages = pages
        self._node = node
        self._server: asyncio.Server | None = None
        # By the connection, the oldest first; True for those whose request has arrived.
        self._connections: dict[asyncio.StreamWriter, bool] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, wanted: Address) -> int:
        """Begin. Returns the port; raises OSError when nothing can listen there."""
        sock = bound(socket.SOCK_STREAM, await resolve_listening(wanted))
        try:
            self._server = await asyncio.start_server(
                self._accept, sock=sock, limit=HEAD_BYTES_MAX, backlog=CONNECTIONS_MAX
            )
        except BaseException:
            sock.close()
            raise
        return int(sock.getsockname()[1])

    async def close(self) -> None:
        """End all of it."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._connections:  # of tasks that had not begun
            writer.transport.abort()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= CONNECTIONS_MAX:
            idle = (it for it, asked in self._connections.items() if not asked)
            oldest = next(idle, None) or next(iter(self._connections))
            del self._connections[oldest]
            oldest.transport.abort()
        self._connections[writer] = False
        task = asyncio.create_task(self._converse(reader, writer), name="triack-metrics")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            page = await self._answer(reader, writer)
            async with asyncio.timeout(ANSWER_S):
                writer.write(_encode(*page))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, EOFError):  # it has gone, or was too slow: TimeoutError is such
            return
        finally:
            writer.transport.abort()
            self._connections.pop(writer, None)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> _Page:
        try:
            async with asyncio.timeout(REQUEST_S):
                head = await reader.readuntil(b"\r\n\r\n")
            request = _Request.parse(head)
        except asyncio.LimitOverrunError:
            return _plain(http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        except ValueError:
            return _plain(http.HTTPStatus.BAD_REQUEST)
        if writer in self._connections:
            self._connections[writer] = True
        if request.path == "/metrics":
            return await self._pages.page(request)
        port = port_of(self._node)
        if request.path == "/healthz":
            return _health(port.why_ill(HUNG_S))
        if request.path == "/readyz":
            links = parse_qs(request.query).get("link", [])
            return _health(port.why_ill(HUNG_S) or why_not_ready(port.engine, port.name, links))
        return _plain(http.HTTPStatus.NOT_FOUND)


def _health(why: str | None) -> _Page:
    if why is None:
        return _plain(http.HTTPStatus.OK)
    return _plain(http.HTTPStatus.SERVICE_UNAVAILABLE, printable(why))


def _plain(status: http.HTTPStatus, text: str = "") -> _Page:
    content = f"{text or status.phrase}\n".encode()
    return f"{status.value} {status.phrase}", [("Content-Type", "text/plain; charset=utf-8")], content


def _encode(status: str, headers: list[tuple[str, str]], content: bytes) -> bytes:
    more = [("Content-Length", str(len(content))), ("Connection", "close")]
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in [*headers, *more])]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + content
