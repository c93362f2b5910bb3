"""A wait that fails lists the state of the nodes."""

import pytest

import triack
from tests.tools.testing.services import B, collect, feed
from triack.testing import World

REFUSED = triack.NodeSettings(max_redeliveries=2, redelivery=triack.Redelivery(first_wait_s=0))


async def refuse() -> None:
    """A service whose handler never works."""
    async with triack.open("b", data="b", listen=B, settings=REFUSED, insecure=True) as node:
        async for message in node.receive("q", ack="manual"):
            message.reject()


async def test_messages_that_all_went_to_the_dead_letter_queue_are_counted_by_reason(triack_world: World) -> None:
    triack_world.machine("b").start(refuse)
    triack_world.machine("a").start(feed, 20)
    with pytest.raises(triack.WaitTimeout) as told:
        await triack_world.until(lambda: False, timeout=30)
    lines = str(told.value).splitlines()
    assert "still not true after 30 s of virtual time" in lines
    assert (
        "  b on b: queue q has 0 messages; dead-letter has 20 messages (20 for max-redeliveries); session with a, "
        "0 of 64 packets unacknowledged"
    ) in lines
    assert "  a on a: session with b, 0 of 64 packets unacknowledged" in lines


async def test_what_is_on_its_way_is_counted_and_who_is_down_is_left_out(triack_world: World) -> None:
    """Also in the story of a test that failed."""
    triack_world.machine("b").start(collect, [])
    triack_world.machine("a").start(feed, 3)
    triack_world.cut("a", "b")
    with pytest.raises(triack.WaitTimeout, match=rf"a on a: 3 packets on the way to {B}/q; no session"):
        await triack_world.until(lambda: False, timeout=1)
    triack_world.machine("a").crash()
    assert triack_world.story().splitlines()[-1] == "at the end: b on b: queue q has 0 messages; no session"
