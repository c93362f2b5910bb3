"""The classes of messages, with MSMQ's numbers, and which administration messages a sender may ask for.

Public. [MS-MQMQ] 2.2.18.1.6 has the classes, [MS-MQMQ] 2.2.19.3 the flags.
"""

from enum import IntEnum, IntFlag

from triack.base.errors import UsageError
from triack.base.reasons import DeadReason, RejectReason


class MessageClass(IntEnum):
    """What a message is: an application's own, or an administration message about one.

    The upper two bits say which kind of administration message it is: 0x4000 was received, 0x8000 did not reach its
    queue, 0xC000 was in its queue and not received.

    Attributes:
        NORMAL: an application's message.
        ACK_REACH_QUEUE: it is in its queue.
        ACK_RECEIVE: a reader has acknowledged it, or a transaction that received it was committed.
        BAD_DESTINATION_QUEUE: there is no such queue, or no way to it.
        DELETED: it was purged before it arrived, or its session was lost and it is not to be sent again.
        REACH_QUEUE_TIMEOUT: its time ended before it was known to have arrived.
        QUEUE_EXCEEDS_QUOTA: its queue is full and set to refuse, or it is larger than the queue.
        ACCESS_DENIED: its sender may not send to that queue.
        HOP_COUNT_EXCEEDED: it has passed as many relays as a message may.
        QUEUE_PURGED: it was purged from its queue.
        RECEIVE_TIMEOUT: its time ended in its queue.
        RECEIVE_REJECTED: its reader has refused it, or it failed too often.
        QUEUE_DELETED: MSMQ's. Triack sends neither this one nor those that have no line here.
    """

    NORMAL = 0x0000
    ACK_REACH_QUEUE = 0x0002
    ACK_RECEIVE = 0x4000
    BAD_DESTINATION_QUEUE = 0x8000
    DELETED = 0x8001
    REACH_QUEUE_TIMEOUT = 0x8002
    QUEUE_EXCEEDS_QUOTA = 0x8003
    ACCESS_DENIED = 0x8004
    HOP_COUNT_EXCEEDED = 0x8005
    BAD_SIGNATURE = 0x8006
    BAD_ENCRYPTION = 0x8007
    NOT_TRANSACTIONAL_QUEUE = 0x8009
    NOT_TRANSACTIONAL_MESSAGE = 0x800A
    UNSUPPORTED_CRYPTO_PROVIDER = 0x800B
    QUEUE_DELETED = 0xC000
    QUEUE_PURGED = 0xC001
    RECEIVE_TIMEOUT = 0xC002
    BAD_BODY = 0xC003
    RECEIVE_REJECTED = 0xC004

    @property
    def label(self) -> str:
        """The name in lower case, with dashes, as statistics and the command line write it."""
        return self.name.lower().replace("_", "-")

    @property
    def is_negative(self) -> bool:
        """Whether it says that a message was not delivered, or not received."""
        return self >= MessageClass.BAD_DESTINATION_QUEUE

    @property
    def asked_by(self) -> "Acks":
        """The flag of a sender that asks for it."""
        if self is MessageClass.ACK_REACH_QUEUE:
            return Acks.POSITIVE_ARRIVAL
        if self is MessageClass.ACK_RECEIVE:
            return Acks.POSITIVE_RECEIVE
        if self >= MessageClass.QUEUE_DELETED:
            return Acks.NEGATIVE_RECEIVE
        return Acks.NOT_ACKNOWLEDGE_REACH_QUEUE if self.is_negative else Acks.NONE


class Acks(IntFlag):
    """Which administration messages a sender asks for, by the names of ``System.Messaging.AcknowledgeTypes``.

    Attributes:
        NONE: none.
        POSITIVE_ARRIVAL: when it is in its queue.
        POSITIVE_RECEIVE: when it was received.
        NOT_ACKNOWLEDGE_REACH_QUEUE: when it does not reach its queue.
        FULL_REACH_QUEUE: whether it reaches its queue or not.
        NEGATIVE_RECEIVE: when it was in its queue and is not received.
        NOT_ACKNOWLEDGE_RECEIVE: when it is not received, wherever it ends.
        FULL_RECEIVE: whether it is received or not.
    """

    NONE = 0
    POSITIVE_ARRIVAL = 1
    POSITIVE_RECEIVE = 2
    NOT_ACKNOWLEDGE_REACH_QUEUE = 4
    FULL_REACH_QUEUE = 5
    NEGATIVE_RECEIVE = 8
    NOT_ACKNOWLEDGE_RECEIVE = 12
    FULL_RECEIVE = 14


_MOST = 15
"""All flags together."""


def as_acks(operation: str, value: object) -> Acks:
    """Flags, as flags or as a number. Raises UsageError when they are none."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST:
        raise UsageError(f"{operation}: acks must be a triack.Acks, such as triack.Acks.FULL_RECEIVE, not {value!r}")
    return Acks(value)


_ON_THE_WAY: dict[str, MessageClass] = {
    RejectReason.QUEUE_NOT_FOUND: MessageClass.BAD_DESTINATION_QUEUE,
    RejectReason.BAD_QUEUE_NAME: MessageClass.BAD_DESTINATION_QUEUE,
    RejectReason.NO_ROUTE: MessageClass.BAD_DESTINATION_QUEUE,
    RejectReason.ROUTE_LOOP: MessageClass.BAD_DESTINATION_QUEUE,
    DeadReason.OWN_ADDRESS: MessageClass.BAD_DESTINATION_QUEUE,
    DeadReason.REACH_QUEUE_TIMEOUT: MessageClass.REACH_QUEUE_TIMEOUT,
    DeadReason.RECEIVE_TIMEOUT: MessageClass.REACH_QUEUE_TIMEOUT,
    RejectReason.QUEUE_FULL: MessageClass.QUEUE_EXCEEDS_QUOTA,
    RejectReason.TOO_LARGE: MessageClass.QUEUE_EXCEEDS_QUOTA,
    RejectReason.LARGER_THAN_DISK: MessageClass.QUEUE_EXCEEDS_QUOTA,
    RejectReason.TOO_MANY_QUEUES: MessageClass.QUEUE_EXCEEDS_QUOTA,
    RejectReason.ACCESS_DENIED: MessageClass.ACCESS_DENIED,
    RejectReason.HOP_COUNT_EXCEEDED: MessageClass.HOP_COUNT_EXCEEDED,
}
"""Why a message ended before it was in its queue. All other reasons are DELETED: its node gave it up."""


def class_on_the_way(reason: str) -> MessageClass:
    """The class of the message about another one that ended for this reason before it was in its queue."""
    return _ON_THE_WAY.get(reason, MessageClass.DELETED)


def class_at_queue(reason: str) -> MessageClass:
    """The same of one that ended in its queue, or leased to a reader."""
    if reason == DeadReason.PURGED:
        return MessageClass.QUEUE_PURGED
    return MessageClass.RECEIVE_TIMEOUT if reason == DeadReason.RECEIVE_TIMEOUT else MessageClass.RECEIVE_REJECTED
