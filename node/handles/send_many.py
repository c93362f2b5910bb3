"""Sending many messages together: a list in, a list of receipts out."""

from collections.abc import Iterable
from typing import Unpack

from triack.base.delivery import Delivery
from triack.base.errors import TriackError
from triack.base.printable import counted
from triack.node.handles.receipt import KeyedReceipts, NodeReceipts, Receipt, Receipts, accept, stage_to_wait_for
from triack.node.shell.engine_handle import EngineHandle, OnPort
from triack.node.shell.outgoing_message import MessageProperties
from triack.node.shell.prepared import PreparedList
from triack.queues.stages import Stage, StageName
from triack.queues.streams.outgoing_stream import Row


class Sending(OnPort):
    """The verb of a ``Node`` to send a list."""

    async def send_many(
        self,
        destination: str,
        bodies: Iterable[bytes],
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        keys: Iterable[str] | None = None,
        each: Iterable[MessageProperties] | None = None,
        until: Stage | StageName | None = None,
        timeout: float | None = None,
        **properties: Unpack[MessageProperties],
    ) -> Receipts:
        """Accept messages for sending, in order; waits while the outgoing queue is full.

        It is like ``send`` for one after the other, with less work: messages of other senders may come in between. If
        the process dies, the call is cancelled or an error comes while it waits, the beginning of the list stays
        accepted. A note on the error, but not on a cancellation, has the number. ``Transaction.send_many`` sends all of
        the list or nothing.

        All bodies are checked before the first is accepted. All that is not said here is as for ``send``, errors too.

        Args:
            destination: as for ``send``.
            bodies: at most 4 MiB each.
            delivery: as for ``send``.
            keys: a key for each body, as ``key`` for ``send``: a message that was accepted with its key before is not
                accepted again, and its receipt is that of the first. After an error, send the whole list again.
            each: the properties of each body, which beat those for all: no ``key``, ``priority`` or ``seal``. Bodies
                with the same object cost little more than bodies without any.
            until: the stage that all of them are to reach.
            timeout: seconds to wait for that, once all are accepted.
            **properties: the same for all of them; no ``key``, which names one message.

        Returns:
            Their receipts: each wait is for all of them, and ``receipts[i]`` is the receipt of one.

        Raises:
            TooManyKeys: the node has no room for all of the new keys; none of the list was accepted.
        """
        port = self._port
        prepared = port.prepare_many(destination, bodies, delivery, properties, keys, each)
        stage = stage_to_wait_for(port, until, delivery, timeout)
        accept_all = _accept_rows if prepared.keys is None else _accept_keyed
        accepted: list[int] = []
        prepared.outgoing.senders += 1
        try:
            receipts = await accept_all(port, prepared, accepted)
        except TriackError as error:
            if accepted:
                of = counted(len(prepared.bodies), "message")
                error.add_note(f"{sum(accepted)} of {of} were accepted before")
            raise
        finally:
            prepared.outgoing.senders -= 1
        if stage is not None:
            await receipts.reached(stage, timeout)
        return receipts


async def _accept_rows(port: EngineHandle, prepared: PreparedList, accepted: list[int]) -> Receipts:
    """Accept a list by the row; ``accepted`` gets the number of messages of each."""
    rows: list[Row] = []
    at = 0
    while at < len(prepared.bodies):
        if not port.may_go_on(prepared.outgoing):
            await port.wait_room_for(prepared)
        new = port.accept_some(prepared, at)
        accepted.append(sum(row.messages for row in new))
        at += accepted[-1]
        rows += new
    return NodeReceipts(port, prepared.outgoing, rows)


async def _accept_keyed(port: EngineHandle, prepared: PreparedList, accepted: list[int]) -> Receipts:
    """The same for a list with keys, of which some messages may have been accepted before."""
    receipts: list[Receipt] = []
    for one in prepared.singly():
        if not port.may_go_on(one[0]):
            await port.wait_room(one)
        receipts.append(accept(port, one))
        accepted.append(1)
    return KeyedReceipts(port, prepared.outgoing, receipts)
