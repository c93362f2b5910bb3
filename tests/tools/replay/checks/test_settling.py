"""Messages that readers are done with never come again; messages that they had in their hands do."""

from collections.abc import Callable

import pytest

from tests.tools.replay.builder import ALPHA, PER_PACKET, Record, World, place
from tests.tools.replay.faults import TX, ready
from tests.tools.replay.judging import verdict_of
from triack.tools.replay.checks.settling import Messages


def there() -> World:
    """Beta has six packets of ten messages each; four were handed out."""
    world = ready()
    numbers = world.queue(TX, 6)
    arrived = world.send(TX, numbers)
    world.commit(TX, numbers)
    world.ack(arrived)
    world.order_ack(6)
    world.hand(TX, range(1, 5))
    return world


def about(
    world: World, event: str, number: int, packets: int = 1, *, begin: int = 0, messages: int = PER_PACKET, **more: bool
) -> Record:
    """Beta says something of messages in its queue."""
    what = {"number": number, "place": begin, "counts": [[packets, messages]], "queue": "orders", **more}
    return world.beta.write(event, cls=TX, **place(TX), **what)


def restart(world: World) -> None:
    world.beta.start()
    world.beta.write("position_recovered", cls=TX, origin=ALPHA, stream=1, sequence=5, number=6)


def hand(world: World, number: int, *, again: bool, first: int = 0, last: int = PER_PACKET - 1) -> None:
    fields = {"number": number, "first": first, "last": last, "redelivered": again}
    world.beta.write("handed", cls=TX, queue="orders", **place(TX), **fields)


def handed_again(world: World) -> None:
    """Packet 2, with which its reader was done, comes again in the same start."""
    about(world, "settled", 1, 2)
    hand(world, 2, again=True)


def handed_after_a_restart(world: World) -> None:
    """It was in a commit that had returned: another one followed."""
    about(world, "settled", 1, 2)
    about(world, "settled", 3)
    restart(world)
    hand(world, 2, again=True)
    for number in (3, 4):
        hand(world, number, again=True)


def lost_read(world: World) -> None:
    """Packet 3 was in the hands of a reader when beta died, and does not come again."""
    about(world, "settled", 1, 2)
    restart(world)
    hand(world, 4, again=True)
    hand(world, 5, again=False)


def lost_message(world: World) -> None:
    """The same of one message of packet 3."""
    about(world, "settled", 1, 2)
    about(world, "settled", 3, messages=4)
    restart(world)
    hand(world, 3, again=True, first=5)
    hand(world, 4, again=True)
    hand(world, 5, again=False)


def settled_unhanded(world: World) -> None:
    """Nobody was given packet 6."""
    about(world, "settled", 6)


def left_by_nobody(world: World) -> None:
    """No process was there before."""
    about(world, "settled", 3, recovered=True)


def left_and_again(world: World) -> None:
    """Packet 3 was done, and yet it comes again."""
    about(world, "settled", 1, 2)
    restart(world)
    about(world, "settled", 3, recovered=True)
    hand(world, 3, again=True)
    hand(world, 4, again=True)


@pytest.mark.parametrize(
    ("build", "check"),
    [
        (handed_again, "duplicates_delivered"),
        (handed_after_a_restart, "duplicates_delivered"),
        (lost_read, "not_handed"),
        (lost_message, "not_handed"),
        (settled_unhanded, "claims"),
        (left_by_nobody, "claims"),
        (left_and_again, "duplicates_delivered"),
    ],
)
def test_a_broken_promise_is_found(build: Callable[[World], None], check: str) -> None:
    world = there()
    build(world)
    assert verdict_of(world).violations == {check: 1}


def all_again(world: World) -> None:
    """Packets 3 and 4 come again before 5."""
    about(world, "settled", 1, 2)
    restart(world)
    for number in (3, 4):
        hand(world, number, again=True)
    hand(world, 5, again=False)


def cut_off(world: World) -> None:
    """The commit that was to take packet 4 may have returned or not."""
    about(world, "settled", 1, 3)
    about(world, "settled", 4)
    restart(world)
    hand(world, 5, again=False)


def cut_off_and_back(world: World) -> None:
    about(world, "settled", 1, 3)
    about(world, "settled", 4)
    restart(world)
    hand(world, 4, again=True)
    hand(world, 5, again=False)


def given_back(world: World) -> None:
    """Packet 3 came back, and waits longer than beta lives."""
    about(world, "settled", 1, 2)
    about(world, "returned", 3)
    restart(world)
    hand(world, 4, again=True)
    hand(world, 5, again=False)


def unread(world: World) -> None:
    """After the restart nobody reads."""
    about(world, "settled", 1, 2)
    restart(world)


def purged(world: World) -> None:
    """Packet 3 was taken out by hand."""
    about(world, "settled", 1, 2)
    about(world, "purged", 3)
    about(world, "settled", 3)
    restart(world)
    hand(world, 4, again=True)
    hand(world, 5, again=False)


def left_done(world: World) -> None:
    """Beta died after the acknowledgement of packets 3 and 5; its log lacks those, and that 5 was handed out."""
    about(world, "settled", 1, 2)
    restart(world)
    about(world, "settled", 3, recovered=True)
    about(world, "settled", 5, recovered=True)
    hand(world, 4, again=True)
    hand(world, 6, again=False)


def left_twice(world: World) -> None:
    """The start that found it died before its commit had returned."""
    about(world, "settled", 1, 2)
    for _ in range(2):
        restart(world)
        about(world, "settled", 3, recovered=True)
    hand(world, 4, again=True)
    hand(world, 5, again=False)


@pytest.mark.parametrize(
    "build", [all_again, cut_off, cut_off_and_back, given_back, unread, purged, left_done, left_twice]
)
def test_what_may_happen_passes(build: Callable[[World], None]) -> None:
    world = there()
    build(world)
    assert verdict_of(world).violations == {}


def test_messages_are_ranges_and_parts() -> None:
    some = Messages()
    some.add_packets(1, 3)
    some.add(5, 0, 3, 10)
    assert some.take(2, 4, 4, 10)
    assert not some.take(2, 4, 4, 10)
    assert sorted(some.numbers()) == [1, 2, 3, 5]
    some.add(5, 4, 9, 10)
    assert (5 in some.whole, set(some.parts)) == (True, {2})
    some.take_packets(1, 5)
    assert not some
