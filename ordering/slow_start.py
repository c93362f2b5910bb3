"""How fast a stream goes on after its destination had no room: as TCP does after a loss.

Promise: packets that were refused for want of room do not all go out at once, to be refused again. As many packets
leave as were taken last, and two for each one that is taken from then on, until it is clear that there is room.
"""

FULL_SPEED = 256
"""A destination that takes this many at once, several windows, does not lack room."""


class SlowStart:
    """How many packets of one stream may leave now.

    Attributes:
        credit: their number; None for no limit.
    """

    __slots__ = ("_last", "_taken", "credit")

    def __init__(self) -> None:
        self.credit: int | None = None
        self._taken = 0
        self._last = 0

    def handle_refused(self) -> None:
        """Some found no room, or that is unknown: send as many as were taken since the last time, or half of those."""
        self._last = max(1, min(self._taken, FULL_SPEED) or self._last // 2)
        self._taken = 0
        self.credit = self._last

    def handle_room(self) -> None:
        """There is room again, but it is unknown how much."""
        self.credit = max(1, self._last)

    def handle_resend(self, packets: int) -> None:
        """These packets left before and go out again, for other reasons than a lack of room."""
        if self.credit is not None:
            self.credit = max(self.credit, packets)

    def handle_sent(self) -> None:
        """A packet has left."""
        if self.credit:
            self.credit -= 1

    def handle_taken(self, packets: int = 1) -> None:
        """Packets were taken, or are gone in another way."""
        self._taken += packets
        if self.credit is not None:
            self.credit += 2 * packets
            if self.credit >= FULL_SPEED:
                self.credit = None

    def handle_session_closed(self, *, not_stored: bool) -> None:
        """All goes out again on the next session: slowly, if the last one ended as arrived packets were not stored."""
        if not_stored:
            self.handle_refused()
        else:
            self.credit = None
