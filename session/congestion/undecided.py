"""Packets that arrived at the peer, were refused there, and whose rejections have not come yet.

Promise: a packet that an ack names as refused is told as acknowledged only when a later ack covers it and names it no
more. The peer has then heard that its rejection arrived here, so the owner of the packet has heard of that before.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from triack.base.ranges import Range, without
from triack.session.protocol.frames import AckFrame

__all__ = ["Undecided"]

UNDECIDED_MAX = 16_384
"""Several times what a peer may name at a time (``session_ack``): one that names more than that does not mean it."""


class Numbered(Protocol):
    """A packet of the session."""

    @property
    def number(self) -> int:
        """Its number in the session."""


T = TypeVar("T", bound=Numbered)


class Undecided(Generic[T]):
    """What one direction of one session knows to have arrived, and not to have been taken."""

    __slots__ = ("_numbers", "_packets")

    def __init__(self) -> None:
        self._packets: dict[int, T] = {}
        self._numbers: list[int] = []

    def __len__(self) -> int:
        return len(self._packets)

    def sift(self, acked: list[T], ack: AckFrame) -> list[T]:
        """Keep back what an ack names as refused.

        Args:
            acked: what the ack newly covers.
            ack: the same ack.

        Returns:
            The packets to tell as acknowledged, those of earlier acks among them that are settled now.
        """
        if not ack.refused and not self._packets:
            return acked
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
