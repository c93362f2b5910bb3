"""Keys that ``triack.toml`` had once: no user of another system, and no page for operators, ever set them.

Policies, tests and the simulated world set some of them in code. If a file still has one, the error says what the value
is now, and what to do.
"""

from collections.abc import Mapping

_BY_POLICY = "remove the line, as node.policy alone sets another value"
"""For numbers that differ between the systems that have policies here."""
_REMOVE = "remove the line"
"""For keys without a reason to have another value."""

_TRIGGER = {
    "count": "write window_share in its place, a share of the window",
    "idle_s": "write delay_s in its place",
    "delay_rtts": _BY_POLICY,
    "delay_max_s": _BY_POLICY,
    "piggyback_after": _BY_POLICY,
    "on_gap": _REMOVE,
    "on_duplicate": _REMOVE,
    "on_request": _REMOVE,
}

_GONE: Mapping[str, str] = {
    **{f"session.ack_trigger.{name}": what for name, what in _TRIGGER.items()},
    "session.store_ack_trigger": "remove the table, as store acks leave when session acks do, or when node.policy says",
    **{f"ack_events.{name}": what for name, what in _TRIGGER.items()},
    "ack_events.bytes_": "write window_share or delay_s in its place",
    "session.idle_ack_delay_s": "write session.ack_trigger.delay_s in its place",
    "session.auto_window_max": "limits.peer_memory_bytes bounds a window that is auto: remove the line",
    "session.ack_timeout_min_s": f"{_BY_POLICY}; or write session.ack_timeout_s in its place",
    "session.ack_timeout_max_s": f"{_BY_POLICY}; or write session.ack_timeout_s in its place",
    "session.direct_ack_timeouts": _BY_POLICY,
    "session.store_ack_timeout_min_s": f"{_BY_POLICY}; or write session.store_ack_timeout_s in its place",
    "session.connect_timeout_s": _BY_POLICY,
    "session.drain_timeout_s": _REMOVE,
    "order.order_ack_every": _BY_POLICY,
    "order.max_held_packets": "remove the line, or write limits.peer_memory_bytes in its place",
    "order.seq_resend": "remove the line, as a resend sends all packets that have no order ack",
    "reconnect.step_s": "remove the line, as a wait is twice as long as the one before it, up to most_s",
    "reconnect.unanswered_most_s": _BY_POLICY,
    "reconnect.jitter": _BY_POLICY,
    "node.stream_datagram_bytes": _REMOVE,
    "node.pending_limit_bytes": "remove the line, or bound what waits with node.publish_window",
    "node.express_limit_bytes": 'its value is "16 MiB": remove the line, or bound what waits with node.publish_window',
    "node.body_cache_bytes": _REMOVE,
    "node.retire_after_s": "remove the line, as a stream ends earlier when a peer has used half of node.max_streams",
    "limits.max_peer_queues": "write node.max_queues in its place, of all peers together",
    "limits.transit_quota.messages": "write limits.transit_quota.size_bytes in its place",
    "limits.transit_quota.when_full": "remove the line, as a relay rejects nothing for want of room",
    "limits.sent_journal": "write limits.journal in its place, for this journal too",
    "node.udp": _REMOVE,
    "keys.most": "remove the line, or write keys.lifetime_s in its place",
    "reconnect.eager_s": "write reconnect.away_most_s in its place",
    "routes.*.upgrade_below_s": "remove the line, as it is half of downgrade_after_s",
    "large.most_bytes": "remove the line, as the quota of its queue bounds a body",
    "large.part_bytes": _REMOVE,
    "large.ahead_bytes": _REMOVE,
}
GONE = {tuple(path.split(".")): advice for path, advice in _GONE.items()}
"""By key or table: what its writer can do."""


def gone(path: tuple[str, ...]) -> str:
    """What its writer can do, if there was a key with this general path once; otherwise empty."""
    return next((GONE[path[:end]] for end in range(len(path), 0, -1) if path[:end] in GONE), "")
