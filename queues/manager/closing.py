"""Outgoing messages that have not arrived yet, and whether they make progress: for flushing and closing a node."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from triack.base.printable import counted
from triack.queues.stages import STAGES
from triack.queues.streams.outgoing_stream import OutgoingStream

if TYPE_CHECKING:
    from triack.queues.manager.engine import Engine


class Departure:
    """Watches all outgoing messages until they have arrived. ``wake``: called when the engine has something to do."""

    __slots__ = ("_asked", "_engine", "_wake")

    def __init__(self, engine: "Engine", wake: Callable[[], None]) -> None:
        self._engine = engine
        self._wake = wake
        self._asked: dict[OutgoingStream, int] = {}

    def hasten(self) -> bool:
        """Request the outstanding acknowledgements, which would come by themselves, but later.

        Returns whether anything is still waiting or in flight. Messages to a suspended peer, or in a paused queue, do
        not count.
        """
        waiting = [
            outgoing
            for outgoing in self._engine.outbox.streams
            if outgoing.busy and not outgoing.stages.suspended and not outgoing.paused
        ]
        for outgoing in waiting:
            last = outgoing.submitted
            if last > self._asked.get(outgoing, 0):
                self._asked[outgoing] = last
                self._engine.await_stage(outgoing, last - 1, STAGES[outgoing.delivery], _nobody)
                self._wake()
        return bool(waiting)


def _nobody(_reason: str | None) -> None:
    """A waiter that does nothing: waiting serves only to request acks."""


def way_made(engine: "Engine") -> tuple[int, ...]:
    """A value that changes whenever an outgoing packet has made progress."""
    sessions = [conversation.session.stats() for conversation in engine.handshakes.conversations.values()]
    return (
        sum(outgoing.unacknowledged for outgoing in engine.outbox.streams),
        sum(session.is_answered for session in sessions),
        sum(session.acked for session in sessions),
    )


def left_behind(engine: "Engine", *, stored: bool) -> Counter[str]:
    """Number of messages that have not arrived yet, as far as is known, by destination.

    ``stored``: count the messages on the disk; False: those that are only in memory.
    """
    counts: Counter[str] = Counter()
    for outgoing in engine.outbox.streams:
        on_disk = outgoing.messages - outgoing.unqueued if outgoing.durable else 0
        if count := on_disk if stored else outgoing.messages - on_disk:
            counts[outgoing.destination] += count
    return counts


def count_by(messages: Mapping[str, int]) -> str:
    """The number of messages for each destination, as text."""
    return ", ".join(f"{counted(count, 'message')} for {to}" for to, count in messages.items())
