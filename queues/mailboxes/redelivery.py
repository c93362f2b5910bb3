"""How long a message that was given back waits before it is handed out again.

Promise: each further failure of a message makes its wait longer, so that an outage of a handler costs time and no
messages. A wait survives a restart: its end is stored by the wall clock, and a wrong clock never makes it longer.
"""

from typing import NamedTuple

from triack.base.reasons import DeadReason
from triack.base.units import MS, in_ns
from triack.queues.node_settings import Redelivery


def wait_ms(redelivery: Redelivery, failures: int) -> int:
    """How many milliseconds a message waits after this number of failures."""
    wait_ns, most_ns = in_ns(redelivery.first_wait_s), in_ns(redelivery.max_wait_s)
    for _ in range(1, failures):
        if wait_ns >= most_ns:
            break
        wait_ns *= 2
    return -(-min(wait_ns, most_ns) // MS)


def wait_after_death_ms(redelivery: Redelivery, failures: int) -> int:
    """How many milliseconds a message waits after this number of failures, the last one by the death of its reader.

    As after one failure fewer: a single death may have another cause, and a new process has needed its time to start.
    """
    return wait_ms(redelivery, failures - 1) if failures > 1 else 0


class Wait(NamedTuple):
    """A wait that keeps a message back, by the wall clock. ``keep_order``: everything younger waits as well."""

    until_ms: int
    length_ms: int
    keep_order: bool

    def after_restart(self, now_ms: int, moved_ms: int = 0) -> "Wait":
        """The same wait after a restart and a move of the clock. It never gets longer."""
        return self._replace(until_ms=min(self.until_ms + moved_ms, now_ms + self.length_ms))


class Return(NamedTuple):
    """How an application gives a message back.

    Attributes:
        delay_ms: how long it waits; None for the wait after its number of failures.
        reason: why it is dead when it has failed too often.
        dead: whether it becomes a dead letter immediately.
    """

    failed: bool
    delay_ms: int | None = None
    redelivery: Redelivery | None = None
    reason: DeadReason = DeadReason.MAX_REDELIVERIES
    dead: bool = False
