"""An outgoing queue by itself."""

from triack.base.delivery import Delivery
from triack.base.names import StreamId
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
    outgoing = OutgoingStream(
        StreamId(bytes(16), 1),
        peer,
        queue,
        delivery,
        sequence=1,
        next_number=next_number,
        content_bytes=content_bytes,
        settings=OrderSettings(),
        priority=priority,
    )
    outgoing.number(100, 1_000)
    return outgoing
