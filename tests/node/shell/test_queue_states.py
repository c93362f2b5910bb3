"""The state of a queue in a word."""

import re
from pathlib import Path

import pytest

import triack
from tests.node.nodes import WAIT, make, quick, until
from triack.node.shell.queue_states import QueueState

NOBODY = "udp://127.0.0.1:9"


def outgoing(node: triack.Node) -> tuple[str, str | None]:
    """Of its only outgoing queue."""
    (it,) = node.stats().outgoing
    return it.state, it.waits_for


async def test_an_outgoing_queue_is_connected_or_says_what_it_waits_for(tmp_path: Path) -> None:
    async with make("a", tmp_path / "a") as a:
        async with make("b", scheme="udp") as b:
            await a.send(f"{b.address}/q", b"x", until="ordered", timeout=WAIT)
            assert outgoing(a) == ("connected", None)
            address = b.address
        await until(lambda: outgoing(a) == ("inactive", None))
        await a.send(f"{address}/q", b"x", until="queued", timeout=WAIT)
        await until(lambda: outgoing(a) == ("waiting", "answer"))
        await a.pause(f"{address}/")
        assert outgoing(a) == ("paused", "resume")
        await a.resume(f"{address}/")
        await until(lambda: outgoing(a) == ("waiting", "answer"))


async def test_a_peer_without_a_key_and_one_without_an_address_are_waited_for() -> None:
    async with (
        triack.open("a", data=None, listen="udp://127.0.0.1:0", settings=quick()) as a,
        triack.open("b", data=None, listen="udp://127.0.0.1:0", settings=quick()) as b,
    ):
        await a.trust("b", b.key)
        await a.send("b/q", b"x")
        await until(lambda: outgoing(a) == ("waiting", "address"))
        await a.revoke("b")
        await until(lambda: outgoing(a) == ("waiting", "key"))


async def test_a_full_destination_holds_the_queue_and_its_own_is_full() -> None:
    limits = triack.Limits(quota=triack.Quota(messages=1))
    async with make("b", scheme="udp", settings=quick(limits=limits)) as b, make("a") as a:
        await a.send(f"{b.address}/q", b"1", until="ordered", timeout=WAIT)
        await a.send(f"{b.address}/q", b"2")
        await until(lambda: outgoing(a) == ("held", "room: queue-full"))
        queue = b.stats().queues["q"]
        assert (queue.state, queue.waits_for) == ("full", "readers")
        await b.pause("q")
        queue = b.stats().queues["q"]
        assert (queue.state, queue.waits_for) == ("paused", "resume")


@pytest.mark.parametrize("state", list(QueueState))
def test_every_word_is_on_the_page_for_operators(state: QueueState) -> None:
    page = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()
    assert re.search(rf"^\| `{state.value}` \|", page, re.MULTILINE)
