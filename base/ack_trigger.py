"""When a receiver owes an acknowledgement: the policy that a user gives, and the terms in force.

One set of rules covers all three acknowledgements. The policies of other systems are values of it and need no code:
half the window is MSMQ's, a third of it or a second Solace's, a number of bytes HornetQ's.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import floor

from triack.base.checks import check_between, check_settings
from triack.base.errors import UsageError
from triack.base.units import SECOND, in_ns

SHARE_PARTS_MAX = 1_000
"""The largest denominator of a share: a third stays exact, and both numbers fit into 16 bits."""
DELAY_MAX_S = 1_000_000
"""Eleven days: longer than any session. As a float it reaches a peer and returns exact to the nanosecond."""
_BYTES_MAX = 1 << 40
"""More than any window holds, and still a whole number for every peer."""
_KEPT = 256
"""Shared terms: there are few, and ten thousand sessions have two each."""


@dataclass(frozen=True, slots=True)
class AckTrigger:
    """When a receiver owes an acknowledgement. The first condition that holds sends it.

    MSMQ's policy is ``AckTrigger()``; a third of the window or one second is ``AckTrigger(window_share=1 / 3,
    delay_s=1)``; a number of bytes alone, or two seconds, ``AckTrigger(window_share=None, bytes_=65_536, delay_s=2)``.

    Attributes:
        window_share: that part of the window that is in force, rounded down, at least one packet; None for no such
            limit. A fraction or a number above 0 and up to 1. Too small: nearly each packet gets an ack; too large: the
            sender stands still until one comes.
        count: packets not yet acknowledged; None for no such limit.
        bytes_: the same in bytes. Too small: nearly each packet gets an ack; too large: ``delay_s`` alone counts.
        delay_s: time since the first packet not yet acknowledged (MSMQ ``IdleAckDelay``). Too small: more acks travel;
            too large: the sender keeps messages for longer.
        idle_s: time since the last one; None for no such limit.
        delay_rtts: the delay as a number of round trips, as measured when the session opened: at least ``delay_s``, at
            most ``delay_max_s``. None: ``delay_s`` is the delay ([MS-MQQB] 3.1.5.3.2 has 8).
        delay_max_s: see ``delay_rtts``.
        piggyback_after: ride on a packet that goes the other way when at least that share of the delay has passed
            since the first packet ([MS-MQQB] 3.1.7.11 has 0.75); 0: on any packet; None: never.
        on_gap: without delay when a packet is missing.
        on_duplicate: without delay when a packet arrives twice: its sender has not seen the ack.
        on_request: without delay when the packet asks.
    """

    window_share: Fraction | float | None = Fraction(1, 2)
    count: int | None = None
    bytes_: int | None = None
    delay_s: float = 0.5
    idle_s: float | None = None
    delay_rtts: float | None = None
    delay_max_s: float = 120.0
    piggyback_after: float | None = 0.0
    on_gap: bool = True
    on_duplicate: bool = True
    on_request: bool = True

    def __post_init__(self) -> None:
        check_settings(self, may_be_zero=("delay_s", "idle_s"))
        for name in ("delay_s", "idle_s", "delay_max_s"):
            check_between(f"AckTrigger: {name}", getattr(self, name) or 0, 0, DELAY_MAX_S)
        check_between("AckTrigger: bytes_", self.bytes_ or 0, 0, _BYTES_MAX)
        share = self.window_share
        if share is not None:
            exact = Fraction(0)
            if not isinstance(share, bool) and 0 < share <= 1:
                exact = Fraction(share).limit_denominator(SHARE_PARTS_MAX)
            if not exact:
                raise UsageError(f"AckTrigger: window_share must be above 0 and at most 1, not {share!r}")
            object.__setattr__(self, "window_share", exact)
        if self.piggyback_after is not None:
            check_between("AckTrigger: piggyback_after", self.piggyback_after, 0, 1)
        if self.delay_rtts is not None:
            check_between("AckTrigger: delay_rtts", self.delay_rtts, 0, 1_000)
            if self.delay_max_s < self.delay_s:
                raise UsageError(f"AckTrigger: delay_s is {self.delay_s}, more than delay_max_s, {self.delay_max_s}")

    def threshold(self, window: int) -> int | None:
        """How many packets of a window make an acknowledgement due; None: no number does."""
        limits = [] if self.count is None else [min(self.count, window)]
        if self.window_share is not None:
            limits.append(max(1, floor(self.window_share * window)))
        return min(limits, default=None)


@dataclass(frozen=True, slots=True)
class AckTerms:
    """The terms in force for one acknowledgement; see ``AckTrigger``.

    Attributes:
        piggyback_ns: how long the first packet must have waited before the ack travels with others; None: never.
    """

    count: int | None
    bytes_: int | None
    delay_ns: int
    idle_ns: int | None = None
    piggyback_ns: int | None = None
    on_gap: bool = True
    on_duplicate: bool = True
    on_request: bool = True

    def reached(self, packets: int, size_bytes: int) -> bool:
        """Whether these numbers make the acknowledgement due."""
        return (self.count is not None and packets >= self.count) or (
            self.bytes_ is not None and size_bytes >= self.bytes_
        )


def longest_delay_ns(trigger: AckTrigger) -> int:
    """The longest that the first packet may wait, whatever the round trip is."""
    return in_ns(trigger.delay_s if trigger.delay_rtts is None else trigger.delay_max_s)


def capped(trigger: AckTrigger, most_ns: int) -> AckTrigger:
    """The same trigger with no delay longer than that."""
    if most_ns == 0 and longest_delay_ns(trigger) > 0:
        # No number of round trips is as short as that.
        return replace(trigger, delay_s=0.0, delay_rtts=None)
    most_s = most_ns / SECOND
    if in_ns(trigger.delay_s) > most_ns:
        return replace(trigger, delay_s=most_s, delay_max_s=most_s)
    if longest_delay_ns(trigger) > most_ns:
        return replace(trigger, delay_max_s=max(most_s, trigger.delay_s))
    return trigger


def terms_of(trigger: AckTrigger, window: int, rtt_ns: int = 0) -> AckTerms:
    """The terms in force with this window and this round trip."""
    delay_ns = in_ns(trigger.delay_s)
    if trigger.delay_rtts is not None:
        delay_ns = min(max(round(trigger.delay_rtts * rtt_ns), delay_ns), in_ns(trigger.delay_max_s))
    after = trigger.piggyback_after
    terms = AckTerms(
        count=trigger.threshold(window),
        bytes_=trigger.bytes_,
        delay_ns=delay_ns,
        idle_ns=None if trigger.idle_s is None else in_ns(trigger.idle_s),
        piggyback_ns=None if after is None else round(after * delay_ns),
        on_gap=trigger.on_gap,
        on_duplicate=trigger.on_duplicate,
        on_request=trigger.on_request,
    )
    return shared(terms)


@lru_cache(maxsize=_KEPT)
def shared(terms: AckTerms) -> AckTerms:
    """The first terms that are equal."""
    return terms
