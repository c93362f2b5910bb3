"""What a session can be told. Durations are given in seconds; names are MSMQ's where MSMQ has one."""

from dataclasses import dataclass, field

from triack.base.checks import check_datagram, check_settings
from triack.base.errors import UsageError

__all__ = ["WINDOW_MAX", "AckTrigger", "SessionSettings"]

WINDOW_MAX = 0xFFFF
"""What the window field of an ack holds; MSMQ's has the same size ([MS-MQQB] 2.2.2.1)."""


@dataclass(frozen=True, slots=True)
class AckTrigger:
    """When a receiver owes a session ack. The first condition that holds sends it.

    MSMQ's policy is ``AckTrigger.half_window(64)``; a third of the window or one second is
    ``AckTrigger(count=window // 3, delay_s=1.0)``; a byte count alone is ``AckTrigger(count=None, bytes_=...)``.

    Attributes:
        count: packets received and not yet acknowledged; None for no such limit.
        bytes_: the same in bytes.
        delay_s: time since the first packet not yet acknowledged (MSMQ ``IdleAckDelay``).
        piggyback: ride on any packet that goes the other way.
        on_gap: at once when a packet is missing.
        on_duplicate: at once when a packet arrives twice: its sender has not seen the ack.
        on_request: at once when the packet asks.
    """

    count: int | None = 32
    bytes_: int | None = None
    delay_s: float = 0.5
    piggyback: bool = True
    on_gap: bool = True
    on_duplicate: bool = True
    on_request: bool = True
    delay_ns: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_settings(self, may_be_zero=("delay_s",))

    @classmethod
    def half_window(cls, window: int, delay_s: float = 0.5) -> "AckTrigger":
        """MSMQ's rule: half the window, or the idle delay."""
        return cls(count=max(1, window // 2), delay_s=delay_s)


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Settings of every session of a node.

    Attributes:
        max_unacked_packet: window in packets (MSMQ ``MaxUnackedPacket``): at that many unacknowledged the sender stops.
        idle_ack_delay_s: longest wait of a receiver before it acknowledges (MSMQ ``IdleAckDelay``).
        ack_trigger: the whole ack policy; None for half the window and ``idle_ack_delay_s``.
        ack_timeout_s: silence after which a session with unacknowledged packets closes (MSMQ ``AckTimeout``);
            None adapts it to the round trip, between the two limits below.
        ack_timeout_min_s, ack_timeout_max_s: limits of the adaptive ack timeout.
        store_ack_timeout_s: wait for a store ack before the session closes (MSMQ ``StoreAckTimeout``); None adapts.
        store_ack_timeout_min_s: lower limit of the adaptive store ack timeout.
        connect_timeout_s: how long a connection may take (MSMQ: session initialization timer).
        cleanup_interval_s: a session without a packet for so long closes (MSMQ ``CleanupInterval``).
        drain_timeout_s: how long a draining session waits for its last acks.
        max_datagram_bytes: largest datagram to send, headers and tag included.
    """

    max_unacked_packet: int = 64
    idle_ack_delay_s: float = 0.5
    ack_trigger: AckTrigger | None = None
    ack_timeout_s: float | None = None
    ack_timeout_min_s: float = 2.0
    ack_timeout_max_s: float = 120.0
    store_ack_timeout_s: float | None = None
    store_ack_timeout_min_s: float = 10.0
    connect_timeout_s: float = 10.0
    cleanup_interval_s: float = 300.0
    drain_timeout_s: float = 5.0
    max_datagram_bytes: int = 1_200
    ack_timeout_ns: int | None = field(init=False, repr=False, compare=False)
    ack_timeout_min_ns: int = field(init=False, repr=False, compare=False)
    ack_timeout_max_ns: int = field(init=False, repr=False, compare=False)
    store_ack_timeout_ns: int | None = field(init=False, repr=False, compare=False)
    store_ack_timeout_min_ns: int = field(init=False, repr=False, compare=False)
    connect_timeout_ns: int = field(init=False, repr=False, compare=False)
    cleanup_interval_ns: int = field(init=False, repr=False, compare=False)
    drain_timeout_ns: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_settings(self, may_be_zero=("idle_ack_delay_s", "drain_timeout_s"))
        if self.max_unacked_packet > WINDOW_MAX:
            raise UsageError(f"SessionSettings: max_unacked_packet must be 1 to 65535, not {self.max_unacked_packet}")
        check_datagram("SessionSettings: max_datagram_bytes", self.max_datagram_bytes)
        if self.ack_timeout_min_ns > self.ack_timeout_max_ns:
            raise UsageError(
                f"SessionSettings: ack_timeout_min_s is {self.ack_timeout_min_s}, more than ack_timeout_max_s, "
                f"{self.ack_timeout_max_s}"
            )

    @property
    def trigger(self) -> AckTrigger:
        """The ack policy in force."""
        return self.ack_trigger or AckTrigger.half_window(self.max_unacked_packet, self.idle_ack_delay_s)
