"""What a session can be told. Durations are integer nanoseconds; names are MSMQ's where MSMQ has one."""

from dataclasses import dataclass

from triack.base.checks import check_datagram, check_numbers
from triack.base.errors import UsageError
from triack.base.units import MS, SECOND

__all__ = ["WINDOW_MAX", "AckTrigger", "SessionSettings"]

WINDOW_MAX = 0xFFFF
"""What the window field of an ack holds; MSMQ's has the same size ([MS-MQQB] 2.2.2.1)."""


@dataclass(frozen=True, slots=True)
class AckTrigger:
    """When a receiver owes a session ack. The first condition that holds sends it.

    MSMQ's policy is ``AckTrigger.half_window(64)``; a third of the window or one second is
    ``AckTrigger(count=window // 3, delay_ns=SECOND)``; a byte count alone is ``AckTrigger(count=None, bytes_=...)``.

    Attributes:
        count: packets received and not yet acknowledged; None for no such limit.
        bytes_: the same in bytes.
        delay_ns: time since the first packet not yet acknowledged (MSMQ ``IdleAckDelay``).
        piggyback: ride on any packet that goes the other way.
        on_gap: at once when a packet is missing.
        on_duplicate: at once when a packet arrives twice: its sender has not seen the ack.
        on_request: at once when the packet asks.
    """

    count: int | None = 32
    bytes_: int | None = None
    delay_ns: int = 500 * MS
    piggyback: bool = True
    on_gap: bool = True
    on_duplicate: bool = True
    on_request: bool = True

    def __post_init__(self) -> None:
        check_numbers(self, may_be_zero=("delay_ns",))

    @classmethod
    def half_window(cls, window: int, delay_ns: int = 500 * MS) -> "AckTrigger":
        """MSMQ's rule: half the window, or the idle delay."""
        return cls(count=max(1, window // 2), delay_ns=delay_ns)


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Settings of every session of a node.

    Attributes:
        max_unacked_packet: window in packets (MSMQ ``MaxUnackedPacket``): at that many unacknowledged the sender stops.
        idle_ack_delay_ns: longest wait of a receiver before it acknowledges (MSMQ ``IdleAckDelay``).
        ack_trigger: the whole ack policy; None for half the window and ``idle_ack_delay_ns``.
        ack_timeout_ns: silence after which a session with unacknowledged packets closes (MSMQ ``AckTimeout``);
            None adapts it to the round trip, between the two limits below.
        ack_timeout_min_ns, ack_timeout_max_ns: limits of the adaptive ack timeout.
        store_ack_timeout_ns: wait for a store ack before the session closes (MSMQ ``StoreAckTimeout``); None adapts.
        store_ack_timeout_min_ns: lower limit of the adaptive store ack timeout.
        connect_timeout_ns: how long a connection may take (MSMQ: session initialization timer).
        cleanup_interval_ns: a session without a packet for so long closes (MSMQ ``CleanupInterval``).
        drain_timeout_ns: how long a draining session waits for its last acks.
        max_datagram_bytes: largest datagram to send, headers and tag included.
    """

    max_unacked_packet: int = 64
    idle_ack_delay_ns: int = 500 * MS
    ack_trigger: AckTrigger | None = None
    ack_timeout_ns: int | None = None
    ack_timeout_min_ns: int = 2 * SECOND
    ack_timeout_max_ns: int = 120 * SECOND
    store_ack_timeout_ns: int | None = None
    store_ack_timeout_min_ns: int = 10 * SECOND
    connect_timeout_ns: int = 10 * SECOND
    cleanup_interval_ns: int = 300 * SECOND
    drain_timeout_ns: int = 5 * SECOND
    max_datagram_bytes: int = 1_200

    def __post_init__(self) -> None:
        check_numbers(self, may_be_zero=("idle_ack_delay_ns", "drain_timeout_ns"))
        if self.max_unacked_packet > WINDOW_MAX:
            raise UsageError(f"SessionSettings: max_unacked_packet must be 1 to 65535, not {self.max_unacked_packet}")
        check_datagram("SessionSettings: max_datagram_bytes", self.max_datagram_bytes)
        if self.ack_timeout_min_ns > self.ack_timeout_max_ns:
            raise UsageError(
                f"SessionSettings: ack_timeout_min_ns is {self.ack_timeout_min_ns}, more than ack_timeout_max_ns, "
                f"{self.ack_timeout_max_ns}"
            )

    @property
    def trigger(self) -> AckTrigger:
        """The ack policy in force."""
        return self.ack_trigger or AckTrigger.half_window(self.max_unacked_packet, self.idle_ack_delay_ns)
