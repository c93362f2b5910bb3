"""The log for operators: nothing that is wrong with it may stop a node without a word."""

import io
from collections.abc import Iterator

import pytest
import structlog

import triack
from triack.testing import World

B = "udp://127.0.0.1:7802"


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    structlog.reset_defaults()


async def serve(got: list[bytes]) -> None:
    async with triack.open("b", data="b", listen=B, insecure=True) as node:
        reader = node.receive("q")
        while True:
            got.append((await reader.get()).body)


async def send(failures: list[triack.TriackError]) -> None:
    async with triack.open("a", data="a", insecure=True) as node:
        await node.send(f"{B}/q", b"x")
        failures.append(await node.failed())


async def cut_off(world: World, got: list[bytes], failures: list[triack.TriackError]) -> None:
    """A minute in which the node has something to say about its peer, then a good network."""
    a, b = world.machine("a"), world.machine("b")
    world.cut(a, b)
    b.start(serve, got)
    service = a.start(send, failures)
    await world.advance(60)
    world.heal()
    await world.advance(5)
    service.cancel()
    await world.advance(10)


async def test_messages_go_on_when_standard_error_is_closed(triack_world: World) -> None:
    """As under a supervisor that is gone."""
    closed = io.StringIO()
    closed.close()
    structlog.configure(logger_factory=structlog.WriteLoggerFactory(closed))
    got: list[bytes] = []
    failures: list[triack.TriackError] = []
    await cut_off(triack_world, got, failures)
    assert (got, failures) == ([b"x"], [])


@pytest.mark.triack(check=False)
async def test_a_log_that_raises_ends_the_node_and_everyone_is_told(triack_world: World) -> None:
    """What an application configured is wrong: that is said, and nothing waits for ever."""

    def broken(*_arguments: object) -> structlog.typing.EventDict:
        raise RuntimeError("a processor of the application")

    structlog.configure(processors=[broken])
    failures: list[triack.TriackError] = []
    await cut_off(triack_world, [], failures)
    assert "RuntimeError: a processor of the application" in str(failures[0])
