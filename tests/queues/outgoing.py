"""An outgoing queue by itself."""

from triack.base.commit import OutgoingStreamRow
from triack.base.delivery import Delivery, default_priority
from triack.ordering.order_settings import OrderSettings
from triack.queues.streams.outgoing_stream import OutgoingStream


def make_outgoing(
    content_bytes: int = 500,
    next_number: int = 1,
    delivery: Delivery = Delivery.TRANSACTIONAL,
    peer: str = "udp://b:1",
    queue: str = "q",
    priority: int | None = None,
) -> OutgoingStream:
    priority = default_priority(delivery) if priority is None else priority
    row = OutgoingStreamRow(1, peer, queue, delivery, 1, next_number, priority=priority)
    outgoing = OutgoingStream(bytes(16), row, content_bytes=content_bytes, settings=OrderSettings())
    outgoing.number(100, 1_000)
    return outgoing
