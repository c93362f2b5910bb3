"""The resend tiers of transactional packets.

Promise: packets without an order ack are resent without end, at growing intervals. The wait before a resend depends on
how many came before it in a row; progress, a new session or another way starts again at the first tier ([MS-MQQB] note
<24> and 3.1.3.2; 3.1.5.6 moves the tier by acks instead, which contradicts its own note). A session that a tier itself
opens, as the one before ended as idle, starts nothing again: on a quiet link there would never be a fourth attempt.

    STOPPED --sent--> WAITING --expired--> WAITING, attempt + 1
    WAITING --progress | new session | another way--> WAITING, attempt 0 --all acked--> STOPPED
"""

from triack.base.units import in_ns
from triack.ordering.order_settings import OrderSettings

TIERS: tuple[tuple[int | None, str], ...] = (
    (3, "seq_resend_13_s"),
    (6, "seq_resend_46_s"),
    (9, "seq_resend_79_s"),
    (None, "seq_resend_10_s"),
)
"""Last attempt of a tier, and the setting with its wait."""
TIER_LABELS = ("1-3", "4-6", "7-9", "10-")
"""The attempts of each tier, for counters."""


def tier_interval_ns(attempt: int, settings: OrderSettings) -> int:
    """The wait before resend number ``attempt``, from 1."""
    name = next(name for last, name in TIERS if last is None or attempt <= last)
    return in_ns(getattr(settings, name))


def tier_label(attempt: int) -> str:
    """The tier of resend number ``attempt``, from 1, as counters name it."""
    return next(label for (last, _), label in zip(TIERS, TIER_LABELS, strict=True) if last is None or attempt <= last)


class ResendTimer:
    """Says when the unacknowledged packets of one sequence go out again."""

    __slots__ = ("_first_ns", "_settings", "attempt", "deadline_ns")

    def __init__(self, settings: OrderSettings) -> None:
        self._settings = settings
        self._first_ns = tier_interval_ns(1, settings)
        self.attempt = 0
        self.deadline_ns: int | None = None

    @property
    def interval_ns(self) -> int:
        """The wait that runs now, or would run."""
        return tier_interval_ns(self.attempt + 1, self._settings) if self.attempt else self._first_ns

    def interval_of(self, attempt: int) -> int:
        """The wait before resend number ``attempt``."""
        return tier_interval_ns(attempt, self._settings)

    def handle_sent(self, now_ns: int) -> None:
        """A packet went out."""
        if self.deadline_ns is None:
            self.deadline_ns = now_ns + self.interval_ns

    def handle_progress(self, now_ns: int, *, outstanding: bool) -> None:
        """An order ack covered something new, or a new session opened."""
        self.attempt = 0
        self.deadline_ns = now_ns + self.interval_ns if outstanding else None

    def handle_rest(self, *, is_answered: bool) -> None:
        """No packet is on its way: a wait begins with the next one that goes out, the first one if these are answered.

        Without this a stream whose next hop is away would ask for a turn at each tier, for days.
        """
        self.deadline_ns = None
        if is_answered:
            self.attempt = 0

    def is_due(self, now_ns: int) -> bool:
        """Whether the wait has ended."""
        return self.deadline_ns is not None and now_ns >= self.deadline_ns

    def handle_expired(self, now_ns: int, *, resends: bool) -> None:
        """The wait has ended and the next one begins; it counts as an attempt only if something goes out again."""
        if resends:
            self.attempt += 1
        self.deadline_ns = now_ns + self.interval_ns
