"""The order acks that a node owes, of all its incoming streams: which are due, which wait, and how they leave.

Promise: what was accepted is acknowledged in the end, however often sessions come and go; and nobody looks at streams
that owe nothing. When the ack of one stream becomes due is its own business (``ordering.order_ack``).
"""

from collections import Counter
from collections.abc import Callable, Iterable

from triack.base.reasons import DropReason
from triack.ordering.wire import encode_order_ack
from triack.queues.deadlines import Deadlines
from triack.queues.peers.control import Control
from triack.queues.peers.link import Conversation
from triack.queues.streams.arrival_records import Record, record_order_ack
from triack.queues.streams.incoming_transfer import IncomingTransfer

__all__ = ["OwedAcks"]


class OwedAcks:
    """Who waits for an order ack of this node.

    Args:
        drops: counts what is dropped, by reason.
        record: writes to the session log.
    """

    __slots__ = ("_deadlines", "_drops", "_due", "_owing", "_record", "_unasked")

    def __init__(self, drops: Counter[DropReason], record: Record) -> None:
        self._drops = drops
        self._record = record
        self._owing: dict[IncomingTransfer, None] = {}
        self._unasked: dict[bytes, dict[IncomingTransfer, None]] = {}
        self._due: dict[IncomingTransfer, None] = {}
        self._deadlines = Deadlines[IncomingTransfer]()

    @property
    def streams(self) -> list[IncomingTransfer]:
        """The streams for which an order ack is owed, now or later."""
        return list(self._owing)

    def owe(self, transfer: IncomingTransfer) -> None:
        """Something has happened for which an order ack is owed, now or later."""
        self._owing[transfer] = None
        if not transfer.sequence.ack.due:
            self._unasked.setdefault(transfer.origin, {})[transfer] = None
        if transfer.owes_ack:
            self._due[transfer] = None
        self._deadlines.set(transfer, transfer.sequence.ack.deadline_ns)

    def handle_request(self, peer_id: bytes) -> list[IncomingTransfer]:
        """A peer wants every order ack that is owed to it. To ask again and again costs nothing.

        Returns:
            The streams whose order ack nobody had asked for, and those whose order ack is about to leave.
        """
        leaving = [transfer for transfer in self._due if transfer.origin == peer_id]
        owed = [transfer for transfer in self._unasked.pop(peer_id, ()) if transfer in self._owing]
        for transfer in owed:
            self._request(transfer)
        return owed + leaving

    def handle_session_opened(self, transfers: Iterable[IncomingTransfer]) -> None:
        """A session with the origin of these streams is open: all that can be said of them is said once more."""
        for transfer in transfers:
            # One from before a restart has no way back until a packet shows where its origin is.
            if transfer.ordered and transfer.heard and transfer.sequence.position[1]:
                self._request(transfer)

    def forget(self, transfer: IncomingTransfer) -> None:
        """A stream has ended: its origin has heard all that there was to say."""
        for owing in (self._owing, self._due, self._unasked.get(transfer.origin, {})):
            owing.pop(transfer, None)
        self._deadlines.set(transfer, None)

    def request_all(self) -> None:
        """Owed order acks leave now: the node is about to close."""
        for transfer in self._owing:
            self._request(transfer)

    def _request(self, transfer: IncomingTransfer) -> None:
        transfer.sequence.ack.handle_request()
        self.owe(transfer)

    def handle_timer(self, now_ns: int) -> None:
        """Let order acks become due whose wait has ended."""
        for transfer in self._deadlines.poll_due(now_ns):
            transfer.sequence.ack.handle_timer(now_ns)
            self.owe(transfer)

    def next_deadline(self) -> int | None:
        """When the next one becomes due, or None."""
        return self._deadlines.earliest()

    def send(self, route: Callable[[IncomingTransfer], Conversation | None], now_ns: int) -> None:
        """Hand every due order ack to a conversation with its origin's side.

        Without one it waits until a session opens, which asks for all of them.
        """
        due, self._due = self._due, {}
        for transfer in due:
            conversation = route(transfer) if transfer.owes_ack else None
            if conversation is None:
                continue
            self._send(transfer, conversation, now_ns)
            sequence = transfer.sequence
            # What is accepted but not committed yet is owed still, and said when that commit has returned.
            if sequence.committed == sequence.position:
                sequence.ack.handle_sent()
                del self._owing[transfer]

    def _send(self, transfer: IncomingTransfer, conversation: Conversation, now_ns: int) -> None:
        sequence, number = transfer.acked = transfer.claimable
        control = Control(encode_order_ack(transfer.origin, transfer.lane, sequence, number))
        if not conversation.put_control((transfer.lane, 0), control):
            self._drops[DropReason.CONTROL_OVERFLOW] += 1
        record_order_ack(self._record, transfer, conversation.peer_id, now_ns)
