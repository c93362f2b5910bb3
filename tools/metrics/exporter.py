"""A node's metrics over HTTP, for Prometheus to fetch: what ``triack serve --metrics`` does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from prometheus_client import CollectorRegistry, start_http_server

import triack
from triack.base.errors import AddressError
from triack.metrics.collector import NodeCollector
from triack.transport.address import Address

__all__ = ["exporting"]


@asynccontextmanager
async def exporting(node: triack.Node, place: str) -> AsyncIterator[str]:
    """Serve the metrics of a node, in the clear and to whoever asks, as long as the block lasts.

    Args:
        node: see ``NodeCollector``.
        place: where to listen, ``host:port``; port 0 takes a free one.

    Yields:
        The URL.

    Raises:
        AddressError: nothing can listen there.
    """
    wanted = Address.parse(f"tcp://{place}", listening=True)
    registry = CollectorRegistry()
    registry.register(NodeCollector(node))
    try:
        server, thread = start_http_server(wanted.port, addr=wanted.host, registry=registry)
    except OSError as cause:
        raise AddressError(f"metrics at {place}: {cause.strerror or cause}") from cause

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    try:
        host = f"[{wanted.host}]" if ":" in wanted.host else wanted.host
        yield f"http://{host}:{server.server_port}/metrics"
    finally:
        await asyncio.to_thread(stop)
