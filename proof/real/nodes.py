"""What the real runs share: settings, bodies and a reader."""

import triack
from triack.base.units import MS
from triack.session.settings import SessionSettings

__all__ = ["HANG_S", "body", "number_of", "queue_numbers", "quick"]

HANG_S = 60.0
"""Whatever has not come after this hangs: no run here measures anything that takes so long."""


def quick() -> triack.NodeSettings:
    """Settings that notice a killed peer at once, so that a cycle takes no longer than the machine needs for it."""
    return triack.NodeSettings(
        session=SessionSettings(ack_timeout_min_ns=60 * MS, idle_ack_delay_ns=20 * MS, drain_timeout_ns=300 * MS),
        order=triack.OrderSettings(order_ack_idle_ns=10 * MS, seq_resend_13_ns=500 * MS),
        reconnect_min_ns=5 * MS,
        reconnect_max_ns=50 * MS,
        close_timeout_ns=300 * MS,
    )


def body(number: int, size_bytes: int = 0) -> bytes:
    """A body that says which message it is, and no other message's."""
    return (b"%d " % number).ljust(size_bytes, b"%d" % (number % 10))


def number_of(body_: bytes, size_bytes: int = 0) -> int:
    """Which message a body is; -1 if it is not what ``body`` made."""
    digits = body_.partition(b" ")[0]
    number = int(digits) if digits.isdigit() else -1
    return number if number >= 0 and body_ == body(number, size_bytes) else -1


async def queue_numbers(node: triack.Node, queue: str, size_bytes: int = 0) -> list[int]:
    """Take everything that is in a queue: the numbers of its messages, in their order."""
    count = node.queue_lengths().get(queue, 0)
    async with node.receive(queue) as consumer:
        return [number_of((await consumer.get(HANG_S)).body, size_bytes) for _ in range(count)]
