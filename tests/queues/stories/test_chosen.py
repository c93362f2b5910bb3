"""Messages that are taken before their turn, given back and acknowledged in any order, over crashes."""

import pytest

from tests.queues.world import World, numbered
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.queues.mailboxes.mailbox import Lease
from triack.queues.mailboxes.redelivery import Return
from triack.queues.node_settings import NodeSettings
from triack.tools.replay.engines.local_engine import judge_records
from triack.tools.replay.log.files import parse_records

MESSAGES = 60


def test_a_message_of_a_low_priority_is_chosen_before_a_high_one() -> None:
    """Which is no mistake in the log, and changes nothing for the others."""
    world = World(1)
    node = world.node("a", NodeSettings(messages_per_packet=1))
    for body, priority in ((b"low", 1), (b"high", 7), (b"chosen", 1), (b"last high", 7)):
        outgoing = node.live.outgoing_stream(node.address, "q", Delivery.RECOVERABLE, priority)
        node.live.submit(outgoing, body, len(body))
        node.drain()
        world.run(100 * MS)
    mailbox = node.live.queues.mailboxes["q"]
    run = node.live.choose(mailbox, 3, (), world.now_ns)
    assert run is not None
    assert run.lease(run.first).body == b"chosen"
    node.drain()
    world.run(SECOND)
    node.live.give_back(mailbox, run.lease(run.first), Return(failed=False), world.now_ns)
    node.drain()
    assert node.read_all("q") == [b"high", b"last high", b"low", b"chosen"]
    world.run(SECOND)
    records = parse_records(b"".join(node.records))
    assert [str(violation) for violation in judge_records(records)] == []


@pytest.mark.parametrize("seed", range(12))
def test_each_message_is_done_once_and_the_others_keep_their_order(seed: int) -> None:
    """The log of it is as it should be: nothing is passed over, repeated or out of order."""
    world = World(seed)
    random, node = (
        world.random,
        world.node("a", NodeSettings(messages_per_packet=1 + seed % 7, body_cache_bytes=20_000)),
    )
    node.send(node, "q", *numbered(0, MESSAGES))
    assert world.run(SECOND, lambda: node.length("q") == MESSAGES)
    held: list[Lease] = []
    done: list[bytes] = []
    for _ in range(300):
        engine, mailbox = node.live, node.live.make_queue("q")
        what = random.random()
        if what < 0.25:
            run = engine.choose(mailbox, random.randint(1, mailbox.last_place), (), world.now_ns)
            held += [] if run is None else [run.lease(run.first)]
        elif what < 0.5:
            lease = engine.take(mailbox, world.now_ns)
            held += [] if lease is None else [lease]
        elif what < 0.75 and held:
            lease = held.pop(random.randrange(len(held)))
            done.append(lease.body)
            engine.acknowledge(mailbox, [(lease.packet, 1 << lease.index)])
            node.drain()
            world.run(30 * MS)
        elif what < 0.95 and held:
            lease = held.pop(random.randrange(len(held)))
            engine.give_back(mailbox, lease, Return(failed=False, delay_ms=random.choice((None, 5))), world.now_ns)
        elif what > 0.98:
            held.clear()
            node.restart()
        node.drain()
    for lease in held:
        node.live.give_back(node.live.make_queue("q"), lease, Return(failed=False), world.now_ns)
    node.drain()
    world.run(200 * SECOND)  # readers that died let their messages wait
    left = node.read_all("q")
    assert sorted([*done, *left]) == numbered(0, MESSAGES)
    assert left == sorted(left)
    world.run(SECOND)
    records = parse_records(b"".join(node.records))
    assert [str(violation) for violation in judge_records(records)] == []
