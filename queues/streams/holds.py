"""The streams that wait for room at their destination, and why, for stats and events.

Promise: each wait has an event for its beginning and one for its end, shared by all streams of a peer that wait for the
same reason. If the reason is a full queue, each queue has other events. Both ends of a link have one of these.
"""

from collections import Counter
from typing import NamedTuple

from triack.base.delivery import Delivery
from triack.base.news import StreamHeld
from triack.base.reasons import HoldReason

TOLD_APART = (HoldReason.QUEUE_FULL, HoldReason.STORE_LOW)
"""Reasons with other events at the node that has no room: ``QueueOverQuota`` and ``StoreLow``."""


class HeldStream(NamedTuple):
    """A stream that waits: the node at its other end, its destination queue, the class of its messages, and why."""

    peer: str
    queue: str
    delivery: Delivery
    reason: HoldReason

    @property
    def told_as(self) -> tuple[str, HoldReason, str]:
        """Key of the event: streams with the same key share it."""
        return self.peer, self.reason, self.queue if self.reason is HoldReason.QUEUE_FULL else ""


class Holds:
    """The streams of one end that wait. ``here``: this node lets them wait."""

    def __init__(self, *, here: bool) -> None:
        self._here = here
        self._streams: dict[object, HeldStream] = {}
        self._told: Counter[tuple[str, HoldReason, str]] = Counter()
        self.news: list[StreamHeld] = []

    def hold(self, stream: object, held: HeldStream) -> None:
        """A stream waits, or continues to wait for another reason."""
        if self._streams.get(stream) != held:
            self.free(stream)
            self._streams[stream] = held
            self._told[held.told_as] += 1
            if self._told[held.told_as] == 1:
                self._tell(held, is_held=True)

    def free(self, stream: object) -> None:
        """End the wait of a stream, if it waits."""
        held = self._streams.pop(stream, None)
        if held is None:
            return
        self._told[held.told_as] -= 1
        if not self._told[held.told_as]:
            del self._told[held.told_as]
            self._tell(held, is_held=False)

    def _tell(self, held: HeldStream, *, is_held: bool) -> None:
        if not self._here or held.reason not in TOLD_APART:
            self.news.append(StreamHeld(held.peer, held.queue, held.reason.value, self._here, is_held))

    def of(self, stream: object) -> HoldReason | None:
        """Why a stream waits, or None."""
        held = self._streams.get(stream)
        return None if held is None else held.reason

    @property
    def streams(self) -> list[HeldStream]:
        """All that wait."""
        return list(self._streams.values())
