"""Every error that Triack raises, as one tree; local misuse is a UsageError, which is also a ValueError."""

from typing import Self

from triack.base.reasons import DropReason

__all__ = [
    "AddressError",
    "BodyLost",
    "ChaosError",
    "ConfigError",
    "ConnectionLost",
    "DeliveryFailed",
    "EnrolmentFailed",
    "GapDetected",
    "HandOverEnded",
    "IdentityError",
    "KeyUnreadable",
    "LargeBody",
    "MessageTooLarge",
    "NoRoom",
    "NodeClosed",
    "NotLoopback",
    "ProtocolError",
    "QueueFull",
    "QueueNotFound",
    "ReplayError",
    "RequestTimeout",
    "RollbackDetected",
    "StateChanged",
    "StoreDamaged",
    "StoreError",
    "StoreFailed",
    "StoreInUse",
    "StoreLost",
    "StoreMoved",
    "SubscriptionBusy",
    "SubscriptionEnded",
    "SubscriptionMismatch",
    "SubscriptionRefused",
    "TooManyKeys",
    "TransactionLost",
    "TransportError",
    "TriackError",
    "UsageError",
    "WaitTimeout",
    "WouldBlock",
]


class TriackError(Exception):
    """The base of every error that Triack raises on purpose."""


class UsageError(TriackError, ValueError):
    """The caller asked for something that cannot be done as asked."""


class AddressError(UsageError):
    """An address or destination that cannot be read."""


class MessageTooLarge(UsageError):
    """A body over the limit of 4 MiB, or of a stream over ``NodeSettings.large.most_bytes``."""


class QueueNotFound(UsageError):
    """A queue that does not exist on the node that was asked."""


class NotLoopback(UsageError):
    """An insecure node was asked to listen, or to send, beyond the loopback interface."""


class KeyUnreadable(UsageError):
    """A text that is no key, or was mistyped. No message of this error repeats the text, which may be a secret."""


class ConfigError(UsageError):
    """Settings of a file, the environment or arguments that cannot be used. The text has one line for each mistake."""

    @property
    def problems(self) -> tuple[str, ...]:
        """Each mistake: the place (file and line, variable or option), the key, the cause, and a similar name."""
        return tuple(str(self).split("\n"))


class SubscriptionBusy(TriackError):
    """A durable subscription that is not shared has a holder already."""


class SubscriptionMismatch(TriackError):
    """A durable subscription of that name has another pattern, or is shared and must not be, or the other way round."""


class SubscriptionEnded(TriackError):
    """A subscription was ended by ``unsubscribe`` while it was read."""


class SubscriptionRefused(TriackError):
    """The node with the topics does not give this node a subscription.

    Attributes:
        reason: why, by the names of docs/reasons.md.
    """

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class NodeClosed(TriackError):
    """A call on a node, consumer or transaction that has already ended."""


class ConnectionLost(TriackError):
    """The process that runs the node ended before it answered a call of a client. The client has connected again.

    Attributes:
        maybe_done: whether the call may have been carried out. A message that was sent with a key may be sent again in
            any case.
    """

    def __init__(self, message: str, *, maybe_done: bool) -> None:
        super().__init__(message)
        self.maybe_done = maybe_done


class TransactionLost(ConnectionLost):
    """The process that runs the node ended during a transaction of a client: nothing of the transaction has happened.

    Run it again, with what it had received: those messages are redelivered.
    """


class LargeBody(UsageError):
    """A message that was sent as a stream has no ``body`` in memory: read it by ``stream``, or ``save`` it."""


class BodyLost(TriackError):
    """The body of a large message is not on this node: it was freed when the message was done, or when it died here."""


class HandOverEnded(TriackError):
    """A reader acknowledges a message that was taken back from it, and is redelivered, perhaps to another reader.

    If the message was received in a transaction, nothing of the transaction happens.
    """


