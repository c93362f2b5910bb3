"""Copies of one packet that come into a circle of four relays at two places, and acknowledgements that come late."""

from types import SimpleNamespace
from typing import Any

from proof.planted.stories import Story
from triack.base.commit import TransitStreamRow
from triack.base.delivery import Ack, Delivery
from triack.ordering.transit import Taken, TransitPacket
from triack.ordering.wire import RelayedHeader, passing
from triack.queues.streams.transit_stream import TransitStream

ORIGIN = bytes(16)
COURSE = (
    "enter 0, enter 2, send 0, send 2, hear 3, send 3, hear 1, send 1, acked 2, hear 2, send 2, hear 3, acked 2, "
    "acked 0, hear 0, send 0, hear 1, acked 3, acked 1, acked 0"
)
"""Found by a search: were any copy a duplicate of any other, each of the last four would answer for the next."""


class _Relay:
    """One relay of a circle, which sends to the next; sessions between them lose nothing."""

    def __init__(self, number: int) -> None:
        self.node_id, self.name = bytes([number + 1] * 16), str(number)
        self.stream = TransitStream(TransitStreamRow(1, ORIGIN, 1, Delivery.RECOVERABLE, 1, "q", "x", "a", "", 0, 0))
        self.on_its_way = b""
        self.acks = 0

    def take(self, via: str, trace: bytes) -> bool:
        """Take a packet; return whether it is store-acknowledged."""
        conversation: Any = SimpleNamespace(link_name=via)
        header = RelayedHeader(ORIGIN, 1, 1, 1, 0, "q", False, b"", trace, 0, "x", "a")
        sequence = self.stream.sequence
        if sequence.is_empty:
            self.stream.came_by, self.stream.trace = via, trace
        if not self.stream.comes_as(conversation, header):
            return False
        taken = sequence.judge(1, 1)
        if taken is Taken.FRESH:
            entry = TransitPacket(1, b"", 0, 1, 0, 0)
            sequence.add([entry])
            sequence.handle_stored([entry])
        return taken in (Taken.FRESH, Taken.DUPLICATE)

    def send(self) -> None:
        """Send what is here to the next relay."""
        sequence = self.stream.sequence
        sequence.handle_sent(sequence.peek_run(1), 0, packet=1)
        self.on_its_way = passing(self.stream.trace, self.node_id)

    def handle_acked(self) -> None:
        """The next relay has acknowledged what was sent first of all that it has not."""
        if self.acks:
            self.acks -= 1
            self.stream.sequence.handle_ack(list(self.stream.sequence.entries.values()), Ack.STORE)


def _run() -> str:
    relays = [_Relay(number) for number in range(4)]
    for step in COURSE.split(", "):
        what, number = step.split()
        relay, before = relays[int(number)], relays[int(number) - 1]
        if what == "enter":
            relay.take("a", b"")
        elif what == "send":
            relay.send()
        elif what == "hear":
            before.acks += relay.take(before.name, before.on_its_way)
        else:
            relay.handle_acked()
    return "" if any(len(relay.stream.sequence) for relay in relays) else "no relay has the packet any more"


CIRCLE = Story("copies in a circle of relays", _run)
