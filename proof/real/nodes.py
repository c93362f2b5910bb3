"""Shared by the real runs: settings, bodies and a reader."""

import triack
from triack.base.ack_trigger import AckTrigger
from triack.base.paths import UdpSockets
from triack.session.protocol.settings import SessionSettings

HANG_S = 60.0
"""A message that has not arrived after this hangs: no run here measures anything that lasts so long."""


def quick(udp: UdpSockets | None = None) -> triack.NodeSettings:
    """Settings that notice a killed peer immediately, so that a cycle lasts only as long as the machine needs."""
    return triack.NodeSettings(
        udp=udp,
        session=SessionSettings(ack_timeout_min_s=0.06, ack_trigger=AckTrigger(delay_s=0.02), drain_timeout_s=0.3),
        order=triack.OrderSettings(order_ack_idle_s=0.01, seq_resend_13_s=0.5),
        reconnect=triack.Reconnect(first_s=0.005, most_s=0.05),
        close_timeout_s=0.3,
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
    """Read everything that is in a queue: the numbers of its messages, in their order."""
    count = node.queue_lengths().get(queue, 0)
    async with node.receive(queue) as consumer:
        return [number_of((await consumer.get(HANG_S)).body, size_bytes) for _ in range(count)]
