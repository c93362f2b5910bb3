"""Copies in journals that are missing or made twice: faults for each check."""

from collections.abc import Callable
from typing import Any

from tests.tools.replay.builder import CLASS_STREAMS, PER_PACKET, SEQUENCE, World, place
from triack.tools.replay.checks.journal_check import SENT_JOURNAL

TX = "transactional"
STREAM = CLASS_STREAMS[TX]
Expected = set[tuple[str, int, int, int]]
Fault = Callable[[World], Expected]
JOURNAL_FAULTS: dict[str, Fault] = {}


def fault(plant: Fault) -> Fault:
    JOURNAL_FAULTS[plant.__name__] = plant
    return plant


def ask(world: World, number: int) -> None:
    """The messages of alpha's next packet ask for copies."""
    world.alpha.write("journal_asked", cls=TX, **place(TX), number=number, place=0, count=PER_PACKET)


def copy(world: World, number: int, *, sent: bool = False, kept: bool = True) -> None:
    """A node copies the messages of a packet: alpha those that it has sent, beta those that were read."""
    log, queue = (world.alpha, SENT_JOURNAL) if sent else (world.beta, "orders")
    said: dict[str, Any] = {**place(TX), "number": number, "place": 0, "counts": [[1, PER_PACKET]], "kept": kept}
    log.write("journaled", cls=TX, queue=queue, **said)


def settle(world: World, numbers: range) -> None:
    """A reader is done with whole packets of a journaled queue."""
    world.settle(TX, numbers)
    for record in world.beta.all("settled"):
        record["journaled"] = True


def deliver(world: World, count: int = 1) -> range:
    """Packets arrive, and are read."""
    numbers = world.queue(TX, count)
    world.ack(world.send(TX, numbers))
    world.commit(TX, numbers)
    world.order_ack(numbers[-1])
    world.hand(TX, numbers)
    return numbers


@fault
def read_and_not_copied(world: World) -> Expected:
    """The queue has a journal, and nothing is said of the second packet."""
    numbers = deliver(world, 2)
    copy(world, numbers[0])
    settle(world, numbers)
    return {("journal_complete", STREAM, SEQUENCE, numbers[1])}


@fault
def read_and_copied_too_late(world: World) -> Expected:
    """The commit that deleted the packet had no copy: a crash behind it would have left none."""
    numbers = deliver(world)
    settle(world, numbers)
    copy(world, numbers[0])
    return {("journal_complete", STREAM, SEQUENCE, numbers[0])}


@fault
def sent_and_not_copied(world: World) -> Expected:
    """The next start of the sender does not find the packet any more."""
    ask(world, 1)
    deliver(world)
    world.close()
    world.alpha.start()
    world.open()
    return {("journal_complete", STREAM, SEQUENCE, 1)}


@fault
def copied_twice(world: World) -> Expected:
    """By two commits of one start."""
    numbers = deliver(world)
    copy(world, numbers[0])
    settle(world, numbers)
    copy(world, numbers[0])
    return {("journal_twice", STREAM, SEQUENCE, numbers[0])}


@fault
def sent_copied_twice(world: World) -> Expected:
    """The same of what was sent."""
    ask(world, 1)
    deliver(world)
    copy(world, 1, sent=True)
    copy(world, 1, sent=True)
    return {("journal_twice", STREAM, SEQUENCE, 1)}
