"""Messages as numbers: each packet has a block of them, so that messages are kept as ranges, as packets are.

The last message of a packet, where it is known to be that, takes the rest of its block along: so whole packets in a row
are one range.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from triack.tools.replay.log.ranges import RangeSet, Span
from triack.tools.replay.log.weights import Weights

PLACE_BITS: Final = 32
"""A message is the number of its packet, and below it this number of bits for its place there."""
PLACE_MASK: Final = (1 << PLACE_BITS) - 1


def block(first: int, last: int) -> Span:
    """Return all messages of packets."""
    return first << PLACE_BITS, (last + 1 << PLACE_BITS) - 1


def part(number: int, first: int, last: int, counts: Weights | None) -> Span:
    """Return the messages of a packet from one place to another; ``counts``: how many packets have, as far as known."""
    begin = number << PLACE_BITS
    is_end = counts is not None and counts.get(number) == last + 1
    return begin + first, block(number, number)[1] if is_end else begin + last


def messages_of(record: dict[str, Any], counts: Weights | None) -> list[Span]:
    """Return the messages of a record about a queue; ``counts`` as in ``part``."""
    number, place, spans = record["number"], record["place"], list[Span]()
    for packets, messages in record["counts"]:
        last = number + packets - 1
        if counts is not None and not place and [*counts.within(number, last)] == [(number, last, messages)]:
            spans.append(block(number, last))
        else:
            for each in range(number, last + 1):
                if place + messages > 0:
                    spans.append(part(each, place, place + messages - 1, counts))
                place = 0
        number = last + 1
    return spans


def last_of(record: dict[str, Any]) -> int:
    """Return the last packet of such a record."""
    last: int = record["number"] + sum(packets for packets, _ in record["counts"]) - 1
    return last


def count_of(record: dict[str, Any]) -> int:
    """Return how many messages end in the packets of a record."""
    return sum(packets * messages for packets, messages in record.get("counts", ()))


def numbers_of(spans: Iterable[Span]) -> RangeSet:
    """Return the packets that messages are of."""
    return RangeSet((first >> PLACE_BITS, last >> PLACE_BITS) for first, last in spans)


def size_of(spans: list[Span], counts: Weights) -> int:
    """Return how many messages ranges hold."""
    size = 0
    for low, high in spans:
        for number in range(low >> PLACE_BITS, (high >> PLACE_BITS) + 1):
            begin, end = block(number, number)
            is_cut = high < end
            after = high + 1 if is_cut else begin + (counts.get(number) or 0)
            size += max(0, after - max(low, begin))
    return size


class ByPacket:
    """Messages, by the packets that they are of."""

    __slots__ = ("_messages",)

    def __init__(self, messages: RangeSet) -> None:
        self._messages = messages

    def missing(self, first: int, last: int) -> list[Span]:
        """Return the packets from first to last of which no message is there."""
        there = numbers_of(self._messages.overlap(*block(first, last)))
        return there.missing(first, last)
