"""What sequences can be told. Durations are integer nanoseconds; names follow MSMQ's registry values."""

from dataclasses import dataclass

from triack.base.checks import check_numbers
from triack.base.units import MS, SECOND

__all__ = ["OrderSettings"]


@dataclass(frozen=True, slots=True)
class OrderSettings:
    """Settings of every sequence of a node.

    Attributes:
        order_ack_idle_ns: an order ack leaves so long after the last packet of a burst ([MS-MQQB] 3.1.2.7).
        seq_max_ack_delay_ns: and at the latest so long after the first (MSMQ ``SeqMaxAckDelay``).
        order_ack_every: a sender asks for an order ack every so many packets, to keep its own store small.
        max_held_packets: how many out-of-order packets of one sequence a receiver holds.
        seq_resend_13_ns, seq_resend_46_ns, seq_resend_79_ns, seq_resend_10_ns: wait before resends 1-3, 4-6, 7-9 and
            10 or later of what has no order ack (MSMQ ``SeqResend13Time`` and its siblings).
    """

    order_ack_idle_ns: int = 500 * MS
    seq_max_ack_delay_ns: int = 10 * SECOND
    order_ack_every: int = 64
    max_held_packets: int = 4_096
    seq_resend_13_ns: int = 30 * SECOND
    seq_resend_46_ns: int = 300 * SECOND
    seq_resend_79_ns: int = 1_800 * SECOND
    seq_resend_10_ns: int = 21_600 * SECOND

    def __post_init__(self) -> None:
        check_numbers(self, may_be_zero=("order_ack_idle_ns", "seq_max_ack_delay_ns"))
