"""The policy that two ends agree on when a session opens: the window, and when each acknowledgement is due.

The two ends are configured apart, so no check of settings can keep them from contradicting each other. The initiator
states its policy in the connect; the acceptor bounds it by its own, and echoes the policy in force. MSMQ does the same
with ``RecoverableAckTimeout`` and ``AckTimeout`` ([MS-MQQB] 2.2.2.1, 3.1.5.4.1), and lets no receiver delay an ack for
longer than half of the timeout (3.1.2.5). Unlike there, each end keeps its own timeouts, since only it knows how
patient it must be: they bound the ack delays of both ends.

On the wire, after the other fields of a hello, all big-endian:

    window u32, four timeouts u64 in ns, session ack, store ack: each of
    share u16 / u16, count u32, bytes u64, delay u64, idle u64, longest delay u64 in ns, round trips u32 in thousandths,
    piggyback u16 in thousandths, flags u8
"""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from struct import Struct

from triack.base.ack_trigger import AckTrigger, capped, longest_delay_ns
from triack.base.errors import ProtocolError, UsageError
from triack.base.reasons import DropReason
from triack.base.units import SECOND, in_ns
from triack.session.protocol.settings import WINDOW_MAX, SessionSettings

TIMEOUT_PROBES = 8
"""The adaptive ack timeout in probe times, and the probes that fit into it."""
_HEAD = Struct("!IQQQQ")
_TRIGGER = Struct("!HHIQQQQIHB")
POLICY_BYTES = _HEAD.size + 2 * _TRIGGER.size
"""The bytes of a policy in a hello."""
_THOUSAND = 1_000
"""Shares and factors travel as whole thousandths."""
_COUNT_MAX = 0xFFFFFFFF
"""More packets than any window has."""
_KEPT = 256
"""Policies that sessions share: there are few, and a thousand sessions with separate ones take half a megabyte."""
_GAP, _DUPLICATE, _REQUEST, _IDLE, _PIGGYBACK, _RTTS = 1, 2, 4, 8, 16, 32


@dataclass(frozen=True, slots=True)
class Policy:
    """The policy of a session, as one end has it.

    Attributes:
        window: packets that may be unacknowledged in each direction.
        ack_timeout_min_ns, ack_timeout_max_ns: between these this end gives up waiting for a sign of life.
        store_ack_timeout_min_ns, store_ack_timeout_max_ns: the same for store acks.
    """

    window: int
    session_ack: AckTrigger
    store_ack: AckTrigger
    ack_timeout_min_ns: int
    ack_timeout_max_ns: int
    store_ack_timeout_min_ns: int
    store_ack_timeout_max_ns: int
    _ack_delay_ns: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_ack_delay_ns", longest_delay_ns(self.session_ack))

    @classmethod
    def of(cls, settings: SessionSettings) -> "Policy":
        """The policy that an end with these settings states."""
        return _of(settings)

    @property
    def reckons_by_rtt(self) -> bool:
        """Whether a delay depends on the round trip, which both ends must then know alike."""
        return self.session_ack.delay_rtts is not None or self.store_ack.delay_rtts is not None

    def bounded(self, other: "Policy") -> "Policy":
        """This policy bounded by another one: by its window, and by half of the timeouts of both."""
        ack_ns = min(self.ack_timeout_min_ns, other.ack_timeout_min_ns) // 2
        store_ns = min(self.store_ack_timeout_min_ns, other.store_ack_timeout_min_ns) // 2
        return replace(
            self,
            window=min(self.window, other.window),
            session_ack=capped(self.session_ack, ack_ns),
            store_ack=capped(self.store_ack, store_ns),
        )

    def agreed(self, stated: "Policy") -> "Policy":
        """The policy in force at an end with this one, when the initiator states or the acceptor echoes ``stated``."""
        in_force = stated.bounded(self)
        return _shared(
            replace(self, window=in_force.window, session_ack=in_force.session_ack, store_ack=in_force.store_ack)
        )

    def ack_timeout_ns(self, probe_ns: int) -> int:
        """How long a peer that should have acknowledged may be silent, by the probe time."""
        adaptive_ns = TIMEOUT_PROBES * probe_ns + self._ack_delay_ns
        if adaptive_ns < self.ack_timeout_min_ns:
            adaptive_ns = self.ack_timeout_min_ns
        return adaptive_ns if adaptive_ns < self.ack_timeout_max_ns else self.ack_timeout_max_ns

    def encode(self) -> bytes:
        """The policy as a part of a hello."""
        head = _HEAD.pack(
            self.window,
            self.ack_timeout_min_ns,
            self.ack_timeout_max_ns,
            self.store_ack_timeout_min_ns,
            self.store_ack_timeout_max_ns,
        )
        return head + _encode_trigger(self.session_ack) + _encode_trigger(self.store_ack)

    @classmethod
    def decode(cls, data: bytes) -> "Policy":
        """Read a policy of ``POLICY_BYTES``. Raises ProtocolError ``bad-hello``."""
        window, *timeouts_ns = _HEAD.unpack_from(data)
        if not 1 <= window <= WINDOW_MAX or not all(timeouts_ns):
            raise ProtocolError(DropReason.BAD_HELLO, "a window or a timeout out of range")
        try:
            session_ack = _decode_trigger(data, _HEAD.size)
            store_ack = _decode_trigger(data, _HEAD.size + _TRIGGER.size)
        except (UsageError, ZeroDivisionError) as cause:
            raise ProtocolError(DropReason.BAD_HELLO, str(cause)) from cause
        policy = cls(window, session_ack, store_ack, *timeouts_ns)
        if policy.encode() != data:
            raise ProtocolError(DropReason.BAD_HELLO, "a policy that nobody writes like that")
        return _shared(policy)


