"""Packets that arrived at the peer, were refused there, and whose rejections have not come yet.

Promise: a packet that an ack names as refused is reported acknowledged only when a later ack covers it without naming
it. By then the peer knows that its rejection arrived here, so the owner of the packet has got the rejection before.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

from triack.base.ranges import Range, without
from triack.session.protocol.frames import AckFrame

UNDECIDED_MAX = 16_384
"""Several times the number that a correct peer names at a time (``session_ack``); the rest is taken as acknowledged."""


class Numbered(Protocol):
    """A packet of the session."""

    @property
    def number(self) -> int:
        """Its number in the session."""


T = TypeVar("T", bound=Numbered)


_NO_PACKETS: dict[int, Any] = {}
_NO_NUMBERS: list[int] = []
"""Shared by all sessions without a refused packet, and never changed: two empty ones for each would take 120 bytes."""


class Undecided(Generic[T]):
    """The packets of one direction of one session that arrived and were refused."""

    __slots__ = ("_numbers", "_packets")

    def __init__(self) -> None:
        self._packets: dict[int, T] = _NO_PACKETS
        self._numbers = _NO_NUMBERS

    def __len__(self) -> int:
        return len(self._packets)

    def sift(self, acked: list[T], ack: AckFrame) -> list[T]:
        """Hold back the packets that an ack names as refused.

        Args:
            acked: the packets that the ack newly covers.
            ack: the same ack.

        Returns:
            The packets to report acknowledged, including those of earlier acks that are settled now.
        """
        if not ack.refused and not self._packets:
            return acked
        if self._packets is _NO_PACKETS:
            self._packets, self._numbers = {}, []
        settled: list[T] = []
        numbers = self._numbers
        for first, last in without(((1, ack.cumulative), *ack.ranges), ack.refused):
            begin, end = bisect_left(numbers, first), bisect_right(numbers, last)
            settled += [self._packets.pop(number) for number in numbers[begin:end]]
            del numbers[begin:end]
        told = []
        for packet in acked:
            if _within(packet.number, ack.refused) and len(self._packets) < UNDECIDED_MAX:
                self._packets[packet.number] = packet
                insort(numbers, packet.number)
            else:
                told.append(packet)
        return settled + told


def _within(number: int, ranges: Sequence[Range]) -> bool:
    return any(first <= number <= last for first, last in ranges)
