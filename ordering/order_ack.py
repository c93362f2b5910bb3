"""The receiving half of the order acknowledgement.

It decides when to tell the origin how far its sequence is accepted and on disk.

Promise: an order ack leaves ``order_ack_idle`` after the last packet of a burst, at the latest ``seq_max_ack_delay``
after the first ([MS-MQQB] 3.1.5.8.6, 3.1.6.9), and at once when asked (``base.ack_debt``); it never covers more than
the committed position, which the caller supplies.
"""

from triack.base.ack_debt import AckDebt
from triack.base.ack_trigger import AckTerms, shared
from triack.base.units import in_ns
from triack.ordering.order_settings import OrderSettings

__all__ = ["OrderAck"]


class OrderAck(AckDebt):
    """The order ack that is owed to the origin of one incoming sequence."""

    __slots__ = ()

    def __init__(self, settings: OrderSettings) -> None:
        delay_ns, idle_ns = in_ns(settings.seq_max_ack_delay_s), in_ns(settings.order_ack_idle_s)
        super().__init__(shared(AckTerms(count=None, bytes_=None, delay_ns=delay_ns, idle_ns=idle_ns)))

    def handle_packet(self, now_ns: int, *, ack_requested: bool, packets: int = 1) -> None:
        """One or several packets of the sequence arrived, with any outcome."""
        self.add(packets, 0, now_ns, ack_requested=ack_requested)
