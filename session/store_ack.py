"""The receiving half of the store acknowledgement: which packets are on our disk.

Promise: a number is in a store ack only after the commit that holds its packet has returned. The caller reports
commits with ``handle_stored``; nothing else adds a number.

    NOTHING_OWED --stored | asked--> DUE --sent--> NOTHING_OWED

Express packets never reach a disk. They are counted with ``handle_not_durable``, so that the cumulative number can
pass them; no one waits for their store ack.
"""

from enum import IntEnum

from triack.base.ranges import NumberSet

__all__ = ["StoreAck", "StoreAckState"]


class StoreAckState(IntEnum):
    """Whether the sender has yet to hear of something on our disk."""

    NOTHING_OWED = 0
    DUE = 1


class StoreEvent(IntEnum):
    """What happened."""

    STORED = 0
    ASKED = 1
    SENT = 2


TRANSITIONS: dict[StoreAckState, dict[StoreEvent, StoreAckState]] = {
    StoreAckState.NOTHING_OWED: {
        StoreEvent.STORED: StoreAckState.DUE,
        StoreEvent.ASKED: StoreAckState.DUE,
        StoreEvent.SENT: StoreAckState.NOTHING_OWED,
    },
    StoreAckState.DUE: {
        StoreEvent.STORED: StoreAckState.DUE,
        StoreEvent.ASKED: StoreAckState.DUE,
        StoreEvent.SENT: StoreAckState.NOTHING_OWED,
    },
}


class StoreAck:
    """Tracks what one direction of one session has on disk."""

    __slots__ = ("state", "stored")

    def __init__(self) -> None:
        self.stored = NumberSet()
        self.state = StoreAckState.NOTHING_OWED

    @property
    def due(self) -> bool:
        """Whether a store ack must leave with the next datagram."""
        return self.state is StoreAckState.DUE

    def handle_stored(self, numbers: list[int]) -> None:
        """The commit that holds these packets has returned."""
        for number in numbers:
            self.stored.add(number)
        self._move(StoreEvent.STORED)

    def handle_not_durable(self, number: int) -> None:
        """An express packet arrived: pass its number without owing an ack."""
        self.stored.add(number)

    def handle_request(self) -> None:
        """The peer asked; say again what is stored, in case the last store ack was lost."""
        if self.stored.highest:
            self._move(StoreEvent.ASKED)

    def handle_sent(self) -> None:
        """A store ack for everything stored has left."""
        self._move(StoreEvent.SENT)

    def _move(self, event: StoreEvent) -> None:
        self.state = TRANSITIONS[self.state][event]