class StateChanged(TriackError):
    """A value that a transaction expected (``Transaction.expect``) has changed: nothing of the transaction happens.

    Another transaction has remembered a value under the same key. Read it again, and try again.
    """


class WouldBlock(TriackError):
    """The outgoing queue is full; try again later or await ``send``."""


class QueueFull(TriackError):
    """A queue of this node has reached its quota and is set to refuse; the message was not accepted."""


class TooManyKeys(TriackError):
    """A node keeps as many keys of messages as it may; the message was not accepted.

    Send it again after the oldest key has run out (``KeySettings.lifetime_s``).
    """


class NoRoom(TriackError):
    """The disk of this node has less room than its reserve; the message was not accepted."""


class WaitTimeout(TriackError, TimeoutError):
    """The time given to a wait ran out; the awaited event may still happen.

    Attributes:
        cause: why it has not happened yet, as far as is known, or empty. The text ends with it.
    """

    def __init__(self, message: str, *, cause: str = "") -> None:
        super().__init__(f"{message}: {cause}" if cause else message)
        self.cause = cause


class RequestTimeout(WaitTimeout):
    """No answer to a request came in time. A later answer is dropped, and counted."""


class DeliveryFailed(TriackError):
    """A message will not be delivered; the dead-letter queue keeps it with the reason.

    Attributes:
        reason: the named reason, such as ``queue-not-found`` or ``reach-queue-timeout``.
        cause: if a message could not leave in time: what was missing, as far as is known. The text ends with it.
    """

    def __init__(self, message: str, *, reason: str, cause: str = "") -> None:
        super().__init__(f"{message}: {cause}" if cause else message)
        self.reason = reason
        self.cause = cause


class ProtocolError(TriackError):
    """The peer sent bytes that no correct node sends.

    Attributes:
        reason: the short name under which the drop is counted, such as ``bad-tag``.
        detail: what else is known, or empty.
    """

    def __init__(self, reason: DropReason, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail


class StoreError(TriackError):
    """The base of the errors of the durable store."""


class StoreInUse(StoreError):
    """Another process has this data directory open."""


class StoreDamaged(StoreError):
    """The store's content differs from what was written."""


class StoreFailed(StoreError):
    """A write or sync of the store failed; nothing after it was acknowledged."""


class StoreMoved(StoreFailed):
    """The files of an open store were deleted, renamed or replaced; the commit that noticed was not acknowledged."""


class StoreLost(StoreFailed):
    """Another process has the store of this node now; the commit that noticed was not acknowledged."""


class IdentityError(TriackError):
    """A key file or trust file is damaged, not private to its owner, or cannot be read or written."""


class EnrolmentFailed(TriackError):
    """An enrolment failed: no node answered, the code ended unused, or the node that came with it cannot be trusted."""


class RollbackDetected(TriackError):
    """The store of this node or of a peer is an older copy of itself, or two processes run on copies of one.

    The two nodes exchange nothing until their processes start again; messages stay queued.

    Attributes:
        peer: id of the other node, 32 hex digits.
        rolled_back: whose store it is: ``own``, ``peer``, or ``unknown`` if only the peer could tell and has not.
    """

    def __init__(self, message: str, *, peer: str, rolled_back: str) -> None:
        super().__init__(message)
        self.peer = peer
        self.rolled_back = rolled_back

    def anew(self, before: str = "") -> Self:
        """The same error for another call to raise, with some words before its text."""
        return type(self)(f"{before}{self}", peer=self.peer, rolled_back=self.rolled_back)


class GapDetected(RollbackDetected):
    """Another node answers for a peer, without the messages that the one before it acknowledged.

    Raised with ``Reconnect(gap="error")``. This node sends nothing there, and messages stay queued, until the node
    before answers again, or this one is started with ``gap="warn"``. ``rolled_back`` is ``peer``.
    """


class TransportError(TriackError):
    """An endpoint could not be opened or used."""


class ReplayError(TriackError):
    """A session log could not be read."""


class ChaosError(TriackError):
    """A chaos run could not be set up."""
