"""Plants lies in logs of real nodes in simulated worlds, and checks what replay says: ``make lies``."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, pairwise
from random import Random

from proof.lies.harmless import reason_for
from proof.lies.logs import BRIDGE_LOGS, LOGS, TOPIC_LOGS, WIDE, bridge_logs, honest_logs, topic_logs, wide_logs
from proof.lies.mutate import Lie, Log, claims, lies_about, slowed, splices
from triack.base.errors import ReplayError
from triack.tools.replay.checks.catalogue import IN_TIME
from triack.tools.replay.engines.local_engine import verdict_on

_ACKED = {
    "claims", "window", "ack_unreceived", "ack_from_nowhere", "silent_end", "forgotten", "previous", "resend_tiers",
    "ack_timeout", "silence", "store_silence", "idle_open",
}  # fmt: skip
_ACKS = {"claims", "silent_end", "ack_taken_back", "ack_from_nowhere", "half_window", "idle_delay", "at_once"}
_ANSWERS = {"half_window", "idle_delay", "at_once", "store_ack_late"}
"""The checks of waits that are too long, when a session or the log is made to last longer than it did."""
_TOPIC = {
    "claims", "topic_lost", "topic_before_join", "topic_astray", "topic_twice", "topic_order", "none_rule",
    "slowest_rule", "discard_rule", "content_freed_early",
}  # fmt: skip
_BRIDGE = {"claims", "bridge_acked_early", "bridge_let_go_early", "bridge_gave_twice"}
RIGHT: dict[str, set[str]] = {
    "ack_received": _ACKED,
    "store_ack_received": _ACKED | {"close_without_full_resend", "journal_early", "lost"},
    "order_ack_received": _ACKED | {"close_without_full_resend", "journal_early", "lost"},
    "ack_sent": _ACKS | {"ack_unsent"},
    "store_ack_sent": _ACKS | {"store_ack_unsent", "store_ack_before_commit", "store_ack_late"},
    "order_ack_sent": _ACKS | {"order_ack_before_commit", "order_ack_late"},
    "committed": {
        "claims", "lost", "order_ack_before_commit", "queue", "store_ack_before_commit", "gaps", "duplicates_delivered",
        "order", "not_recovered", "express_twice", "order_ack_late", "previous", "rejected", "not_handed",
        "store_ack_late",
    },
    "handed": {
        "admin_ack_made_up", "journal_early", "not_handed", "queue", "claims", "duplicates_delivered", "order",
        "unmarked", "expired", *_TOPIC,
    },
    "settled": {
        "not_handed", "queue", "claims", "duplicates_delivered", "ack_wait", "journal_complete", "journal_twice",
        "admin_ack_made_up",
        *_TOPIC,
    },
    "returned": {"not_handed", "queue", "claims", "ack_wait", *_TOPIC},
    "purged": {"admin_ack_made_up", "not_handed", "queue", "claims"},
    "admin_ack_asked": {"admin_ack_missing", "admin_ack_made_up", "claims", "queue"},
    "admin_ack_queued": {"admin_ack_missing", "admin_ack_twice", "admin_ack_made_up", "claims", "queue"},
    "expired": {"admin_ack_made_up", "not_handed", "queue", "claims", "expired", *_TOPIC},
    "node_started": {
        "claims", "node_life", "ack_timeout", "resend_tiers", "half_window", "order_ack_late", "window", "policy",
    },
    "node_continued": {"claims", "node_life"},
    "node_stopped": {"node_life", "silent_end"},
    "woke_late": {"claims", *IN_TIME},
    "start_before": {"node_life"},
    "packet_received": {
        "ack_unsent", "store_ack_unsent", "wire", "queue", "claims", "rejected", "silent_end", "previous",
        "half_window", "idle_delay", "at_once", "store_ack_before_commit", "not_handed", "ack_timeout", "silence",
        "store_ack_late", "idle_close", "idle_open", "hops_step", "previous_raised", "admin_ack_made_up",
    },
    "packet_sent": {
        "hops_step", "hop_limit", "previous_raised", "transit_unsent",
        "queue", "wire", "close_without_full_resend", "claims", "ack_unreceived", "silent_end", "window", "previous",
        "ack_timeout", "silence", "store_silence", "idle_close", "idle_open",
    },
    "position_recovered": {
        "order", "queue", "not_recovered", "recovered_from_nowhere", "claims", "node_life", "rejected", "lost",
    },
    "queued": {
        *_TOPIC, "claims", "queue", "forgotten", "ack_unreceived", "resend_tiers", "previous", "gaps", "lost",
        "close_without_full_resend", "node_life",
    },
    "rejected": {
        "rejected", "rejection_made_up", "claims", "store_ack_before_commit", "order_ack_before_commit", "gaps",
    },
    "removed": {
        "claims", "queue", "previous", "forgotten", "close_without_full_resend", "gaps", "lost", "resend_tiers",
        "admin_ack_made_up", "rejection_made_up",
    },
    "ping_sent": {"ack_timeout", "silence", "silent_end"},
    "path_size": {"path_size", "silent_end"},
    "window_changed": {"window", "claims", "silent_end"},
    "probe_received": {"path_size", "ack_timeout", "silence", "silent_end"},
    "probe_answered": {"ack_timeout", "silence", "silent_end"},
    "piece_received": {"ack_timeout", "silence", "silent_end"},
    "hold_received": {"resend_tiers", "claims"},
    "transit_committed": {
        "transit_forgotten", "claims", "queue", "store_ack_before_commit", "store_ack_late", "rejected", "lost",
        "node_life", "recovered_from_nowhere", "previous_raised", "end_overtakes",
    },
    "transit_freed": {
        "claims", "freed_too_early", "transit_unsent", "transit_forgotten", "lost", "previous_raised", "rejected",
        "end_overtakes", "admin_ack_made_up", "rejection_made_up",
    },
    "control_relayed": {
        "claims", "ack_from_nowhere", "order_ack_made_up", "rejection_made_up", "word_astray", "end_overtakes",
    },
    "word_refused": {"claims", "order_ack_made_up", "rejection_made_up"},
    "route_refused": {"claims", "rejected", "rejection_made_up", "store_ack_before_commit"},
    "rerouted": {"resend_tiers", "claims"},
    "onward_sent": {"claims", "word_astray"},
    "onward_received": {"resend_tiers", "claims"},
    "onward_ack_sent": {"claims", "onward_early", "word_astray"},
    "onward_ack_received": {"claims", "freed_too_early", "onward_early"},
    "link_downgraded": {"downgrade_rule"},
    "link_upgraded": {"downgrade_rule"},
    "resend_scheduled": {"resend_tiers", "claims"},
    "stream_ended": {"forgotten", "claims"},
    "stream_forgotten": {"claims", "not_recovered"},
    "session_closed": {
        "claims", "silent_end", "ack_timeout", "node_life", "order_ack_late", "close_without_full_resend",
        "resend_tiers", "window", "silence", "store_silence", "idle_close", "idle_open", *_ANSWERS,
    },
    "session_opened": {
        "claims", "silent_end", "wire", "window", "ack_from_nowhere", "half_window", "idle_delay", "policy",
        "ack_timeout", "silence", "store_silence", "idle_close", "idle_open", "at_once", "store_ack_late",
    },
    "topic_opened": _TOPIC,
    "placed": {*_TOPIC, "subscription_forgotten", "node_life"},
    "subscribed": {*_TOPIC, "subscription_forgotten", "ack_wait", "node_life"},
    "unsubscribed": {*_TOPIC, "subscription_forgotten"},
    "subscription_changed": {*_TOPIC, "ack_wait"},
    **dict.fromkeys(("subscription_suspended", "subscription_resumed"), _TOPIC),
    **dict.fromkeys(("dispatched", "assigned", "discarded", "late_ack", "content_freed", "passed_on"), _TOPIC),
    "dropped": set(),
    "queue_paused": set(),
    "queue_resumed": set(),
    "queue_quota_set": set(),
    **dict.fromkeys(("bridge_took", "bridge_acked", "bridge_drew", "bridge_gave", "bridge_let_go"), _BRIDGE),
    "journaled": {"journal_complete", "journal_early", "journal_twice", "claims"},
    "journal_asked": {"journal_complete", "journal_early", "journal_twice", "claims"},
}  # fmt: skip
"""By event, the checks that may find a lie about it: those of what it says. Checks of the whole record are added."""
ANY = {"clock", "clocks", "log_gap", "damaged", "incomplete"}


@dataclass(slots=True)
class Told:
    """The results of lies."""

    lies: int = 0
    caught: Counter[str] = field(default_factory=Counter)
    harmless: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)
    finders: dict[str, set[str]] = field(default_factory=dict)


def found_by(lie: Lie) -> set[str]:
    """Return the checks that find a lie; a log that cannot be read, or seems to lack its end, counts as found, too."""
    try:
        verdict = verdict_on(lie.records)
    except ReplayError:
        return {"damaged"}
    return set(verdict.violations) or ({"incomplete"} if verdict.cut else set())


def tell(lie: Lie, log: Log, told: Told, where: str) -> None:
    """Judge one lie."""
    told.lies += 1
    checks = found_by(lie)
    told.caught.update(checks)
    what = f"{lie.kind} {lie.event} {lie.field}".rstrip()
    finders = told.finders.setdefault(what, set())
    finders.update(checks)
    late = set(IN_TIME) if lie.kind == "shift" else set()
    right = lie.kind in ("splice", "swap", "slow") or checks & (RIGHT[lie.event] | ANY | late)
    if checks and right:
        return
    kind = None if checks else reason_for(lie, log)
    if kind is not None:
        told.harmless[kind] += 1
        finders.add(f"harmless: {kind}")
    else:
        told.missed.append(f"{where}, start {lie.start[1]} of {lie.start[0][:6]}, record {lie.at + 1}: {what} {checks}")


def chosen(
    lies: int, seed: int = 1, logs: int = LOGS, wide: int = WIDE, topics: int = TOPIC_LOGS
) -> Iterator[tuple[Lie, Log, str]]:
    """Yield lies, evenly over the events, then lies about whole starts, each with its log and the name of its run."""
    random = Random(seed)
    known = [(f"seed {run}", log) for run, log in honest_logs(logs)]
    known += [(f"wide seed {run}", log) for run, log in wide_logs(wide)]
    known += [(f"seed {run}", log) for run, log in topic_logs(topics)]
    known += [(f"bridge seed {run}", log) for run, log in bridge_logs(BRIDGE_LOGS if topics else 0)]
    places: dict[str, list[tuple[str, Log, tuple[str, int], int]]] = {}
    for run, log in known:
        for start, records in log.items():
            for at, record in enumerate(records):
                places.setdefault(record["event"], []).append((run, log, start, at))
    events = sorted(places)
    for turn in range(lies):
        run, log, start, at = random.choice(places[events[turn % len(events)]])
        yield random.choice(list(lies_about(log, start, at))), log, run
    for (run, log), (_, other) in pairwise(known):
        for lie in islice(splices(log, other), 4):
            yield lie, log, run
    for run, log in known:
        for lie in (*islice(claims(log), 2), *islice(slowed(log), 2)):
            yield lie, log, run


def tell_all(lies: int, seed: int = 1, logs: int = LOGS, wide: int = WIDE, topics: int = TOPIC_LOGS) -> Told:
    """Judge all lies; the arguments are those of ``chosen``."""
    told = Told()
    for lie, log, run in chosen(lies, seed, logs, wide, topics):
        tell(lie, log, told, run)
    return told
