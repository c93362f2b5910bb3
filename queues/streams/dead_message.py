"""One outgoing message that is sent no more, on its way to the dead-letter queue: why, and what its letter says."""

from dataclasses import dataclass

from triack.base.reasons import EXPIRED, DeadReason
from triack.ordering.outgoing import StreamPacket, StreamPacketState
from triack.queues.packing import Properties, Unpacked, unpack_pieces
from triack.queues.streams.outgoing_stream import OutgoingStream

__all__ = ["DeadMessage"]


@dataclass(slots=True)
class DeadMessage:
    """The packets of one message, or the one packet of several, that will be sent no more, and why.

    They wait for their bodies. Until their letter is made, their destination may still free or refuse them.
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
        """Whether time ran out, and nobody is to blame."""
        return self.reason in EXPIRED

    def open(self) -> Unpacked:
        """What they hold. Tells, too, which of its two times ran out: only the packet itself knows."""
        content = unpack_pieces([entry.body or b"" for entry in self.entries])
        if self.has_expired and content.receive_by_ms == self.entries[0].reach_by_ms:
            self.reason = DeadReason.RECEIVE_TIMEOUT
        return content

    @property
    def properties(self) -> Properties:
        """What a dead letter says. A definite rejection says that nothing was delivered, also after it was given up.

        What an earlier life of this node had queued it may have sent: nobody wrote that down.
        """
        sends = max(entry.sends for entry in self.entries)
        rejected = self.entries[0].state is StreamPacketState.REJECTED
        # What an earlier process of the destination took of an express stream, its disk does not say.
        definite = rejected and (self.outgoing.durable or sends == 1)
        return {
            "dead_reason": self.reason,
            "dead_destination": self.outgoing.destination,
            "dead_attempts": sends,
            "dead_maybe_delivered": (sends > 0 or self._is_recovered) and not definite,
        }

    @property
    def _is_recovered(self) -> bool:
        return self.entries[0].first_ticket < self.outgoing.recovered
