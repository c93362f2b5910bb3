"""60East AMPS: conflated acknowledgements, failures that split a range, synchronous links, the publish store."""

from dataclasses import replace

import pytest

import triack
from tests.mission.ends import LISTEN, acks, pair
from tests.queues.manager.test_browsing import told, watch
from tests.queues.relays import line
from tests.queues.transit.stories.test_lines import make_sync, news, unfreed
from tests.queues.transit.stories.test_lines import watch as watch_stage
from tests.queues.world import numbered
from triack.base.ack_trigger import AckTrigger
from triack.base.delivery import Delivery
from triack.base.news import GapFound, LinkDowngraded, LinkUpgraded
from triack.base.units import MS, SECOND
from triack.node.handles.policies import AMPS, amps
from triack.ordering.onward import LinkMode
from triack.queues.stages import Stage
from triack.testing import World
from triack.tools.sim.faults import Faults

statement = pytest.mark.statement
INTERVAL = AckTrigger(window_share=None, delay_s=1)


@statement(
    "Acknowledgment Conflation", "amps(ack_conflation_s=1)", "1 ack for 500 messages after 1 s; none before or later"
)
def test_one_acknowledgement_an_interval_covers_all_messages_before_it() -> None:
    assert acks(AMPS, 500) == [(1.0, "delay", 500)]
    assert acks(amps(ack_conflation_s=0.25), 1) == [(0.25, "delay", 1)]


@statement("Acknowledgment Conflation", "amps(logon_ack_conflation_s=1)", "3 of 5: +2 -3 +5; and four other cases")
@pytest.mark.parametrize("delivery", [Delivery.RECOVERABLE, Delivery.TRANSACTIONAL])
@pytest.mark.parametrize(
    ("failed", "expected"),
    [
        (set(), [5]),
        ({3}, [2, -3, 5]),
        ({1}, [-1, 5]),
        ({5}, [4, -5]),
        ({2, 3}, [1, -2, -3, 5]),
        ({1, 2, 3, 4, 5}, [-1, -2, -3, -4, -5]),
    ],
)
def test_a_failure_splits_the_range_and_is_named_alone(
    failed: set[int], expected: list[int], delivery: Delivery
) -> None:
    world, a, b = pair(AMPS)
    events = watch(a, b, INTERVAL, delivery)
    world.cut(a, b)
    for number in range(1, 6):
        a.send(b, "q", b"%d" % number, live_ms=100 if number in failed else 0, delivery=delivery)
    world.run(200 * MS)
    world.heal()
    world.run(30 * SECOND)
    assert told(events) == expected
    assert (b.length("q"), a.length("dead-letter")) == (5 - len(failed), len(failed))


@statement(
    "Acknowledgment Conflation",
    "amps(ack_conflation_s=, logon_ack_conflation_s=)",
    "1 + 0.5 s: 1.5 s; 2 + 0.001 s: 2 s",
)
@pytest.mark.parametrize(
    ("link_s", "client_s", "reported_s"), [(1.0, 0.5, 1.5), (0.5, 1.0, 1.5), (2.0, 0.001, 2.0), (0.001, 2.0, 2.0)]
)
async def test_the_intervals_of_a_link_and_of_its_client_add_up(
    triack_world: World, link_s: float, client_s: float, reported_s: float
) -> None:
    """Lowering one of the two may change nothing. The receiver has the default policy."""
    settings = amps(ack_conflation_s=link_s, logon_ack_conflation_s=client_s)
    with triack_world.machine("b"):
        b = await triack.open("b", data="b", listen=LISTEN, insecure=True).start()
    with triack_world.machine("a"):
        a = await triack.open("a", data="a", insecure=True, settings=settings).start()
        await (await a.send(f"{LISTEN}/q", b"opens")).ordered()
        await triack_world.advance(5)
        heard: list[float] = []
        a.acknowledgements(f"{LISTEN}/q", handler=lambda _event: heard.append(triack_world.now))
        began = triack_world.now
        await a.send(f"{LISTEN}/q", b"x")
        await triack_world.until(lambda: bool(heard))
        assert reported_s <= heard[0] - began < reported_s + 0.05
        await a.close()
    await b.close()


# Synchronous links, and what becomes of one that lags.


@statement("sync and async destinations", 'Route(link="sync"), stage ONWARD', "sync: not before the next node has it")
@pytest.mark.parametrize("delivery", [Delivery.RECOVERABLE, Delivery.TRANSACTIONAL])
@pytest.mark.parametrize("link", ["sync", "async"])
def test_a_synchronous_link_differs_only_in_when_the_publisher_hears_of_it(link: str, delivery: Delivery) -> None:
    chain = line("arb")
    if link == "sync":
        make_sync(chain, "a")
    chain["b"].crash()
    stored = watch_stage(chain, Stage.STORED, delivery)
    onward = watch_stage(chain, Stage.ONWARD, delivery)
    assert chain.world.run(2 * SECOND, lambda: stored == [None])
    assert chain.world.run(3 * SECOND, lambda: bool(onward)) is (link == "async")
    chain["b"].start()
    assert chain.world.run(30 * SECOND, lambda: onward == [None] and not unfreed(chain["a"]))


