"""Machines and the streams between them, as a seed draws them."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from random import Random
from typing import Literal

from triack.base.ack_trigger import AckTrigger
from triack.base.units import MS, SECOND
from triack.ordering.order_settings import OrderSettings
from triack.queues.node_settings import NodeSettings, Reconnect
from triack.session.protocol.settings import CONGESTION, SessionSettings
from triack.tools.chaos.plan import Fault, HostPlan, StreamPlan

TRIGGERS = (
    None,
    None,
    AckTrigger(window_share=1 / 3, delay_s=1.0, piggyback_after=None),
    AckTrigger(count=1),
    AckTrigger(window_share=None, bytes_=500, delay_s=2.0),
    AckTrigger(window_share=None, bytes_=20_000, delay_s=2.0),
    AckTrigger(window_share=None, delay_s=1.0, piggyback_after=0.75),
    AckTrigger(window_share=None, delay_s=5.0, idle_s=0.1),
    AckTrigger(delay_rtts=8, delay_s=0.05, delay_max_s=2.0),
)

COUNTS = (*[10] * 6, *[20] * 4, 40, 120)
"""Messages of a stream: most faults show among ten, and some only beyond the largest window."""


WINDOWS: tuple[int | Literal["auto"], ...] = (1, 2, 3, 8, 64, "auto", "auto")
"""Packets; a window that follows its path stays within the other end's."""


def draw_host(random: Random, name: str, scheme: str) -> HostPlan:
    """A machine of that name, with its node."""
    return HostPlan(
        name=name,
        address=f"{scheme}://{name}:1",
        settings=_draw_settings(random),
        commit_ns=random.choice([MS // 4, 3 * MS, 3 * MS, 80 * MS]),
        page_bytes=random.choice([512, 1_024, 4_096]),
        checkpoint_pages=random.choice([4, 30, 200]),
        transactional=random.random() < 0.5,
        timer_slack_ns=random.choice([0, 0, 0, 50 * MS, SECOND]),
        failure_rate=random.choice([0.0, 0.0, 0.02]),
        read_gap_ns=random.choice([10 * MS, 50 * MS, 300 * MS]),
        burst_ns=random.choice([0, MS // 10, MS, 5 * MS]),
    )


def _draw_trigger(random: Random) -> AckTrigger | None:
    """How an end wants to be acknowledged; two are alike only by chance."""
    return random.choice(TRIGGERS)


def _draw_settings(random: Random) -> NodeSettings:
    window, delay_s = random.choice(WINDOWS), random.choice([0.001, 0.05, 0.5])
    session = SessionSettings(
        max_unacked_packet=window,
        ack_trigger=_draw_trigger(random) or AckTrigger(delay_s=delay_s),
        store_ack_trigger=_draw_trigger(random),
        ack_timeout_s=random.choice([None, None, None, 0.3, 6.0]),
        store_ack_timeout_s=random.choice([None, None, 3.0]),
        ack_timeout_min_s=random.choice([0.2, 2.0]),
        ack_timeout_max_s=random.choice([5.0, 20.0]),
        connect_timeout_s=random.choice([2.0, 10.0]),
        cleanup_interval_s=random.choice([1.0, 300.0]),
        drain_timeout_s=random.choice([0.3, 5.0]),
        max_datagram_bytes=random.choice([576, 1_200, 1_200, 9_000]),
        congestion=random.choice(CONGESTION),
    )
    order = OrderSettings(
        order_ack_idle_s=random.choice([0.001, 0.5]),
        seq_max_ack_delay_s=random.choice([1.0, 10.0]),
        order_ack_every=random.choice([1, 5, 64]),
        max_held_packets=random.choice([1, 8, 64, 4_096, 4_096, 4_096]),
        seq_resend_13_s=random.choice([0.3, 5.0]),
        seq_resend_46_s=10.0,
    )
    return NodeSettings(
        session=session,
        order=order,
        reconnect=Reconnect(first_s=random.choice([0.01, 0.1])),
        pending_limit_bytes=random.choice([5_000, 4 * 1024 * 1024]),
        body_cache_bytes=random.choice([0, 4_000, 32 * 1024 * 1024]),
        close_timeout_s=random.choice([0.1, 5.0]),
        max_redeliveries=1_000,
    )


def draw_streams(random: Random, hosts: int) -> tuple[StreamPlan, ...]:
    """The streams between that many machines."""
    streams = [draw_stream(random, 0, 1, "transactional")]
    if random.random() < 0.4:
        streams.append(draw_stream(random, 1, 0, "transactional"))
    for delivery in ("recoverable", "express", "transactional"):
        if random.random() < 0.3:
            sender, receiver = random.sample(range(hosts), 2)
            streams.append(draw_stream(random, sender, receiver, delivery))
    if random.random() < 0.35:
        # Messages that arrive at 1 are forwarded: received and sent in one transaction.
        first = streams[0]
        streams.append(replace(first, sender=1, receiver=(hosts - 1) if hosts == 3 else 0, queue="fw", source=0))
    return tuple(
        replace(stream, queue=stream.queue if stream.source >= 0 else f"q{index}")
        for index, stream in enumerate(streams)
    )


def draw_stream(random: Random, sender: int, receiver: int, delivery: str) -> StreamPlan:
    """One stream between two machines; it has no queue yet."""
    size_bytes = random.choice([20, 100, 100, 3_000])
    return StreamPlan(
        sender=sender,
        receiver=receiver,
        queue="",
        delivery=delivery,
        count=random.choice([5, 5, 5, 20]) if size_bytes == 3_000 else random.choice(COUNTS),
        size_bytes=size_bytes,
        large_bytes=random.choice([0, 0, 0, 0, 0, 10_000]),
        batch=random.choice([1, 10, 60]),
        gap_ns=random.choice([5 * MS, 50 * MS, 300 * MS, 3 * SECOND]),
        live_ms=random.choice([0, 0, 0, 0, 500, 30_000]),
    )


def draw_disk_faults(random: Random, moments: Iterable[int], hosts: Sequence[int]) -> list[Fault]:
    """At each of these moments, the disk of one of these hosts fails once, or is full for up to a second."""
    return [
        Fault(
            at_ns,
            random.choice(["disk-error", "disk-full"]),
            random.choice(hosts),
            after=random.randrange(20),
            for_ns=random.randrange(1, SECOND),
            call=random.choice(["eio", "full", "short", "drop"]),
        )
        for at_ns in moments
    ]
