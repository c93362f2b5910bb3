"""Ends of streams that break a rule: told twice, or of nothing, or left out before the stream is used again."""

from tests.tools.replay.builder import CLASS_STREAMS, PER_PACKET, SEQUENCE, World, place
from tests.tools.replay.faults import STREAM, TX, Expected, Fault
from tests.tools.replay.harmless import end_stream, next_stream

KEPT, FAST = "recoverable", "express"
KEPT_STREAM, FAST_STREAM = CLASS_STREAMS[KEPT], CLASS_STREAMS[FAST]
END_FAULTS: dict[str, Fault] = {}


def fault(plant: Fault) -> Fault:
    END_FAULTS[plant.__name__] = plant
    return plant


@fault
def ended_twice(world: World) -> Expected:
    """Alpha ends a stream a second time in one life."""
    world.deliver(TX, 1)
    end_stream(world, TX)
    world.alpha.write("stream_ended", cls=TX, **place(TX))
    return {("claims", STREAM, SEQUENCE, -1)}


@fault
def forgotten_twice(world: World) -> Expected:
    """Beta forgets what it has forgotten, and has not found on its disk since."""
    world.deliver(KEPT, 1)
    end_stream(world, KEPT)
    world.beta.write("stream_forgotten", cls=KEPT, **place(KEPT))
    return {("claims", KEPT_STREAM, SEQUENCE, -1)}


@fault
def forgotten_and_never_known(world: World) -> Expected:
    """Nothing of the stream that beta forgets has ever come."""
    world.alpha.write("stream_ended", cls=TX, **place(TX))
    world.beta.write("stream_forgotten", cls=TX, **place(TX))
    return {("claims", STREAM, SEQUENCE, -1)}


@fault
def forgotten_by_its_origin(world: World) -> Expected:
    """Alpha has put messages into a queue of its own; no other node could tell it that their stream has ended."""
    here = {"cls": TX, **place(TX)}
    world.queue(TX, 1)
    world.alpha.write("committed", **here, first=1, last=1, count=PER_PACKET, queue="orders")
    world.alpha.write("stream_ended", **here)
    world.alpha.write("stream_forgotten", **here)
    return {("claims", STREAM, SEQUENCE, -1)}


@fault
def not_forgotten_before_the_next_stream(world: World) -> Expected:
    """Alpha uses the streams of streams that have ended, and beta has not said that it has forgotten them."""
    for cls in (TX, FAST):
        world.deliver(cls, 1)
        world.alpha.write("stream_ended", cls=cls, **place(cls))
    next_stream(world, lambda: world.deliver(TX, 1))
    next_stream(world, lambda: world.deliver(FAST, 1))
    return {("claims", STREAM, SEQUENCE, -1), ("claims", FAST_STREAM, SEQUENCE, -1)}


@fault
def not_ended_before_the_next_stream(world: World) -> Expected:
    """Alpha uses a stream again, and has not ended the stream that had it."""
    world.deliver(TX, 1)
    next_stream(world, lambda: world.queue(TX, 1))
    return {("claims", STREAM, SEQUENCE, -1)}
