"""Administration messages that are missing, come twice, or tell what did not happen: two faults for each check."""

from collections.abc import Callable

from tests.tools.replay.builder import CLASS_STREAMS, PER_PACKET, SEQUENCE, World, place

TX = "transactional"
STREAM = CLASS_STREAMS[TX]
ARRIVED, RECEIVED = 0x0002, 0x4000
Expected = set[tuple[str, int, int, int]]
Fault = Callable[[World], Expected]
ADMIN_FAULTS: dict[str, Fault] = {}


def fault(plant: Fault) -> Fault:
    ADMIN_FAULTS[plant.__name__] = plant
    return plant


def ask(world: World, number: int, acks: int = 15) -> None:
    """The messages of alpha's next packet ask for administration messages."""
    world.alpha.write("admin_ack_asked", cls=TX, **place(TX), number=number, place=0, count=PER_PACKET, acks=acks)


def tell(world: World, number: int, message_class: int) -> None:
    """Beta tells what happened to the messages of a packet."""
    said = {"number": number, "place": 0, "count": PER_PACKET, "message_class": message_class}
    world.beta.write("admin_ack_queued", cls=TX, **place(TX), **said)


def deliver(world: World, *told: int, acks: int = 15) -> None:
    """One packet that asks, arrives, is read and settled; beta tells of it as said."""
    ask(world, 1, acks)
    numbers = world.queue(TX, 1)
    arrived = world.send(TX, numbers)
    for message_class in told:
        if message_class == ARRIVED:
            tell(world, 1, ARRIVED)
    world.commit(TX, numbers)
    world.ack(arrived)
    world.hand(TX, numbers)
    for message_class in told:
        if message_class != ARRIVED:
            tell(world, 1, message_class)
    world.settle(TX, numbers)
    # Another commit of the same kind: the first one has returned.
    more = world.queue(TX, 1)
    arrived = world.send(TX, more)
    world.commit(TX, more)
    world.ack(arrived)
    world.order_ack(2)
    world.hand(TX, more)
    world.settle(TX, more)


@fault
def arrival_not_told(world: World) -> Expected:
    """A message is in its queue, and its sender, who asked, hears nothing."""
    deliver(world, RECEIVED)
    return {("admin_ack_missing", STREAM, SEQUENCE, 1)}


@fault
def settled_and_not_told(world: World) -> Expected:
    """The reader is done with a message, and its sender, who asked how it ends, hears nothing."""
    deliver(world, ARRIVED)
    return {("admin_ack_missing", STREAM, SEQUENCE, 1)}


@fault
def arrival_told_twice(world: World) -> Expected:
    """Within one start."""
    deliver(world, ARRIVED, ARRIVED, RECEIVED)
    return {("admin_ack_twice", STREAM, SEQUENCE, 1)}


@fault
def reader_told_twice(world: World) -> Expected:
    """The same of the reader."""
    deliver(world, ARRIVED, RECEIVED, RECEIVED)
    return {("admin_ack_twice", STREAM, SEQUENCE, 1)}


@fault
def told_what_nobody_asked(world: World) -> Expected:
    """The sender asked only to hear of failures."""
    deliver(world, RECEIVED, acks=12)
    return {("admin_ack_made_up", STREAM, SEQUENCE, 1)}


@fault
def told_of_a_reader_that_never_was(world: World) -> Expected:
    """The message was not handed out."""
    ask(world, 1)
    numbers = world.queue(TX, 1)
    arrived = world.send(TX, numbers)
    tell(world, 1, ARRIVED)
    world.commit(TX, numbers)
    world.ack(arrived)
    world.order_ack(1)
    tell(world, 1, RECEIVED)
    return {("admin_ack_made_up", STREAM, SEQUENCE, 1)}