@lru_cache(maxsize=_KEPT)
def _of(settings: SessionSettings) -> Policy:
    """See ``Policy.of``; each call to a peer that is away asks for it."""
    ack_s, store_s = settings.ack_timeout_s, settings.store_ack_timeout_s
    most_ns = in_ns(settings.ack_timeout_max_s)
    ack_ns = None if ack_s is None else in_ns(ack_s)
    store_ns = None if store_s is None else in_ns(store_s)
    store_min_ns = in_ns(settings.store_ack_timeout_min_s)
    stated = Policy(
        window=settings.largest_window,
        session_ack=settings.ack_trigger,
        store_ack=settings.store_trigger,
        ack_timeout_min_ns=in_ns(settings.ack_timeout_min_s) if ack_ns is None else ack_ns,
        ack_timeout_max_ns=most_ns if ack_ns is None else ack_ns,
        store_ack_timeout_min_ns=min(store_min_ns, most_ns) if store_ns is None else store_ns,
        store_ack_timeout_max_ns=most_ns if store_ns is None else store_ns,
    )
    return _shared(stated.bounded(stated))


@lru_cache(maxsize=_KEPT)
def _shared(policy: Policy) -> Policy:
    """The first that is equal."""
    return policy


def _encode_trigger(trigger: AckTrigger) -> bytes:
    share, idle_s = trigger.window_share, trigger.idle_s
    share = Fraction(0) if share is None else Fraction(share)
    flags = (
        _GAP * trigger.on_gap
        | _DUPLICATE * trigger.on_duplicate
        | _REQUEST * trigger.on_request
        | _IDLE * (idle_s is not None)
        | _PIGGYBACK * (trigger.piggyback_after is not None)
        | _RTTS * (trigger.delay_rtts is not None)
    )
    return _TRIGGER.pack(
        share.numerator,
        share.denominator,
        min(trigger.count or 0, _COUNT_MAX),
        trigger.bytes_ or 0,
        in_ns(trigger.delay_s),
        in_ns(idle_s or 0),
        in_ns(trigger.delay_max_s),
        round((trigger.delay_rtts or 0) * _THOUSAND),
        round((trigger.piggyback_after or 0) * _THOUSAND),
        flags,
    )


def _decode_trigger(data: bytes, at: int) -> AckTrigger:
    (up, down, count, size_bytes, delay_ns, idle_ns, delay_max_ns, rtts, piggyback, flags) = _TRIGGER.unpack_from(
        data, at
    )
    return AckTrigger(
        window_share=Fraction(up, down) or None,
        count=count or None,
        bytes_=size_bytes or None,
        delay_s=delay_ns / SECOND,
        idle_s=idle_ns / SECOND if flags & _IDLE else None,
        delay_rtts=rtts / _THOUSAND if flags & _RTTS else None,
        delay_max_s=delay_max_ns / SECOND,
        piggyback_after=piggyback / _THOUSAND if flags & _PIGGYBACK else None,
        on_gap=bool(flags & _GAP),
        on_duplicate=bool(flags & _DUPLICATE),
        on_request=bool(flags & _REQUEST),
    )
