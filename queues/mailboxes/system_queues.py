"""The system queues of a node: who may send there, and their quotas.

Names that begin with ``$`` are reserved for them, like ``system$`` for those of MSMQ.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from triack.queues.node_settings import Journal, Limits, Quota

PREFIX: Final = "$"
"""No user's queue begins with it."""
DEAD_LETTER_QUEUE: Final = "dead-letter"
"""Messages that were rejected, expired, purged, or failed too often. Without the prefix: it is the oldest system queue,
and users' tools have its name."""
REPLY_QUEUE: Final = f"{PREFIX}replies"
"""A reply that answers no request is dropped there."""
JOURNAL_PREFIX: Final = f"{PREFIX}journal."
"""Before the name of a queue: its journal."""
SUBSCRIPTIONS_QUEUE: Final = f"{PREFIX}subscriptions"
"""Requests and answers between nodes about subscriptions of one to topics of the other. It takes only those of nodes
that may subscribe here, or at which this node subscribes."""
SUBSCRIPTION_PREFIX: Final = f"{PREFIX}sub."
"""Before the name of a subscription of this node to topics of another one: the queue that it fills."""
LARGE_PREFIX: Final = f"{PREFIX}large."
"""Before the name of a queue: the queue in which the parts of large messages for it arrive."""
_LARGE_PREFIX_LENGTH: Final = len(LARGE_PREFIX)
SENT_JOURNAL: Final = f"{PREFIX}journal"
"""The journal of what this node has sent; MSMQ calls it the computer's journal."""
DEAD_LETTER_STREAM: Final = 0
"""No stream: dead letters are numbered by their ordinals at their origins."""


class SystemQueue(NamedTuple):
    """One row of the table.

    Attributes:
        stands: whether it exists during the whole life of a node.
        is_apart: whether its messages count only for its own quota.
        gives_up: whether a message of it that fails too often goes to the dead-letter queue.
        overflow: addition to the operator's event when it is over its quota.
        takes_from_peers: whether peers may send there at all.
        why_no_quota: where its limits are, for an operator who would set a quota.
    """

    name: str
    quota: Callable[[Limits], Quota]
    why_no_quota: str
    stands: bool = False
    is_apart: bool = False
    gives_up: bool = False
    overflow: Callable[[Limits], str] = lambda _: ""
    in_arrival_order: bool = False
    takes_from_peers: bool = False


def _letters_overflow(limits: Limits) -> str:
    which = "new letters are" if limits.dead_letters.when_full == "keep" else "the oldest letters are"
    return f": {which} lost until somebody reads them"


REQUESTS_MAX: Final = 10_000
"""Requests that wait. They are read as they come, so this bounds what a commit holds."""
REQUESTS_BYTES: Final = 8 * 1024 * 1024
"""Their bytes."""


_TABLE = (
    SystemQueue(
        DEAD_LETTER_QUEUE,
        stands=True,
        is_apart=True,
        quota=lambda limits: Quota(limits.dead_letters.messages, limits.dead_letters.size_bytes),
        overflow=_letters_overflow,
        why_no_quota="its limits are those of limits.dead_letters, as it holds no sender",
        in_arrival_order=True,
    ),
    SystemQueue(
        REPLY_QUEUE,
        takes_from_peers=True,
        gives_up=True,
        quota=lambda limits: limits.quota_of(REPLY_QUEUE),
        why_no_quota=f"its limits are those of limits.queue_quota of {REPLY_QUEUE}",
    ),
    SystemQueue(
        SUBSCRIPTIONS_QUEUE,
        takes_from_peers=True,
        is_apart=True,
        gives_up=True,
        quota=lambda _: Quota(REQUESTS_MAX, REQUESTS_BYTES, "hold"),
        why_no_quota="its limits are fixed",
        in_arrival_order=True,
    ),
)
SYSTEM_QUEUES: Final = {queue.name: queue for queue in _TABLE}
STANDING_QUEUES: Final = tuple(queue.name for queue in _TABLE if queue.stands)
"""The system queues that each node has from its start."""


def system_queue(name: str) -> SystemQueue | None:
    """The row of a system queue; None for any other name."""
    if not name.startswith(PREFIX):
        return SYSTEM_QUEUES.get(name)
    if name.startswith(SUBSCRIPTION_PREFIX):
        return _subscribed(name)
    if name.startswith(LARGE_PREFIX):
        return _large(name)
    return _journal(name) if is_journal(name) else SYSTEM_QUEUES.get(name)


def large_queue(queue: str) -> str:
    """The name of the queue in which the parts of large messages for a queue arrive."""
    return LARGE_PREFIX + queue


def large_target(name: str) -> str:
    """The queue of the messages whose parts arrive in a queue; empty if that is for no parts."""
    return name.removeprefix(LARGE_PREFIX) if name.startswith(LARGE_PREFIX) else ""


def counted_in(queue: str, messages: int) -> int:
    """The number of messages in packets for a queue, for the session log: parts of large messages are none."""
    return 0 if queue[:_LARGE_PREFIX_LENGTH] == LARGE_PREFIX else messages


def _large(name: str) -> SystemQueue:
    queue = large_target(name)
    return SystemQueue(
        name,
        takes_from_peers=True,
        quota=lambda limits: limits.quota_of(queue),
        why_no_quota=f"its limits are those of {queue}",
    )


def journal_of(queue: str) -> str:
    """The name of the journal of a queue."""
    return JOURNAL_PREFIX + queue


def owner_of(journal: str) -> str:
    """The queue whose journal that is; empty for the journal of what was sent, and for any other queue."""
    return journal.removeprefix(JOURNAL_PREFIX) if journal.startswith(JOURNAL_PREFIX) else ""


def journal_limits(journal: str, limits: Limits) -> Journal:
    """The limits of a journal."""
    return limits.queue_journal.get(owner_of(journal), limits.journal)


def is_journal(name: str) -> bool:
    """Whether a queue is a journal."""
    return name == SENT_JOURNAL or name.startswith(JOURNAL_PREFIX)


def awaits_reader(name: str) -> bool:
    """Whether messages of a queue wait for a reader, as dead letters and the copies in journals do not."""
    return name != DEAD_LETTER_QUEUE and not is_journal(name)


def _journal(name: str) -> SystemQueue:
    return SystemQueue(
        name,
        is_apart=True,
        quota=lambda limits: Quota((its := journal_limits(name, limits)).messages, its.size_bytes),
        why_no_quota="its limits are those of limits.journal and of limits.queue_journal",
        in_arrival_order=True,
    )


def subscribed_queue(subscription: str) -> str:
    """The name of the queue of a subscription of this node to topics of another one."""
    return SUBSCRIPTION_PREFIX + subscription


def is_subscribed(name: str) -> bool:
    """Whether a queue is that of a subscription of this node to topics of another one."""
    return name.startswith(SUBSCRIPTION_PREFIX)


def _subscribed(name: str) -> SystemQueue:
    return SystemQueue(
        name,
        takes_from_peers=True,
        gives_up=True,
        quota=lambda limits: limits.quota_of(name),
        why_no_quota="its limits are those of its subscription (max_unacked)",
    )


def is_reserved(name: str) -> bool:
    """Whether a name is reserved for the node itself."""
    return name in SYSTEM_QUEUES or name.startswith(PREFIX)
