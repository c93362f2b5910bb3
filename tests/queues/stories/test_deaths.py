"""A process that dies with a message in hand: what counts, what is done, and what comes again."""

import pytest

from tests.queues.world import SimNode, World
from triack.base.units import SECOND
from triack.queues.mailboxes.mailbox import Lease, Mailbox
from triack.queues.node_settings import Journal, Limits, NodeSettings, Redelivery
from triack.tools.replay.engines.local_engine import judge_records
from triack.tools.replay.log.files import parse_records


@pytest.fixture
def node() -> SimNode:
    """A node with three messages, all on its disk."""
    world = World(1)
    node = world.node("a", NodeSettings(max_redeliveries=2, redelivery=Redelivery(first_wait_s=0)))
    node.send(node, "q", b"1", b"2", b"3")
    world.run(SECOND)
    return node


def take(node: SimNode) -> tuple[Mailbox, Lease]:
    """The next message; its body may have to come from the disk."""
    mailbox, lease = node.live.make_queue("q"), None
    while lease is None:
        node.drain()
        assert node.world.run(SECOND, lambda: not mailbox.awaits_disk)
        lease = node.live.take(mailbox, node.world.now_ns)
    return mailbox, lease


def failures(node: SimNode) -> int:
    mailbox, lease = take(node)
    return mailbox.failures_of(lease)


def test_what_was_in_hand_has_failed(node: SimNode) -> None:
    """It alone, and once for each process; then it is dead, and the next one comes."""
    for times in range(3):
        assert failures(node) == times
        node.end()
        node.start()
    assert take(node)[1].body == b"2"
    node.drain()
    node.world.run(SECOND)
    assert node.read_all("dead-letter") == [b"1"]


def test_a_death_before_the_first_commit_of_a_start_loses_nothing(node: SimNode) -> None:
    """What it found it had not told a commit of; it handed nothing out."""
    take(node)
    node.end()
    for _ in range(3):
        node.start()
        assert node.live.take(node.live.make_queue("q"), node.world.now_ns) is None
        node.end()
    node.start()
    assert failures(node) == 1


def test_a_loss_of_power_is_no_failure(node: SimNode) -> None:
    take(node)
    node.end(node.disk.lose_power)
    node.start()
    assert failures(node) == 0


def test_what_came_back_was_not_in_hand(node: SimNode) -> None:
    mailbox, lease = take(node)
    mailbox.give_back(lease)
    node.end()
    node.start()
    assert failures(node) == 0


def acknowledge(node: SimNode, mailbox: Mailbox, lease: Lease) -> None:
    node.live.acknowledge(mailbox, [(lease.packet, 1 << lease.index)])


def test_what_was_acknowledged_does_not_come_again(node: SimNode) -> None:
    """Though no commit said so yet."""
    mailbox, lease = take(node)
    acknowledge(node, mailbox, lease)
    take(node)
    node.end()
    node.start()
    mailbox, lease = take(node)
    assert (lease.body, mailbox.failures_of(lease)) == (b"2", 1)


def test_what_was_acknowledged_behind_a_send_comes_again_with_it(node: SimNode) -> None:
    """The process had not stored what its handler sent: without that the message is not done."""
    mailbox, lease = take(node)
    engine = node.live
    outgoing = engine.outgoing_stream("", "results", lease.packet.delivery)  # type: ignore[arg-type]
    engine.submit(outgoing, b"result", 6)
    acknowledge(node, mailbox, lease)
    node.end()
    node.start()
    node.world.run(SECOND)
    assert node.length("results") == 0
    mailbox, lease = take(node)
    assert (lease.body, mailbox.failures_of(lease)) == (b"1", 0)


def test_what_a_commit_takes_is_done_with_the_commit_alone(node: SimNode) -> None:
    """As of a transaction."""
    mailbox, lease = take(node)
    mailbox.acknowledge(lease)
    node.end()
    node.start()
    assert take(node)[1].body == b"1"


def test_a_node_that_closes_has_nothing_in_hand(node: SimNode) -> None:
    take(node)
    node.live.in_hand.handle_end()
    node.end()
    node.start()
    assert failures(node) == 0


def judge(world: World) -> list[str]:
    """What the logs of all starts say of broken promises."""
    records = [record for node in world.made for log in node.records for record in parse_records(bytes(log))]
    return [violation.check for violation in judge_records(records)]


@pytest.mark.parametrize("is_told", [True, False], ids=["handed", "neither"])
@pytest.mark.parametrize("deaths", [1, 2])
@pytest.mark.parametrize(
    "settings", [NodeSettings(), NodeSettings(limits=Limits(queue_journal={"q": Journal()}))], ids=["plain", "journal"]
)
def test_the_next_log_says_what_the_notes_know_of_an_acknowledgement(
    is_told: bool, deaths: int, settings: NodeSettings
) -> None:
    """The log of the process that died lacks it, and perhaps that the message was handed out."""
    world = World(1)
    node = world.node("a", settings)
    for body in (b"1", b"2", b"3"):
        node.send(node, "q", body)
        world.run(SECOND)
    mailbox, lease = take(node)
    if is_told:
        node.drain()
    acknowledge(node, mailbox, lease)
    for _ in range(deaths):
        node.end()
        node.start()
    for body in (b"2", b"3"):
        mailbox, lease = take(node)
        assert lease.body == body
        acknowledge(node, mailbox, lease)
        node.drain()
    world.run(SECOND)
    assert judge(world) == []
