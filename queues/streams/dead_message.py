"""One outgoing message on its way to the dead-letter queue: why it was given up, and what its dead letter says."""

from dataclasses import dataclass

from triack.base.names import LEVEL_END, TOPIC_PREFIX
from triack.base.reasons import EXPIRED, DeadReason
from triack.ordering.departing import StreamPacketState
from triack.ordering.outgoing import StreamPacket
from triack.queues.packing import DEAD_SEALED, Properties, Unpacked, unpack_pieces
from triack.queues.streams.outgoing_stream import OutgoingStream

__all__ = ["DeadMessage"]


@dataclass(slots=True)
class DeadMessage:
    """The packets of one message, or the one packet of several, that were given up, and why.

    They wait for their bodies. Until the dead letter exists, the destination may still acknowledge or reject them.
    """

    outgoing: OutgoingStream
    entries: list[StreamPacket]
    reason: str

    @property
    def is_freed(self) -> bool:
        """Whether they were acknowledged after all. The packets of one message are freed together."""
        return self.entries[0].state is StreamPacketState.DONE

    @property
    def is_here(self) -> bool:
        """Whether all bodies are in memory."""
        return all(entry.body is not None for entry in self.entries)

    @property
    def has_expired(self) -> bool:
        """Whether it expired."""
        return self.reason in EXPIRED

    def open(self) -> Unpacked:
        """Unpack the messages. Also set which of the two times ran out: only the packet itself has them."""
        content = unpack_pieces([entry.body or b"" for entry in self.entries])
        if self.has_expired and content.receive_by_ms == self.entries[0].reach_by_ms:
            self.reason = DeadReason.RECEIVE_TIMEOUT
        return content

    def destination_of(self, content: Unpacked) -> str:
        """Where its messages were going; of a topic, its whole name."""
        below = content.topic
        if content.publisher:
            return f"{TOPIC_PREFIX}{below}"
        return f"{self.outgoing.destination}{LEVEL_END}{below}" if below else self.outgoing.destination

    @property
    def properties(self) -> Properties:
        """What a dead letter says. A definite rejection means that nothing was delivered, even after it was given up.

        An earlier process of this node may have sent what it had queued: there is no record of that.
        """
        sends = max(entry.sends for entry in self.entries)
        rejected = self.entries[0].state is StreamPacketState.REJECTED
        # The destination's disk does not say what an earlier process there took of an express stream.
        definite = rejected and (self.outgoing.durable or sends == 1)
        return {
            "dead_reason": self.reason,
            "dead_destination": self.outgoing.destination,
            "dead_attempts": sends,
            "dead_maybe_delivered": (sends > 0 or self._is_recovered) and not definite,
            **({DEAD_SEALED: True} if self.outgoing.sealed else {}),
        }

    @property
    def _is_recovered(self) -> bool:
        return self.entries[0].first_ticket < self.outgoing.recovered
