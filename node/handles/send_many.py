"""Sending many messages at once: a list in, a list of receipts out."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Unpack

from triack.base.delivery import Delivery
from triack.base.errors import TriackError
from triack.base.printable import counted
from triack.node.handles.receipt import stage_to_wait_for
from triack.node.handles.receipts import Receipts
from triack.node.shell.engine_handle import EngineHandle
from triack.node.shell.outgoing_message import MessageProperties
from triack.queues.stages import Stage, StageName
from triack.queues.streams.outgoing_stream import Row

__all__ = ["Sending"]


class Sending(ABC):
    """The verb of a ``Node`` to send a list."""

    @property
    @abstractmethod
    def _port(self) -> EngineHandle:
        """The node's port. Raises NodeClosed before the start."""

    async def send_many(
        self,
        destination: str,
        bodies: Iterable[bytes],
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        until: Stage | StageName | None = None,
        timeout: float | None = None,
        **properties: Unpack[MessageProperties],
    ) -> Receipts:
        """Accept messages for sending, in order; waits while the outgoing queue is full.

        It is like ``send`` for one after the other, with less work: messages of other senders may come in between. If
        the process dies, the call is cancelled or an error comes while it waits, the beginning of the list stays
        accepted. A note on the error, but not on a cancellation, has the number. ``Transaction.send_many`` sends all of
        the list or nothing.

        Args:
            destination: as for ``send``.
            bodies: at most 4 MiB each. All are checked before the first is accepted.
            delivery: as for ``send``.
            until: as for ``send``: the stage that all of them are to reach.
            timeout: seconds to wait for that, once all are accepted.
            **properties: as for ``send``, the same for all of them; no key, which names one message.

        Returns:
            Their receipts: each wait is for all of them, and ``receipts[i]`` is the receipt of one.

        Raises:
            AddressError, NotLoopback, MessageTooLarge, QueueNotFound, UsageError, QueueFull, NoRoom, WaitTimeout,
                DeliveryFailed, RollbackDetected, NodeClosed, StoreFailed: as for ``send``.
        """
        port = self._port
        stage = stage_to_wait_for(port, until, delivery, timeout)
        prepared = port.prepare_many(destination, bodies, delivery, properties)
        rows: list[Row] = []
        accepted, count = 0, len(prepared.bodies)
        prepared.outgoing.senders += 1
        try:
            while accepted < count:
                if not port.may_go_on(prepared.outgoing):
                    await port.wait_room_for(prepared)
                new = port.accept_some(prepared, accepted)
                accepted += sum(row.messages for row in new)
                rows += new
        except TriackError as error:
            if accepted:
                error.add_note(f"{accepted} of {counted(count, 'message')} were accepted before")
            raise
        finally:
            prepared.outgoing.senders -= 1
        receipts = Receipts(port, prepared.outgoing, rows)
        if stage is not None:
            await receipts.reached(stage, timeout)
        return receipts
