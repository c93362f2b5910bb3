"""Mistakes of subscriptions of one node to topics of another: ``queues/remote/``."""

from functools import partial
from typing import Any

from proof.planted.bug import Bugs
from triack.queues.mailboxes.queued_packet import QueuedPacket
from triack.queues.remote.forwarder import Forwarder
from triack.queues.streams.group_commit import Turn
from triack.tools.chaos.topics import TOPICS_FROM

BUGS = Bugs(first=TOPICS_FROM)

_Done = list[tuple[QueuedPacket, int]]


@BUGS.by_seeds("the cursor of a durable subscription is not in the commit of the outgoing packet", Forwarder, "settle")
def _later(_right: Any, self: Forwarder, done: _Done, turn: Turn) -> None:
    """It is in a commit that begins when that one has returned."""
    turn.waiters.append(partial(_settle, self, done))


def _settle(forwarder: Forwarder, done: _Done, error: Exception | None) -> None:
    if error is None:
        forwarder.subscription.mailbox.acknowledge_many(done)
