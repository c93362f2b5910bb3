"""What two ends agreed on when their session opened.

The initiator states how it wants acks, and the acceptor bounds that. Both ends then have the same policy in force, and
neither delays an ack for longer than half of the other's timeout. The number of packets that makes an ack due follows
from the share of the window in force, and from what the initiator's node said of its own window when it started.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from triack.tools.replay.checks.findings import Output, Record

AGREED: Final = (
    "window", "ack_threshold", "ack_share", "ack_count", "ack_bytes", "store_ack_threshold", "store_ack_share",
    "store_ack_count", "store_ack_bytes", "ack_at_once", "ack_idle_ns",
)  # fmt: skip
"""The fields that are the same at both ends. Delays may follow the round trip, which each end measures for itself."""
BOUNDS: Final = (("idle_ack_delay_ns", "ack_timeout_min_ns"), ("store_ack_delay_ns", "store_ack_timeout_min_ns"))
"""Each delay, and the timeout of which it may be at most half ([MS-MQQB] 3.1.2.5)."""


class End(Protocol):
    """One end of a session, as ``session_judge`` has it."""

    life: Record
    opened: Record | None


def judge_policy(session: str, ends: Mapping[str, End], out: Output) -> None:
    """Judge what is in force at both ends of a session."""
    for end in ends.values():
        opened = end.opened
        if opened is None:
            continue
        peer = ends.get(opened["peer"])
        other = peer.opened if peer is not None else None
        _judge_delays(session, opened, other or opened, out)
        for ack in ("ack", "store_ack"):
            _judge_threshold(session, opened, ack, opened[f"{ack}_threshold"], opened["window"], out)
        stated = end.life
        if opened["role"] == "initiator" and "ack_threshold" in stated and "max_unacked_packet" in stated:
            # Its own settings are in force: what it said of the largest window that its node opens.
            _judge_threshold(session, opened, "ack", stated["ack_threshold"], stated["max_unacked_packet"], out)
        if other is not None and opened["role"] == "acceptor":
            _judge_agreed(session, opened, other, out)


def _judge_delays(session: str, opened: Record, other: Record, out: Output) -> None:
    for delay, timeout in BOUNDS:
        patience_ns = min(opened[timeout], other[timeout])
        if 2 * opened[delay] > patience_ns:
            evidence = f"{delay} {opened[delay]}, more than half of {timeout} {patience_ns}"
            out.report(opened, "policy", evidence, session=session)


def _judge_threshold(session: str, opened: Record, ack: str, threshold: int, window: int, out: Output) -> None:
    """A share of a window is rounded down, and at least one packet; a number of packets is no more than the window."""
    share, count = opened[f"{ack}_share"], opened[f"{ack}_count"]
    up, _, down = share.partition("/")
    limits = [min(count, window)] if count else []
    if share:
        if not (up.isdecimal() and down.isdecimal() and 0 < int(up) <= int(down)):
            out.report(opened, "policy", f"{ack}_share {share!r}", session=session)
            return
        limits.append(max(1, window * int(up) // int(down)))
    if threshold != min(limits, default=0):
        says = f"a share of {share or 'nothing'} and a count of {count or 'nothing'}"
        out.report(opened, "policy", f"{ack}_threshold {threshold} with a window of {window}, {says}", session=session)


def _judge_agreed(session: str, opened: Record, other: Record, out: Output) -> None:
    for name in AGREED:
        if opened.get(name) != other.get(name):
            evidence = f"{name} {opened.get(name)}, and {other.get(name)} at the other end"
            out.report(opened, "policy", evidence, session=session)
