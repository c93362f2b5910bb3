"""Another node answers for a peer: told before anything goes there, and passed over or not, as the node is set."""

from dataclasses import replace
from typing import NamedTuple

import pytest

from tests.queues.world import PlainWorld, SimNode
from triack.base.commit import Commit
from triack.base.delivery import Delivery
from triack.base.errors import GapDetected, UsageError
from triack.base.news import GapFound
from triack.base.units import SECOND
from triack.queues.node_settings import Gap, NodeSettings, Reconnect
from triack.queues.peers.introduction import NO_NODE
from triack.queues.peers.resuming import Resuming
from triack.queues.stages import STAGES
from triack.session.protocol.settings import SessionSettings

SESSION = SessionSettings(ack_timeout_s=2.0, cleanup_interval_s=5.0)
SETTINGS = NodeSettings(session=SESSION)
DURABLE = [Delivery.TRANSACTIONAL, Delivery.RECOVERABLE]
ONE, OTHER = b"1" * 16, b"2" * 16


def strict(gap: Gap = "error") -> NodeSettings:
    return replace(SETTINGS, reconnect=Reconnect(gap=gap))


class Scene(NamedTuple):
    """A sender, the node that has acknowledged its first message and is gone, and the one that is there instead."""

    world: PlainWorld
    a: SimNode
    old: SimNode
    new: SimNode
    old_id: bytes


def replaced(gap: Gap, delivery: Delivery = Delivery.TRANSACTIONAL) -> Scene:
    """A second message waits when the other node starts."""
    world = PlainWorld(1)
    a, old = world.node("a", strict(gap)), world.node("b", SETTINGS)
    a.send(old, "q", b"1", delivery=delivery)
    world.run(10 * SECOND)
    assert not a.busy
    old_id = old.live.node_id
    old.crash()
    a.send(old, "q", b"2", delivery=delivery)
    world.run(5 * SECOND)
    return Scene(world, a, old, world.node("b", SETTINGS), old_id)


def gaps_of(node: SimNode) -> list[GapFound]:
    """All events of gaps that its program got."""
    return [event for event in node.news if isinstance(event, GapFound)]


@pytest.mark.parametrize("delivery", DURABLE)
def test_a_warning_comes_once_and_the_stream_goes_on(delivery: Delivery) -> None:
    """Also after an idle session, a restart, and when the new node has acknowledged something itself."""
    world, a, _, new, old_id = replaced("warn", delivery)
    world.run(20 * SECOND)
    (gap,) = gaps_of(a)
    assert (gap.peer, gap.queues, gap.halts) == (new.address, ("q",), False)
    assert (gap.before, gap.node_id) == (old_id.hex(), new.live.node_id.hex())
    assert gap.cause.endswith(f"acknowledged messages for q before, {old_id.hex()}, and has none of them")
    a.restart()
    a.send(new, "q", b"3", delivery=delivery)
    world.run(20 * SECOND)
    assert sorted(new.read_all("q")) == [b"2", b"3"]
    assert (gaps_of(a), a.outbox.links.resuming.gaps) == ([gap], {})


@pytest.mark.parametrize("delivery", DURABLE)
def test_an_error_sends_nothing_and_every_waiter_hears_of_it(delivery: Delivery) -> None:
    """Not even after a restart, and not in a session that the other node has opened: what it sends arrives."""
    world, a, old, new, _ = replaced("error", delivery)
    for _ in range(2):
        said = a.watch(a.send(old, "q", b"3", delivery=delivery), STAGES[delivery])
        world.run(20 * SECOND)
        assert said == [gaps_of(a)[-1].cause]
        assert isinstance(a.outbox.links[new.address].suspended, GapDetected)
        a.restart()
    new.send(a, "back", b"4")
    world.run(20 * SECOND)
    assert (new.length("q"), a.read_all("back"), [gap.halts for gap in gaps_of(a)]) == (0, [b"4"], [True] * 3)


def test_the_node_before_goes_on_where_it_was() -> None:
    world, a, old, new, _ = replaced("error")
    world.run(20 * SECOND)
    new.crash()
    old.start()
    old.send(a, "back", b"hello")
    world.run(20 * SECOND)
    assert old.read_all("q") == [b"1", b"2"]
    assert (a.busy, len(gaps_of(a))) == (False, 1)


def test_what_nobody_has_acknowledged_is_no_gap() -> None:
    """A node that is replaced before it has anything, and express messages, of which nothing is kept."""
    world = PlainWorld(1)
    a, old = world.node("a", strict()), world.node("b", SETTINGS)
    a.send(old, "q", b"1", delivery=Delivery.EXPRESS)
    world.run(10 * SECOND)
    old.crash()
    a.send(old, "q", b"2")
    new = world.node("b", SETTINGS)
    world.run(20 * SECOND)
    assert (gaps_of(a), new.read_all("q")) == ([], [b"2"])


def test_who_is_written_down_goes_with_the_commit_that_lets_go() -> None:
    """Written once for each node; a link that leads nowhere yet is nobody."""
    resuming, commit = Resuming("warn"), Commit()
    for node_id, written in (
        (NO_NODE, {}),
        (ONE, {"$holder:b": ONE}),
        (ONE, {}),
        (OTHER, {"$holder:b": OTHER}),
    ):
        commit.state.clear()
        resuming.handle_freed("b", node_id)
        resuming.write_down(commit)
        assert commit.state == written


def test_what_is_written_down_is_known_after_a_restart() -> None:
    """Other state of the node and its application is not looked at."""
    resuming = Resuming("error")
    resuming.restore({"$holder:b": ONE, "$key:1:x": b"", "c": OTHER})
    assert resuming.handle_opened("b", ONE, ["q"]) is None
    assert resuming.handle_opened("c", ONE, ["q"]) is None
    gap = resuming.handle_opened("b", OTHER, ["q", "p", "q"])
    assert gap == resuming.handle_opened("b", OTHER, ["p", "q"])
    assert (resuming.take_news(), resuming.take_news()) == ([gap], [])
    assert gap == GapFound("b", OTHER.hex(), ONE.hex(), ("p", "q"), halts=True, cause=gap.cause if gap else "")


def test_each_change_of_the_node_is_counted() -> None:
    """There, back, and there again."""
    resuming = Resuming("warn")
    resuming.restore({"$holder:b": ONE})
    for node_id in (OTHER, OTHER, ONE, OTHER):
        resuming.handle_opened("b", node_id, ["q"])
    assert resuming.gaps["b"] == 2


def test_there_are_two_ways() -> None:
    with pytest.raises(UsageError, match="gap must be warn or error, not 'ignore'"):
        Reconnect(gap="ignore")  # type: ignore[arg-type]
