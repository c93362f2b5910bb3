"""The rules of the machines and the checks of each by their ids, or a sentence that says why no log can show it.

A machine has its rules as lists: the events of its table of transitions, the fields of its settings, its reasons. A
test reads these lists and compares them with this one, so that each new rule gets its check here.
"""

from __future__ import annotations

from typing import Final

Watch = tuple[str, ...] | str
"""Ids of checks, or why there is none."""

_LOCAL: Final = "It bounds what the node itself does with its memory or time; nothing is promised to others."
_PATIENCE: Final = "Its sessions show how soon a node tries again, and no promise depends on it."
_FAILED: Final = "When and how often an application failed with a message is in no record."
_END: Final = ("silent_end", "close_without_full_resend")
_REFUSED: Final = ("rejected", "gaps", "store_ack_before_commit")
_PARTS: Final = "Its fields have rows of their own."

RULES: Final[dict[str, dict[str, Watch]]] = {
    # What happens, by the machine's table of transitions.
    "base/ack_debt.py": {
        "arrived": ("idle_delay", "store_ack_late", "order_ack_late"),
        "sent": ("claims", "ack_unsent"),
        "count": ("half_window", "store_ack_late", "claims"),
        "bytes": ("half_window", "store_ack_late", "claims"),
        "delay": ("idle_delay", "store_ack_late", "claims"),
        "idle": ("idle_delay", "claims"),
        "gap": ("at_once", "claims"),
        "duplicate": ("at_once", "claims"),
        "request": "Whether a packet asked for its ack, and whether a ping has come, is in no record.",
    },
    "session/protocol/states.py": {
        "accepted": ("silent_end", "policy"),
        "confirmed": ("silent_end", "policy"),
        "drain": "Only its end tells a session that drains from an open one.",
        "drained": ("claims", "silent_end"),
        "idle": ("idle_close", "idle_open", "claims"),
        "ack_timeout": ("ack_timeout", "silence", *_END),
        "store_ack_timeout": ("ack_timeout", "store_silence", *_END),
        "connect_timeout": "A session that never opened promised nothing.",
        "path_lost": _END,
        "superseded": _END,
        "peer_closed": ("silent_end",),
        "local_stop": ("silent_end",),
        "store_failed": ("silent_end", "store_ack_before_commit", "order_ack_before_commit"),
        "protocol_error": ("silent_end",),
        "rollback": ("silent_end", "not_recovered"),
        "revoked": ("silent_end",),
        "too_many_forgeries": ("silent_end",),
    },
    "session/congestion/send_window.py": {
        "sent": ("window", "wire"),
        "lost": "A loss is an estimate; the resend that follows from it is judged by `wire`.",
        "acked": ("ack_unreceived", "ack_from_nowhere"),
    },
    "session/path/path_mtu.py": {
        **dict.fromkeys(("wanted", "confirmed", "narrowed", "found", "raise"), ("path_size",)),
        "unanswered": "The end continues with what needs no proof.",
        "black_hole": "That datagrams were lost for their size is an estimate; what is used then needs no proof.",
        "moved": "Addresses that a peer is found at are in no record; what is used then needs no proof.",
    },
    "session/congestion/bbr.py": dict.fromkeys(
        ("full", "drained", "heard", "stale", "probe", "refilled", "sated", "measured"),
        "An estimate of what the network takes; the window that was agreed on bounds it, and that is judged.",
    ),
    "ordering/departing.py": {
        "sent": ("queue", "previous", "hops_step", "hop_limit", "previous_raised"),
        "received_not_stored": ("forgotten", "lost"),
        "received_not_ordered": ("forgotten", "resend_tiers"),
        "send_again": ("close_without_full_resend", "resend_tiers", "transit_forgotten", "freed_too_early"),
        "acked": ("lost", "forgotten", "ack_from_nowhere"),
        "given_up": ("claims", "gaps", "lost"),
        "rejected": ("rejected", "claims"),
        "freed": ("lost", "forgotten", "freed_too_early", "transit_unsent"),
        "waits": ("resend_tiers", "close_without_full_resend"),
        "stored_not_onward": "No other node sees whether an origin keeps its copy until a relay has passed it on.",
        "stored": ("store_ack_before_commit", "transit_forgotten", "queue"),
        "goes_on": ("claims", "lost"),
    },
    "ordering/onward.py": {
        "too_old": ("downgrade_rule",),
        "young": ("downgrade_rule",),
    },
    "ordering/hold.py": dict.fromkeys(
        ("stop", "go", "timer", "progress", "sent"),
        "Words of a destination that has no room are control packets, whose content is in no record.",
    ),
    "queues/remote/remote_subscriptions.py": dict.fromkeys(
        ("accepted", "refused", "unknown", "left", "ended"),
        "What nodes ask each other is in messages, whose content is in no record; what follows is `subscribed`.",
    ),
    "queues/streams/stream_state.py": {
        "ends": ("forgotten", "claims"),
        "ends_here": ("forgotten", "claims"),
        "end_stored": "Control packets say that a stream ended, and their content is in no record.",
        "forgotten": ("claims", "not_recovered", "duplicates_delivered"),
        "row_deleted": "A row that stays too long is only told of once more.",
    },
    "queues/mailboxes/large_bodies.py": dict.fromkeys(
        ("completed", "claimed", "left", "given_up"),
        "Records count a large message, and not the parts of its body; a body that is lost is a dead letter.",
    ),
    "queues/peers/path.py": dict.fromkeys(
        ("elsewhere", "back", "asked", "answered", "given_up", "again"),
        "Challenges of addresses are no packets of the session and are not recorded.",
    ),
    "node/shell/life.py": {
        "given_up": "Nothing is written before a node has opened its store.",
        "start": ("node_life", "not_recovered", "recovered_from_nowhere", "forgotten"),
        "started": ("node_life",),
        "close": ("silent_end",),
        "closed": ("node_life", "silent_end"),
        "failed": ("node_life",),
    },
    "node/client/line.py": dict.fromkeys(
        ("start", "connected", "refused", "given_up", "lost", "patience_over", "close"),
        "A client's line to its node is within one machine, and in no record.",
    ),
    # What is rejected, and why.
    "base/reasons.py RejectReason": {
        "duplicate": ("rejected", "duplicates_delivered"),
        "stale_sequence": ("rejected",),
        "hold_full": ("rejected", "store_ack_before_commit"),
        "held_back": ("rejected",),
        **dict.fromkeys(
            (
                "access_denied", "queue_not_found", "bad_queue_name", "queue_full", "too_large", "too_many_queues",
                "larger_than_disk", "body_gone", "part_too_small",
                "no_route", "route_loop", "hop_count_exceeded", "bad_seal", "unknown_sealer", "not_sealed", "renamed",
            ),
            _REFUSED,
        ),
    },
    # What was agreed on, and the settings of a node.
    "session/protocol/policy.py Policy": {
        "window": ("window", "policy"),
        "session_ack": ("half_window", "idle_delay", "at_once", "policy"),
        "store_ack": ("store_ack_late", "policy"),
        "ack_timeout_min_ns": ("ack_timeout", "policy"),
        "ack_timeout_max_ns": ("silence",),
        "store_ack_timeout_min_ns": ("ack_timeout", "policy"),
        "store_ack_timeout_max_ns": ("store_silence",),
    },
    "base/ack_trigger.py AckTrigger": {
        "window_share": ("policy", "half_window", "store_ack_late"),
        "count": ("policy", "half_window", "store_ack_late"),
        "bytes_": ("policy", "half_window", "store_ack_late"),
        "delay_s": ("idle_delay", "store_ack_late", "policy"),
        "idle_s": ("idle_delay", "policy"),
        "delay_rtts": "Each end measures the round trip for itself; what it came to is in the log, and that is judged.",
        "delay_max_s": ("policy",),
        "piggyback_after": "An ack may leave earlier than it must.",
        "on_gap": ("at_once", "policy"),
        "on_duplicate": ("at_once", "policy"),
        "on_request": ("policy",),
    },
    "session/protocol/settings.py SessionSettings": {
        "max_unacked_packet": ("window", "claims"),
        "auto_window_max": ("window", "claims"),
        "ack_trigger": ("policy", "half_window", "idle_delay", "at_once"),
        "store_ack_trigger": ("policy", "store_ack_late"),
        "ack_timeout_s": ("ack_timeout", "silence"),
        "ack_timeout_min_s": ("ack_timeout",),
        "ack_timeout_max_s": ("silence",),
        "direct_ack_timeouts": ("ack_timeout", "silence"),
        "store_ack_timeout_s": ("ack_timeout", "store_silence"),
        "store_ack_timeout_min_s": ("ack_timeout",),
        "connect_timeout_s": "A session that never opened promised nothing.",
        "cleanup_interval_s": ("idle_close", "idle_open"),
        "drain_timeout_s": "Only its end tells a session that drains from an open one.",
        "max_datagram_bytes": ("path_size",),
        "congestion": "It shares the network; the window that was agreed on bounds it, and that is judged.",
    },
    "ordering/order_settings.py OrderSettings": {
        "order_ack_idle_s": "It makes an order ack leave earlier than `seq_max_ack_delay_s`, which is judged.",
        "seq_max_ack_delay_s": ("order_ack_late",),
        "order_ack_every": "Whether a packet asked for its order ack is in no record.",
        "max_held_packets": ("rejected",),
        "seq_resend_13_s": ("resend_tiers",),
        "seq_resend_46_s": ("resend_tiers",),
        "seq_resend_79_s": ("resend_tiers",),
        "seq_resend_10_s": ("resend_tiers",),
    },
    "queues/node_settings.py NodeSettings": {
        **dict.fromkeys(("session", "order", "keys", "limits", "reconnect", "redelivery", "ack_events"), _PARTS),
        **dict.fromkeys(
            (
                "stream_datagram_bytes", "pending_limit_bytes", "body_cache_bytes",
                "max_sessions", "max_queues", "max_peer_subscriptions", "close_timeout_s", "blocking", "keep_alive_s",
                "publish_window",
            ),
            _LOCAL,
        ),
        "max_streams": ("rejected",),
        "lowest_priority_share": "In which order streams of several priorities leave is no promise to a reader.",
        "time_to_reach_queue_s": "How long a message may be on its way is its sender's choice.",
        "topics": _PARTS,
        "large": "Limits of large bodies, each of which is one message in the records.",
        "log_keep_s": "How long logs are kept; a summary says of older ones what they said.",
        "retire_after_s": "An idle stream may end at any time; `forgotten` sees one that was not idle.",
        "max_redeliveries": _FAILED,
        "queue_redelivery": _FAILED,
        "forwards": "A queue that is passed on is read in transactions, as by a program.",
        "messages_per_packet": ("claims",),
        "survives": ("not_recovered", "forgotten"),
        "recoverable_survives": ("not_recovered", "forgotten"),
        "udp": "Which calls carry datagrams is no matter of the records.",
    },
    "queues/node_settings.py Topic": {
        "strategy": ("none_rule", "slowest_rule", "discard_rule"),
        "max_unacked": ("none_rule", "slowest_rule", "discard_rule"),
        "delivery_timeout_s": ("discard_rule",),
        "ack_wait_s": ("ack_wait",),
        "quota": _LOCAL,
    },
    "queues/node_settings.py KeySettings": dict.fromkeys(
        ("lifetime_s", "most"), "Keys of messages are the application's own, and in no record."
    ),
    "queues/blocking.py Blocking": dict.fromkeys(("durable", "express", "acknowledge"), _LOCAL),
    "queues/node_settings.py Limits": {
        **dict.fromkeys(("quota", "queue_quota"), _REFUSED),
        **dict.fromkeys(
            ("journal", "queue_journal"),
            ("journal_complete", "journal_twice"),
        ),
        **dict.fromkeys(
            (
                "node_quota_bytes", "peer_quota_bytes", "peer_memory_bytes", "memory_bytes", "disk_reserve_bytes",
                "max_peer_queues", "dead_letters", "transit_quota", "peer_transit_bytes", "store_log_bytes",
            ),
            _LOCAL,
        ),
    },
    "queues/node_settings.py Reconnect": {
        **dict.fromkeys(
            ("first_s", "step_s", "most_s", "unanswered_most_s", "eager_s", "away_most_s", "jitter"), _PATIENCE
        ),
        "after_session_lost": ("close_without_full_resend", "claims"),
        "gap": "How a program hears of a gap; that there is one, `gaps` and `not_recovered` say.",
    },
    "queues/node_settings.py Redelivery": {
        **dict.fromkeys(("first_wait_s", "max_wait_s"), _FAILED),
        "keep_order": ("order",),
    },
}  # fmt: skip
"""By machine (its file, and the class of its settings), each rule."""
