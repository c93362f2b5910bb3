"""The receiving half of the order acknowledgement.

It decides when to tell the origin how far its sequence is accepted and on disk.

Promise: an order ack leaves ``order_ack_idle`` after the last packet of a burst, at the latest ``seq_max_ack_delay``
after the first ([MS-MQQB] 3.1.5.8.6, 3.1.6.9), and at once when asked (``base.ack_debt``); it never covers more than
the committed position, which the caller supplies. Both delays are those that the origin of the stream has stated, as
its store keeps the packets until then. The receiver's own are those of an origin that states none, and its own
``seq_max_ack_delay`` is the most that it waits for any origin.

A neighbour states its delays when a session opens (``queues.peers.introduction``). What comes by relays has six bits
for them in the header of each packet (``ordering.wire``): each of the two is rounded down to one of ``STEPS_NS``.
"""

from bisect import bisect_right
from typing import NamedTuple

from triack.base.ack_debt import AckDebt
from triack.base.ack_trigger import AckTerms, shared
from triack.base.units import MS, in_ns
from triack.ordering.order_settings import OrderSettings

STEPS_NS = tuple(step_ms * MS for step_ms in (0, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000))
"""Ten delays: their 55 pairs of which the first is no longer than the second fit into six bits. No node waits for more
than its own ten seconds by default, and each policy's own delays are among them."""


class AckWait(NamedTuple):
    """How long order acks of a stream may wait, as its origin states it.

    Attributes:
        idle_ns: after the last packet of a burst; no longer than ``delay_ns``.
        delay_ns: after the first.
    """

    idle_ns: int
    delay_ns: int

    @classmethod
    def stated(cls, settings: OrderSettings) -> "AckWait":
        """What an origin with these settings states: at most half of the time after which it resends."""
        delay_ns = min(in_ns(settings.seq_max_ack_delay_s), in_ns(settings.seq_resend_13_s) // 2)
        return cls(min(in_ns(settings.order_ack_idle_s), delay_ns), delay_ns)

    @property
    def code(self) -> int:
        """It as the six bits of a header, each delay rounded down to a step."""
        idle, delay = (bisect_right(STEPS_NS, wait_ns) - 1 for wait_ns in self)
        return 1 + delay * (delay + 1) // 2 + idle


_BY_CODE = [AckWait(idle_ns, delay_ns) for at, delay_ns in enumerate(STEPS_NS) for idle_ns in STEPS_NS[: at + 1]]


def wait_of(code: int) -> AckWait | None:
    """What six bits of a header say; None if that is nothing, or nothing that this node knows."""
    return _BY_CODE[code - 1] if 0 < code <= len(_BY_CODE) else None


class OrderAck(AckDebt):
    """The order ack that is owed to the origin of one incoming sequence."""

    __slots__ = ("_settings",)

    def __init__(self, settings: OrderSettings) -> None:
        self._settings = settings
        super().__init__(_terms(in_ns(settings.order_ack_idle_s), in_ns(settings.seq_max_ack_delay_s)))

    def agree(self, wait: AckWait | None) -> None:
        """Take on what the origin states; None for nothing."""
        most_ns = in_ns(self._settings.seq_max_ack_delay_s)
        if wait is None:
            self.terms = _terms(in_ns(self._settings.order_ack_idle_s), most_ns)
        else:
            self.terms = _terms(min(wait.idle_ns, most_ns), min(wait.delay_ns, most_ns))

    def handle_packet(self, now_ns: int, *, ack_requested: bool, packets: int = 1) -> None:
        """One or several packets of the sequence arrived, with any outcome."""
        self.add(packets, 0, now_ns, ack_requested=ack_requested)


def _terms(idle_ns: int, delay_ns: int) -> AckTerms:
    return shared(AckTerms(count=None, bytes_=None, delay_ns=delay_ns, idle_ns=idle_ns))
