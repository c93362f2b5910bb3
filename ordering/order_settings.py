"""Settings of sequences. Durations are given in seconds; names follow MSMQ's registry values."""

from dataclasses import dataclass

from triack.base.checks import check_settings


@dataclass(frozen=True, slots=True)
class OrderSettings:
    """Settings of every sequence of a node.

    Attributes:
        order_ack_idle_s: an order ack for what this node sends leaves its destination this long after the last packet
            of a burst ([MS-MQQB] 3.1.2.7). Too small: each message gets its own order ack; too large: the sender
            keeps messages for longer.
        seq_max_ack_delay_s: and at the latest this long after the first (MSMQ ``SeqMaxAckDelay``). The destination
            takes the shorter of this and its own, and half of the sender's ``seq_resend_13_s``. Too small: more order
            acks travel; too large: under steady traffic the sender keeps messages for longer.
        order_ack_every: after how many packets a sender asks for an order ack, to keep its own store small.
        max_held_packets: how many out-of-order packets of one sequence a receiver holds.
        seq_resend_13_s, seq_resend_46_s, seq_resend_79_s, seq_resend_10_s: wait before resends 1-3, 4-6, 7-9 and 10 or
            later of packets without an order ack (MSMQ ``SeqResend13Time`` and its siblings). Too small: what has
            arrived is sent again; too large: after a lost order ack the sender keeps messages for longer.
    """

    order_ack_idle_s: float = 0.5
    seq_max_ack_delay_s: float = 10.0
    order_ack_every: int = 64
    max_held_packets: int = 4_096
    seq_resend_13_s: float = 30.0
    seq_resend_46_s: float = 300.0
    seq_resend_79_s: float = 1800.0
    seq_resend_10_s: float = 21600.0

    def __post_init__(self) -> None:
        check_settings(self, may_be_zero=("order_ack_idle_s", "seq_max_ack_delay_s"))
