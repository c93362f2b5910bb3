"""Delivery classes, and the table of which acknowledgement frees which class."""

from enum import IntEnum

from triack.base.errors import UsageError


class Delivery(IntEnum):
    """The delivery class of a message; the value is the code on the wire.

    Attributes:
        EXPRESS: in memory at both ends; arrives at most once, and is lost when either process ends.
        RECOVERABLE: on disk at both ends; arrives exactly once, in any order.
        TRANSACTIONAL: on disk at both ends; arrives exactly once and in order, with the transaction that sent it.
    """

    EXPRESS = 0
    RECOVERABLE = 1
    TRANSACTIONAL = 2

    @property
    def label(self) -> str:
        """The name in lower case, as the session log and the command line write it."""
        return LABELS[self]


class Ack(IntEnum):
    """The three acknowledgements, by layer."""

    SESSION = 0
    """The packet arrived at the next hop ([MS-MQQB] 2.2.6)."""
    STORE = 1
    """The packet is on the next hop's disk; MSMQ's session ack says it in separate bits ([MS-MQMQ] 2.2.20.4)."""
    ORDER = 2
    """The packet was accepted once, in order, at its destination, and is on disk there ([MS-MQQB] 2.2.4)."""
    ONWARD = 3
    """The next hop has passed the packet on, and the node behind it has it on its disk; of sync links (AMPS)."""


class Role(IntEnum):
    """The role of a node for a packet that it sends."""

    ORIGIN = 0
    """It wrote the packet, and answers for it until the destination has it."""
    TRANSIT = 1
    """It passes the packet on, and answers for it until the next hop does."""


FREED_BY: dict[tuple[Delivery, Role], Ack] = {
    (Delivery.EXPRESS, Role.ORIGIN): Ack.SESSION,
    (Delivery.RECOVERABLE, Role.ORIGIN): Ack.STORE,
    (Delivery.TRANSACTIONAL, Role.ORIGIN): Ack.ORDER,
    (Delivery.EXPRESS, Role.TRANSIT): Ack.SESSION,
    (Delivery.RECOVERABLE, Role.TRANSIT): Ack.STORE,
    (Delivery.TRANSACTIONAL, Role.TRANSIT): Ack.STORE,
}
"""The acknowledgement that lets a sender forget a packet; no other one does ([MS-MQQB] 3.1.5.5 for the first two,
3.1.1.6.2 for the third: a session ack never deletes a transactional packet at its origin)."""

SYNC_FREED_BY: dict[tuple[Delivery, Role], Ack] = FREED_BY | {
    (Delivery.RECOVERABLE, Role.ORIGIN): Ack.ONWARD,
    (Delivery.RECOVERABLE, Role.TRANSIT): Ack.ONWARD,
}
"""The same over a sync link. A relay need not keep a transactional packet for that: its origin keeps it for longer."""

DURABLE: frozenset[Delivery] = frozenset({Delivery.RECOVERABLE, Delivery.TRANSACTIONAL})
"""The classes that are on disk before they are sent, and before they are store-acknowledged."""

LABELS: dict[int, str] = {member: member.name.lower() for member in Delivery}


PRIORITY_MAX = 7
"""The highest priority; the lowest is 0 ([MS-MQMQ] 2.2.19.2: three bits of the flags)."""
DEFAULT_PRIORITY = 3
"""The priority of a message that names none, as in MSMQ."""
TRANSACTIONAL_PRIORITY = 0
"""The priority of every transactional message, as in MSMQ: all of a queue keep one order."""


def default_priority(delivery: Delivery) -> int:
    """The priority of a class's messages that name none."""
    return TRANSACTIONAL_PRIORITY if delivery is Delivery.TRANSACTIONAL else DEFAULT_PRIORITY


def check_priority(destination: str, delivery: Delivery, priority: object) -> int:
    """The priority of a message. Raises UsageError: it is no integer from 0 to 7, or not 0 if transactional."""
    if priority is None:
        return default_priority(delivery)
    if isinstance(priority, bool) or not isinstance(priority, int) or not 0 <= priority <= PRIORITY_MAX:
        raise UsageError(f"send to {destination}: a priority is a number from 0 to {PRIORITY_MAX}, not {priority!r}")
    if delivery is Delivery.TRANSACTIONAL and priority != TRANSACTIONAL_PRIORITY:
        raise UsageError(
            f"send to {destination}: transactional messages arrive in the order of their sending, so all of them have "
            f"priority {TRANSACTIONAL_PRIORITY}, not {priority}: send it as triack.RECOVERABLE or triack.EXPRESS"
        )
    return priority


def check_sent(what: str, destination: object, delivery: object) -> None:
    """Check the types of a destination and of a class. Raises UsageError: one of them is wrong."""
    if not isinstance(destination, str):
        hint = "; send_to sends to several" if isinstance(destination, list | tuple) else ""
        raise UsageError(f"{what} {destination!r}: a destination is text{hint}")
    if not isinstance(delivery, Delivery):
        raise UsageError(
            f"{what} {destination} as {delivery!r}: a class is a triack.Delivery, such as triack.TRANSACTIONAL"
        )
