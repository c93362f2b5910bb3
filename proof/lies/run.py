"""Plants lies in logs of real nodes in simulated worlds, and checks what replay says: ``make lies``."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice, pairwise
from random import Random

from proof.lies.harmless import reason_for
from proof.lies.logs import BRIDGE_LOGS, LOGS, TOPIC_LOGS, WIDE, bridge_logs, honest_logs, topic_logs, wide_logs
from proof.lies.mutate import Lie, Log, claims, lies_about, slowed, splices
from triack.base.errors import ReplayError
from triack.tools.replay.checks.catalogue import IN_TIME
from triack.tools.replay.engines.local_engine import verdict_on

_SETS = """\
ACKED: ack_from_nowhere ack_timeout ack_unreceived claims forgotten idle_open previous resend_tiers silence
    silent_end store_silence window
ACKS: ack_from_nowhere ack_taken_back at_once claims half_window idle_delay silent_end
BRIDGE: bridge_acked_early bridge_gave_twice bridge_let_go_early claims
TOPIC: claims content_freed_early discard_rule none_rule slowest_rule topic_astray topic_before_join topic_lost
    topic_order topic_twice
"""
_RIGHT = """\
ack_received: ACKED
store_ack_received order_ack_received: ACKED close_without_full_resend journal_early lost
ack_sent: ACKS ack_unsent
store_ack_sent: ACKS store_ack_before_commit store_ack_late store_ack_unsent
order_ack_sent: ACKS order_ack_before_commit order_ack_late
committed: claims duplicates_delivered express_twice gaps lost not_handed not_recovered order order_ack_before_commit
    order_ack_late previous queue rejected store_ack_before_commit store_ack_late
handed: TOPIC admin_ack_made_up duplicates_delivered expired journal_early not_handed order queue unmarked
settled: TOPIC ack_wait admin_ack_made_up duplicates_delivered journal_complete journal_twice not_handed queue
returned: TOPIC ack_wait not_handed queue
purged: admin_ack_made_up claims not_handed queue
admin_ack_asked: admin_ack_made_up admin_ack_missing claims queue
admin_ack_queued: admin_ack_made_up admin_ack_missing admin_ack_twice claims queue
expired: TOPIC admin_ack_made_up expired not_handed queue
node_started: ack_timeout claims half_window node_life order_ack_late policy resend_tiers window
node_continued: claims node_life
node_stopped: node_life silent_end
woke_late: IN_TIME claims
start_before: node_life
packet_received: ack_timeout ack_unsent admin_ack_made_up at_once claims half_window hops_step idle_close idle_delay
    idle_open not_handed previous previous_raised queue rejected silence silent_end store_ack_before_commit
    store_ack_late store_ack_unsent wire
packet_sent: ack_timeout ack_unreceived claims close_without_full_resend hop_limit hops_step idle_close idle_open
    previous previous_raised queue silence silent_end store_silence transit_unsent window wire
position_recovered: claims lost node_life not_recovered order queue recovered_from_nowhere rejected
queued: TOPIC ack_unreceived close_without_full_resend forgotten gaps lost node_life previous queue resend_tiers
rejected: claims gaps order_ack_before_commit rejected rejection_made_up store_ack_before_commit
removed: admin_ack_made_up claims close_without_full_resend forgotten gaps lost previous queue rejection_made_up
    resend_tiers
ping_sent probe_answered piece_received: ack_timeout silence silent_end
path_size: path_size silent_end
window_changed: claims silent_end window
probe_received: ack_timeout path_size silence silent_end
hold_received rerouted onward_received resend_scheduled: claims resend_tiers
transit_committed: claims end_overtakes lost node_life previous_raised queue recovered_from_nowhere rejected
    store_ack_before_commit store_ack_late transit_forgotten
transit_freed: admin_ack_made_up claims end_overtakes freed_too_early lost previous_raised rejected rejection_made_up
    transit_forgotten transit_unsent
control_relayed: ack_from_nowhere claims end_overtakes order_ack_made_up rejection_made_up word_astray
word_refused: claims order_ack_made_up rejection_made_up
route_refused: claims rejected rejection_made_up store_ack_before_commit
onward_sent: claims word_astray
onward_ack_sent: claims onward_early word_astray
onward_ack_received: claims freed_too_early onward_early
link_downgraded link_upgraded: downgrade_rule
stream_ended: claims forgotten
stream_forgotten: claims not_recovered
session_closed: ack_timeout at_once claims close_without_full_resend half_window idle_close idle_delay idle_open
    node_life order_ack_late resend_tiers silence silent_end store_ack_late store_silence window
session_opened: ack_from_nowhere ack_timeout at_once claims half_window idle_close idle_delay idle_open policy silence
    silent_end store_ack_late store_silence window wire
topic_opened subscription_suspended subscription_resumed dispatched assigned discarded late_ack content_freed
    passed_on: TOPIC
placed: TOPIC node_life subscription_forgotten
subscribed: TOPIC ack_wait node_life subscription_forgotten
unsubscribed: TOPIC subscription_forgotten
subscription_changed: TOPIC ack_wait
dropped queue_paused queue_resumed queue_quota_set:
bridge_took bridge_acked bridge_drew bridge_gave bridge_let_go: BRIDGE
journaled journal_asked: claims journal_complete journal_early journal_twice
"""


def _read(text: str, sets: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Read a line for each of some names: the checks that belong to them, and names of sets of checks."""
    found: dict[str, set[str]] = {}
    for names, said in re.findall(r"^(\S[^:]*):((?:.|\n )*)", text, re.MULTILINE):
        checks = {check for word in said.split() for check in sets.get(word, {word})}
        found |= dict.fromkeys(names.split(), checks)
    return found


RIGHT = _read(_RIGHT, {"IN_TIME": set(IN_TIME), **_read(_SETS, {})})
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
