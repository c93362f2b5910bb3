"""``triack serve --metrics``: a page that Prometheus fetches, as long as the node runs."""

import asyncio
import json
import re
import socket
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import IO

import pytest
from click.testing import CliRunner

from tests.node.nodes import WAIT, make
from tests.tools.processes import start
from triack.base.errors import AddressError, UsageError
from triack.metrics.exporter import exporting
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
    """A line, or a field of the object."""
    for json_, url_of in ((), url_in_line), (("--json",), url_in_object):
        place = ("--listen", "udp://127.0.0.1:0", "--metrics", "127.0.0.1:0", "--data", tmp_path / "a")
        served = start("serve", "--name", "a", *place, *json_)
        try:
            assert served.stdout is not None
            text = fetch(url_of(served.stdout))
            assert re.search(r'^triack_node\{name="a",.*\} 1.0$', text, re.MULTILINE)
        finally:
            served.terminate()
            served.communicate(timeout=WAIT)
        assert served.wait() == 0


def url_in_line(output: IO[bytes]) -> str:
    assert output.readline().startswith(b"listening udp://")
    return output.readline().decode().removeprefix("metrics ").strip()


def url_in_object(output: IO[bytes]) -> str:
    return str(json.loads(output.readline())["metrics"])


def test_without_the_library_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    for module in ("triack.metrics", "triack.metrics.exporter", "triack.metrics.collector"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    options = (
        "--name",
        "a",
        "--listen",
        "udp://127.0.0.1:0",
        "--metrics",
        "127.0.0.1:0",
        "--data",
        str(tmp_path / "a"),
    )
    with pytest.raises(UsageError, match=r"prometheus_client is not installed here: pip install 'triack\[metrics\]'$"):
        CliRunner().invoke(serve, options, standalone_mode=False, catch_exceptions=False)
