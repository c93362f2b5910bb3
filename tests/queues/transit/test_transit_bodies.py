"""Bodies of packets in transit: those that fit are in memory, the others come when they are needed."""

from collections import Counter

from triack.base.commit import key_of
from triack.base.delivery import Delivery
from triack.base.names import StreamId
from triack.ordering.transit import TransitPacket
from triack.queues.streams.transit_stream import TransitStream
from triack.queues.transit.transit_bodies import TransitBodies
from triack.queues.transit.transit_letters import TransitLetters


def test_what_does_not_fit_is_fetched_when_it_is_wanted() -> None:
    """Two bodies are kept of three; the third comes from the disk, and the stream is looked at."""
    looked: list[TransitStream] = []
    bodies = TransitBodies(TransitLetters(lambda *_: None, Counter()), looked.append, 20)
    stream = TransitStream(
        3, StreamId(b"o" * 16, 1), Delivery.RECOVERABLE, 1, queue="q", final="b", from_name="a", via="a"
    )
    entries = [TransitPacket(number, b"x" * 10, 10, 1, 0, 0, 0, "a", 0) for number in (1, 2, 3)]
    stream.sequence.add(entries)
    bodies.handle_stored(entries)
    stream.sequence.handle_stored(entries)
    assert ([entry.body is None for entry in entries], bodies.cached_bytes) == ([False, False, True], 20)
    assert bodies.poll_fetch() is None
    bodies.wanting[stream] = None
    read = bodies.poll_fetch()
    assert read is not None
    assert read.keys == [key_of(3, entries[2].place)]
    read.bodies = {read.keys[0]: b"y" * 10}
    bodies.handle_fetched(read)
    assert (entries[2].body, bodies.cached_bytes, looked) == (b"y" * 10, 30, [stream])
    for entry in entries:
        bodies.release(entry)
    assert bodies.cached_bytes == 0
