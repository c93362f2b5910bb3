"""What two ends agreed on when their session opened.

The initiator states how it is acknowledged, the acceptor bounds that. Both ends have the same in force then, and
neither holds an ack back for longer than half of the other one's patience. What the initiator states is what its node
said of its settings when it started.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from triack.base.session_log import POLICY
from triack.tools.replay.findings import Due, Output, Record

AGREED: Final = (
    "window",
    "ack_threshold",
    "ack_bytes",
    "store_ack_threshold",
    "store_ack_bytes",
)
"""What is the same at both ends. Delays may follow the round trip, of which each end has its own measure."""
BOUNDS: Final = (("idle_ack_delay_ns", "ack_timeout_min_ns"), ("store_ack_delay_ns", "store_ack_timeout_min_ns"))
"""Each delay, and the timeout of which it is at most the half ([MS-MQQB] 3.1.2.5)."""


class End(Protocol):
    """One end of a session, as ``session_judge`` has it."""

    life: Record
    opened: Record | None


def judge_policy(session: str, ends: Mapping[str, End], out: Output) -> None:
    """Judge what is in force at both ends of a session."""
    for end in ends.values():
        opened = end.opened
        if opened is None or not opened.keys() >= set(POLICY):
            continue
        peer = ends.get(opened["peer"])
        other = peer.opened if peer is not None else None
        if other is not None and not other.keys() >= set(POLICY):
            other = None
        _judge_delays(session, opened, other or opened, out)
        if opened["role"] == "initiator":
            _judge_stated(session, opened, end.life, out)
        if other is not None and opened["role"] == "acceptor":
            _judge_agreed(session, opened, other, out)


def _judge_delays(session: str, opened: Record, other: Record, out: Output) -> None:
    for delay, timeout in BOUNDS:
        patience_ns = min(opened[timeout], other[timeout])
        if 2 * opened[delay] > patience_ns:
            evidence = f"{delay} {opened[delay]}, more than half of {timeout} {patience_ns}"
            out.report(opened, "policy", evidence, session=session)


def _judge_stated(session: str, opened: Record, life: Record, out: Output) -> None:
    """An initiator's own settings are in force, as far as the window is the one that they are for.

    What a share or a number of packets comes to within a smaller window is no more, and at least one packet.
    """
    if "ack_threshold" not in life or "max_unacked_packet" not in life:
        return
    own, found = life["ack_threshold"], opened["ack_threshold"]
    is_cut = opened["window"] < life["max_unacked_packet"]
    if bool(found) != bool(own) or found > own or (found < own and not is_cut):
        evidence = f"ack_threshold {found} with a window of {opened['window']}, {own} with the node's own"
        out.report(opened, "policy", evidence, session=session)


def _judge_agreed(session: str, opened: Record, other: Record, out: Output) -> None:
    for name in AGREED:
        if opened[name] != other[name]:
            evidence = f"{name} {opened[name]}, and {other[name]} at the other end"
            out.report(opened, "policy", evidence, Due("has_log", other["node"]), session=session)
