"""The settings of sessions. Durations are given in seconds; names are MSMQ's where MSMQ has one."""

from dataclasses import dataclass, field
from typing import Literal

from triack.base.ack_trigger import AckTrigger
from triack.base.checks import check_datagram, check_kind, check_settings
from triack.base.errors import UsageError

CONGESTION = ("bbr", "newreno")
"""The congestion controllers: ``session.bbr``, and ``session.congestion``."""

WINDOW_MAX = 0xFFFF
"""The maximum of the window field of an ack; MSMQ's has the same size ([MS-MQQB] 2.2.2.1)."""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Settings of every session of a node.

    The initiator of a session states when acks are due, and both ends keep to that (``session.policy``).

    Attributes:
        max_unacked_packet: window in packets (MSMQ ``MaxUnackedPacket``): at that many unacknowledged the sender stops.
            ``"auto"`` lets it follow the path: it begins with 16, doubles in a round trip in which the sender is
            limited by it, and halves when little of it is used (``session.auto_window``). Too small: a long link
            carries one window in each round trip; too large: a lost session has more to send again.
        auto_window_max: the largest window in packets for ``"auto"``. A node lowers it to what it has room for
            (``Limits.peer_memory_bytes``).
        ack_trigger: when session acks leave; its ``delay_s`` is MSMQ's ``IdleAckDelay``.
        store_ack_trigger: when store acks leave; None for the same as session acks.
        ack_timeout_s: silence after which a session with unacknowledged packets closes (MSMQ ``AckTimeout``); None
            adapts it to the round trip, between ``ack_timeout_min_s`` and ``ack_timeout_max_s``, 2 and 120 unless a
            policy says otherwise. If that is shorter than a round trip, the next session waits twice as long. Too
            small: a slow path ends sessions, and what was under way is sent again; too large: a dead peer is noticed
            late.
        ack_timeout_min_s, ack_timeout_max_s: limits of the adaptive ack timeout.
        direct_ack_timeouts: ack timeouts of silence granted to a peer that has no name and is called by its address
            (MSMQ: 2 for direct names, ``QosCleanupIntervalMultiplier``, [MS-MQQB] 3.1.2.4).
        store_ack_timeout_s: wait for a store ack before the session closes (MSMQ ``StoreAckTimeout``); None adapts.
            Each session that it ends doubles it for the next one, up to ``ack_timeout_max_s``, until something is
            stored. Too small: a slow disk ends sessions; too large: a disk that hangs is noticed late.
        store_ack_timeout_min_s: lower limit of the adaptive store ack timeout; doubled in the same way.
        connect_timeout_s: how long a connection may take (MSMQ: session initialization timer).
        cleanup_interval_s: a session closes when it had no packet for this time (MSMQ ``CleanupInterval``). It must
            exceed a round trip: while the next packet of a peer is in flight, the peer is silent. Too small: a quiet
            peer opens a session for each message; too large: idle sessions take memory, and their pings traffic.
        drain_timeout_s: how long a draining session waits for its last acks.
        max_datagram_bytes: largest datagram to send, headers and tag included, where the path carries it: UDP begins
            with 1,200 bytes and probes for more (``session.path_mtu``). With 1,200 or less nothing is probed. Too
            small: headers and calls of the system cost more; too large: a lost datagram takes more packets with it.
        congestion: the congestion control for UDP at this end: ``"bbr"`` measures what the path delivers, and
            tolerates losses by chance; ``"newreno"`` takes every loss for congestion.
    """

    max_unacked_packet: int | Literal["auto"] = 64
    auto_window_max: int = WINDOW_MAX
    ack_trigger: AckTrigger = field(default_factory=AckTrigger)
    store_ack_trigger: AckTrigger | None = None
    ack_timeout_s: float | None = None
    ack_timeout_min_s: float = 2.0
    ack_timeout_max_s: float = 120.0
    direct_ack_timeouts: int = 1
    store_ack_timeout_s: float | None = None
    store_ack_timeout_min_s: float = 10.0
    connect_timeout_s: float = 10.0
    cleanup_interval_s: float = 300.0
    drain_timeout_s: float = 5.0
    max_datagram_bytes: int = 32_000
    congestion: str = "bbr"

    def __post_init__(self) -> None:
        check_settings(self, may_be_zero=("drain_timeout_s",))
        self._check_window()
        check_datagram("SessionSettings: max_datagram_bytes", self.max_datagram_bytes)
        if self.congestion not in CONGESTION:
            raise UsageError(
                f"SessionSettings: congestion must be one of {', '.join(CONGESTION)}, not {self.congestion!r}"
            )
        if self.store_ack_trigger is not None:
            check_kind("SessionSettings: store_ack_trigger", self.store_ack_trigger, AckTrigger)
        if self.ack_timeout_min_s > self.ack_timeout_max_s:
            raise UsageError(
                f"SessionSettings: ack_timeout_min_s is {self.ack_timeout_min_s}, more than ack_timeout_max_s, "
                f"{self.ack_timeout_max_s}"
            )

    def _check_window(self) -> None:
        window = self.max_unacked_packet
        is_whole = isinstance(window, int) and not isinstance(window, bool)
        if window != "auto" and not (is_whole and 1 <= window <= WINDOW_MAX):
            raise UsageError(f'SessionSettings: max_unacked_packet must be 1 to 65535 or "auto", not {window!r}')
        if self.auto_window_max > WINDOW_MAX:
            raise UsageError(f"SessionSettings: auto_window_max must be 1 to 65535, not {self.auto_window_max}")

    @property
    def largest_window(self) -> int:
        """The most packets that a peer may have in flight, as this end states in its hello."""
        return self.auto_window_max if self.max_unacked_packet == "auto" else self.max_unacked_packet

    @property
    def longest_silence_s(self) -> float:
        """For how long a peer that owes something may be silent at most, whatever the round trip and its name are."""
        return self.direct_ack_timeouts * max(self.ack_timeout_s or 0.0, self.ack_timeout_max_s)

    @property
    def store_trigger(self) -> AckTrigger:
        """When store acks leave."""
        return self.store_ack_trigger or self.ack_trigger