@statement("AckConflationInterval", "Route(onward_interval_s=1)", "two links of 1 s: 2 s and round trips")
def test_the_intervals_of_replication_links_add_up() -> None:
    chain = line("arsb", faults=Faults(delay_ns=10 * MS))
    make_sync(chain, "a", "r", "s")
    warm = watch_stage(chain, Stage.ONWARD)
    assert chain.world.run(10 * SECOND, lambda: warm == [None])
    began_ns = chain.world.now_ns
    onward = watch_stage(chain, Stage.ONWARD)
    assert chain.world.run(10 * SECOND, lambda: onward == [None])
    # The last relay's link leads to the destination itself: it gathers for its interval, and so does the one before.
    assert SECOND < chain.world.now_ns - began_ns <= 2 * SECOND + 400 * MS


@statement(
    "Manage Replication Acknowledgment",
    "Route(downgrade_after_s=10)",
    "synchronous at 10.000 s, asynchronous at 10.001 s",
)
def test_a_synchronous_link_is_downgraded_by_the_age_of_its_oldest_message_and_upgraded_later() -> None:
    chain = line("arb")
    make_sync(chain, "a", interval_s=0.1)
    a = chain["a"]
    chain["b"].crash()
    began_ns = chain.world.now_ns
    onward = watch_stage(chain, Stage.ONWARD)
    chain.world.run(began_ns + 10 * SECOND - chain.world.now_ns)
    assert (onward, a.outbox.sync_links.mode_of("r")) == ([], LinkMode.SYNC)
    chain.world.run(MS)
    assert (onward, a.outbox.sync_links.mode_of("r"), unfreed(a)) == ([None], LinkMode.ASYNC, 0)
    assert [type(event) for event in news(a)] == [LinkDowngraded]
    late = watch_stage(chain, Stage.ONWARD)
    assert chain.world.run(3 * SECOND, lambda: late == [None])
    chain["b"].start()
    assert chain.world.run(60 * SECOND, lambda: a.outbox.sync_links.mode_of("r") is LinkMode.SYNC)
    assert news(a)[-1] == LinkUpgraded("r")
    assert len(a.log("link_downgraded", "link_upgraded")) == 2


@statement("BlockPublishStore", "", "100 of 100, once each, in order")
def test_the_publish_store_survives_both_ends_and_replays_the_rest_in_order() -> None:
    world, a, b = pair(AMPS)
    a.send(b, "q", *numbered(0, 50))
    world.run(10 * SECOND)
    world.cut(a, b)
    a.send(b, "q", *numbered(50, 100))
    world.run(SECOND)
    assert a.busy
    a.restart()
    b.restart()
    world.heal()
    assert world.run(60 * SECOND, lambda: not a.busy)
    assert b.read_all("q") == numbered(0, 100)


@statement("Details of High Availability", "", "10 messages over two restarts: each number once, in order")
def test_sequence_numbers_are_not_reset_by_a_reconnect_and_lower_ones_are_duplicates() -> None:
    world, a, b = pair(AMPS)
    for at in range(10):
        a.send(b, "q", b"%d" % at)
        world.run(5 * SECOND)
        if at == 3:
            a.restart()
        if at == 6:
            b.restart()
    assert world.run(60 * SECOND, lambda: not a.busy)
    assert b.read_all("q") == [b"%d" % at for at in range(10)]
    numbers = [it["number"] for it in b.log("accepted")]
    assert numbers == sorted(set(numbers))


@statement(
    "MemoryPublishStore, error on gap",
    "amps(error_on_publish_gap=True)",
    "GapDetected; by default GapFound, and on it goes",
)
@pytest.mark.parametrize("error", [False, True])
def test_a_gap_that_is_found_at_logon_is_an_error_if_that_is_asked_for(error: bool) -> None:
    """The logs of such a world are not judged: they show the gap."""
    world = World(trust=False)
    world.run(meet_another(world, error=error))
    world.close()


async def meet_another(world: World, *, error: bool) -> None:
    """Another node, with an empty directory, answers for the peer."""
    settings = replace(amps(error_on_publish_gap=error), close_timeout_s=0.01)
    with world.machine("b"):
        old, new = (triack.open("b", data=data, listen=LISTEN) for data in ("old", "new"))
    with world.machine("a"):
        a = triack.open("a", data="a", settings=settings)
    async with a:
        async with old:
            await a.trust("b", old.key, old.address)
            await old.trust("a", a.key)
            await (await a.send("b/orders", b"1")).ordered()
        waiting, events = await a.send("b/orders", b"2"), a.events()
        async with new:
            await new.trust("a", a.key)
            await a.revoke("b")
            await a.trust("b", new.key, new.address)
            found = await anext(event async for event in events if isinstance(event, GapFound))
            assert (found.peer, found.node_id, found.queues) == ("b", new.node_id, ("orders",))
            assert (found.halts, a.stats().links["b"].gaps) == (error, 1)
            if not error:
                await waiting.ordered()
                assert new.queue_lengths()["orders"] == 1
                return
            with pytest.raises(triack.GapDetected, match="and has none of them") as raised:
                await waiting.ordered()
            assert (raised.value.peer, raised.value.rolled_back) == (new.node_id, "peer")
            with pytest.raises(triack.GapDetected):
                await a.drain()
            assert "orders" not in new.queue_lengths()
