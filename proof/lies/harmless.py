"""Harmless lies: what a record may say in more than one way with every promise kept, each kind by name.

A lie that replay does not find must be of one of these kinds, and each kind says exactly which records it covers.
"""

from collections.abc import Callable
from typing import NamedTuple

from proof.lies.mutate import Lie, Log, Record
from proof.lies.topics import (
    ABOUT_TOPICS,
    gets_nothing,
    is_idle,
    is_out_of_reach,
    names_alike,
    reaches_nobody,
    says_it_again,
)
from triack.base.units import MS
from triack.tools.replay.checks.incoming_check import DEAD_LETTER_STREAM
from triack.tools.replay.checks.journal_check import SENT_JOURNAL
from triack.tools.replay.log.schema import EXPRESS, FOR_EVER

ACKS_IN = ("ack_received", "store_ack_received", "order_ack_received")
ACKS_OUT = ("ack_sent", "store_ack_sent", "order_ack_sent")
SETTINGS = ("ack_threshold", "congestion", "idle_ack_delay_ns", "max_unacked_packet", "unacked", "window")
CHANGES = ("raise", "lower", "other")
ENDS = ("drop", "lost", "shift")


class Kind(NamedTuple):
    """A kind of harmless lie."""

    why: str
    holds: Callable[[Lie, Log], bool]


def _is_last(lie: Lie, log: Log) -> bool:
    return lie.at >= len(log[lie.start]) - 2


def _in_place(lie: Lie, log: Log) -> bool:
    mine = log[lie.start]
    before = mine[lie.at - 1]["at_ns"] if lie.at else 0
    after = mine[lie.at + 1]["at_ns"] if lie.at + 1 < len(mine) else lie.said["at_ns"]
    return bool(before <= lie.said["at_ns"] <= after)


def _opens(lie: Lie, log: Log) -> bool:
    session = lie.truth.get("session")
    return any(it["event"] == "session_opened" and it["session"] == session for it in log[lie.start])


def _refuses(lie: Lie, log: Log) -> bool:
    """Whether a store ack only says more than before of packets that were permanently rejected."""
    refused = {_place(it) for it in log[lie.start] if it["event"] == "rejected" and it["reason"] in FOR_EVER}
    said, truth = _covered(lie.said), _covered(lie.truth)
    return lie.kind == "raise" and said > truth and {_arrived(lie, log, packet) for packet in said - truth} <= refused


def _covered(ack: Record) -> set[int]:
    spans = [(1, ack["cumulative"]), *ack["ranges"]]
    return {packet for first, last in spans for packet in range(first, last + 1)}


def _arrived(lie: Lie, log: Log, packet: int) -> tuple[object, ...] | str:
    """Which packet of which stream a packet of the session was, or that it was of class express."""
    for it in log[lie.start]:
        mine = it["event"] == "packet_received" and it["session"] == lie.said["session"]
        if mine and 0 <= packet - it["packet"] < it["packets"]:
            return EXPRESS if it["class"] == EXPRESS else _place({**it, "number": it["number"] + packet - it["packet"]})
    return ()


def _packets(record: Record) -> range:
    return range(record["packet"], record["packet"] + record["packets"])


def _came(lie: Lie, log: Log, packets: range) -> bool:
    """Whether any of these packets of the session arrived anywhere, or an ack of them."""
    known: set[int] = set()
    for it in (it for some in log.values() for it in some if it.get("session") == lie.truth["session"]):
        is_own = it["node"] == lie.start[0]
        if it["event"] == "packet_received" and not is_own:
            known.update(_packets(it))
        elif it["event"].endswith("ack_received") and is_own:
            known.update(packet for first, last in it["ranges"] for packet in range(first, last + 1))
    return not known.isdisjoint(packets)


def _is_on_its_way(lie: Lie, log: Log) -> bool:
    """Whether a record misstates only packets that reached no node, or adds such packets outside of streams."""
    if lie.field == "packets":
        more = range(_packets(lie.truth).stop, _packets(lie.said).stop)
        return lie.kind == "raise" and lie.truth.get("stream") is None and not _came(lie, log, more)
    is_content = lie.field in ("number", "previous", "sequence", "counts")
    return is_content and not _came(lie, log, _packets(lie.truth))


def _is_given_up(lie: Lie, log: Log) -> bool:
    """Whether the origin had given up what a commit claims in excess."""
    removed = (
        it for some in log.values() for it in some if it["event"] == "removed" and _stream(it) == _stream(lie.truth)
    )
    return any(it["first"] <= lie.said[lie.field] <= it["last"] for it in removed)


def _order_refused(lie: Lie, log: Log) -> bool:
    """Whether an order ack only says more of packets that were permanently rejected."""
    refused = {_place(it) for it in log[lie.start] if it["event"] == "rejected" and it["reason"] in FOR_EVER}
    numbers = range(lie.truth["number"] + 1, lie.said["number"] + 1)
    return lie.kind == "raise" and all((*_stream(lie.truth), number) in refused for number in numbers)


def _is_empty(lie: Lie, log: Log) -> bool:
    """Whether nothing happened in the session of a record, at that end, but that it opened and closed."""
    session = lie.truth["session"]
    events = {it["event"] for it in log[lie.start] if it.get("session") == session}
    return not any("packet" in event for event in events)


def _is_alone(lie: Lie, log: Log) -> bool:
    opened = (it for some in log.values() for it in some if it["event"] == "session_opened")
    return {it["node"] for it in opened if it["session"] == lie.truth["session"]} == {lie.start[0]}


def _is_carried(lie: Lie, log: Log) -> bool:
    """Whether the path of the session that the lie names has carried datagrams of that size as well."""
    probes = (it for some in log.values() for it in some if it["event"] == "probe_received")
    came = (it for it in probes if it["session"] == lie.said["session"] and it["node"] != lie.start[0])
    return any(it["size"] >= lie.said["size"] for it in came)


def _is_proved_still(lie: Lie, log: Log) -> bool:
    """Whether the sizes that the other end used are proved by the remaining probe records."""
    session, mine = lie.truth["session"], log[lie.start]
    came = [it["size"] for it in mine if it["event"] == "probe_received" and it["session"] == session]
    came.remove(lie.truth["size"])
    used = (it for some in log.values() for it in some if it["event"] == "path_size" and it["session"] == session)
    return all(it["node"] == lie.start[0] or it["size"] <= max(came, default=0) for it in used)


def _is_on_disk(lie: Lie, log: Log) -> bool:
    """Whether what a store ack claims in excess was on the disk by then, or never will be, as express packets."""
    news = {_arrived(lie, log, packet) for packet in _covered(lie.said) - _covered(lie.truth)}
    before = [it for it in log[lie.start][: lie.at] if "stream" in it]
    there = {_place(it) for it in before if it["event"] == "rejected" and it["reason"] == "duplicate"}
    there |= {
        (it["origin"], it["stream"], it["sequence"], number)
        for it in before
        if it["event"] == "committed"
        for number in range(it["first"], it["last"] + 1)
    }
    return news <= there | {EXPRESS}


def _stream(record: Record) -> tuple[object, ...]:
    return record["origin"], record["stream"], record["sequence"]


def _place(record: Record) -> tuple[object, ...]:
    return *_stream(record), record["number"]


def _is_reused(lie: Lie, log: Log) -> bool:
    """Whether a node committed something of a sequence, and received packets of a later one of the same stream."""
    node, truth = lie.start[0], lie.truth
    in_lane = [it for some in log.values() for it in some if _in_stream(it) == _in_stream(truth)]
    is_taken = any(
        it["event"] == "committed" and it["node"] == node and _stream(it) == _stream(truth) for it in in_lane
    )
    later = {
        it["sequence"]
        for it in in_lane
        if it["event"] == "packet_received" and it["node"] == node and it["sequence"] > truth["sequence"]
        if truth["class"] != EXPRESS or it["incarnation"] == lie.start[1]
    }
    if truth["class"] == EXPRESS:
        lives = {it["sequence"]: it["incarnation"] for it in in_lane if it["event"] == "queued"}
        later = {sequence for sequence in later if lives[sequence] == lives[truth["sequence"]]}
    return is_taken and bool(later)


def _is_over(lie: Lie, log: Log) -> bool:
    """Whether a destination has forgotten a stream, or its origin has put another one into its stream in that start."""
    forgotten = any(
        it["event"] == "stream_forgotten" and _stream(it) == _stream(lie.truth) for some in log.values() for it in some
    )
    mine = log[lie.start]
    is_used = any(it["event"] in ("queued", "committed") and _stream(it) == _stream(lie.truth) for it in mine)
    return forgotten or (
        is_used and any(it["event"] == "queued" and _in_stream(it) == _in_stream(lie.truth) for it in mine[lie.at :])
    )


def _in_stream(record: Record) -> tuple[object, ...]:
    return record.get("origin"), record.get("stream")


def _times_out(lie: Lie, log: Log) -> bool:
    """Whether the session of a record, true or changed, ended by its ack timeout."""
    sessions = {it.get("session") for it in (lie.truth, lie.said)} - {None}
    closed = [it for it in log[lie.start] if it["event"] == "session_closed" and it["session"] in sessions]
    return any(it["reason"] == "ack-timeout" and not it["unacked"] for it in closed)


def _is_copied(lie: Lie, log: Log) -> bool:
    """Whether a record tells of a copy of a packet that asks for one, or that there was no room for it."""
    told = [it for some in log.values() for it in some if it["event"] == "journaled" and it["queue"] == SENT_JOURNAL]
    mine = [it for it in told if _stream(it) == _stream(lie.truth)]
    return any(0 <= lie.truth["number"] - it["number"] < sum(packets for packets, _ in it["counts"]) for it in mine)


def _is_told(lie: Lie, log: Log) -> bool:
    """Whether a record tells of the packet that asks for that, or of the one that is said to."""
    told = {_place(it) for some in log.values() for it in some if it["event"] == "admin_ack_queued"}
    return any("number" in it and _place(it) in told for it in (lie.truth, lie.said))


def _killed(lie: Lie, log: Log) -> bool:
    return bool(log[lie.start][-1]["event"] != "node_stopped")


def _same_thing(lie: Lie, log: Log) -> bool:
    """Whether the record is a cause of the next one."""
    one, other = lie.truth, log[lie.start][lie.at + 1]
    if (one["event"], other["event"]) not in CAUSES:
        return False
    stream = all(one.get(name) == other.get(name) for name in ("origin", "stream", "sequence"))
    return stream and bool(_numbers(one) & _numbers(other))


def _is_let_go(lie: Lie, log: Log) -> bool:
    """Whether the bridge released messages of these packets later, and said so before it had them again."""
    later = log[lie.start][lie.at + 1 :]
    about = [
        it for it in later if it["event"] in ("bridge_drew", "bridge_let_go") and _stream(it) == _stream(lie.truth)
    ]
    met = next((it["event"] for it in about if _numbers(it) & _numbers(lie.truth)), "")
    return met == "bridge_let_go"


def _numbers(record: Record) -> set[int]:
    number = record.get("number")
    if number is None:
        return set(range(record["first"], record["last"] + 1))
    packets = sum(packets for packets, _ in record.get("counts", [[1, 0]]))
    return set(range(number, number + packets))


CAUSES = {
    ("queued", "packet_sent"),
    ("packet_received", "committed"),
    ("committed", "order_ack_sent"),
    ("committed", "handed"),
}

_OF_STREAM = ("origin", "stream", "sequence")
HARMLESS: dict[str, Kind] = {
    "clocks": Kind(
        "Wall clocks differ, and a monotonic one begins anywhere; within a start both must go on as they began.",
        lambda lie, _: lie.field in ("at_ns", "wall_ns"),
    ),
    "statistic": Kind(
        "`dropped` and `size` are told for people; nothing is promised of them.",
        lambda lie, _: lie.event == "dropped" or lie.field == "size",
    ),
    "label": Kind(
        "Names, ids, addresses, triggers and reasons tell people why; where a promise depends on one, it is checked.",
        lambda lie, _: (
            lie.field
            in ("name", "address", "reason", "trigger", "queue", "peer_name", "subscriber", "class", "where", "ordinal")
        ),
    ),
    "end": Kind(
        "A start that ends a record or two earlier, or stops at another time, is one that was killed there.",
        lambda lie, log: lie.kind in (*ENDS, "swap") and (_is_last(lie, log) or lie.event == "node_stopped"),
    ),
    "begin": Kind(
        "When a process started, or found what on its disk, no limit of time counts from.",
        lambda lie, _: lie.kind in ("shift", "swap") and lie.event in ("node_started", "position_recovered", "queued"),
    ),
    "start-before": Kind(
        "What a start knows of the log of the one before says whether that is whole; no promise is about it.",
        lambda lie, _: lie.event == "start_before",
    ),
    "short": Kind(
        "Only several seconds of a session tell a slow clock from one that was set right, or stood still.",
        lambda lie, _: lie.kind == "slow",
    ),
    "stood-still": Kind(
        "That a node stood still excuses what it did late, and nothing else; here nothing was late.",
        lambda lie, _: lie.event == "woke_late",
    ),
    "settled": Kind(
        "Which of the messages in its hands a reader is done with, or gives back, it alone knows.",
        lambda lie, _: lie.event in ("settled", "returned") and (lie.event, lie.kind) != ("settled", "repeat"),
    ),
    "never-opened": Kind(
        "A session that never opened promised nothing, however and how often it ended.",
        lambda lie, log: lie.event == "session_closed" and not _opens(lie, log),
    ),
    "says-less": Kind(
        "An ack that says less than it could, or is lost on its way, makes a sender keep more than it needs.",
        lambda lie, _: lie.event in (*ACKS_IN, *ACKS_OUT) and lie.kind in ("drop", "lower"),
    ),
    "says-again": Kind(
        "What was acknowledged may be acknowledged again.",
        lambda lie, _: lie.event in (*ACKS_IN, *ACKS_OUT) and lie.kind == "repeat",
    ),
    "on-disk": Kind(
        "A store ack of what was on the disk already, or is never put there; it might have said so.",
        lambda lie, log: (lie.event, lie.kind) == ("store_ack_sent", "raise") and _is_on_disk(lie, log),
    ),
    "given": Kind(
        "The peer did give an ack of that; that it had not arrived here, no other record says.",
        lambda lie, _: lie.event in ACKS_IN and lie.kind in ("raise", "other"),
    ),
    "nothing-new": Kind(
        "An ack that newly covers nothing may be of any session.",
        lambda lie, _: lie.event in (*ACKS_IN, *ACKS_OUT) and lie.field in ("session", "origin", "stream"),
    ),
    "in-place": Kind(
        "It stays between its neighbours, and crosses no limit of time.",
        lambda lie, log: lie.kind == "shift" and _in_place(lie, log),
    ),
    "unrelated": Kind(
        "Neither of the two records is the cause of the other.",
        lambda lie, log: lie.kind == "swap" and not _same_thing(lie, log),
    ),
    "not-reached": Kind(
        "A setting, a window or a count that nothing in the record comes near.",
        lambda lie, _: lie.field in SETTINGS or lie.field.endswith("_ns"),
    ),
    "copy": Kind(
        "A copy more or less on the wire, of what arrives again or leaves again anyway.",
        lambda lie, _: (
            lie.event in ("packet_sent", "packet_received")
            and (lie.kind in ("drop", "repeat") or lie.field in ("packet", "packets"))
            and bool(lie.truth.get("resend") or lie.truth.get("duplicate") or lie.kind == "drop")
        ),
    ),
    "waiting": Kind(
        "It may still wait: for its reader, its packet for the next attempt, its end for the dead-letter queue.",
        lambda lie, _: (
            lie.kind in ("drop", "lower", "raise") and lie.event in ("handed", "removed", "queued", "expired")
        ),
    ),
    "resend": Kind(
        "A resend tier that sends fewer packets than it might, or whose first attempt is known by its packets alone.",
        lambda lie, _: lie.event == "resend_scheduled",
    ),
    "unrecorded": Kind(
        "A commit of which nothing was acknowledged or handed out: a crash may take its record.",
        lambda lie, _: lie.event == "committed" and lie.kind == "drop",
    ),
    "uncounted": Kind(
        "How many messages packets hold, or packets a store ack newly covers, that no other record counts.",
        lambda lie, _: lie.field in ("count", "counts") or (lie.event, lie.field) == ("store_ack_sent", "pending"),
    ),
    "careful": Kind(
        "A mark too many: an application hears that it may have seen what it has not.",
        lambda lie, _: lie.event == "handed" and (lie.field == "redelivered" or bool(lie.truth["redelivered"])),
    ),
    "still-open": Kind(
        "A session may be open until its node is killed; what the next one must carry does not depend on it.",
        lambda lie, log: lie.event == "session_closed" and _killed(lie, log),
    ),
    "dead-letter": Kind(
        "Dead letters are in no stream; their stream promises no order and no count.",
        lambda lie, _: lie.truth.get("stream") == DEAD_LETTER_STREAM,
    ),
    "on-its-way": Kind(
        "Of a packet that reached no node only its sender knows what was in it; of one in no stream, whether it was.",
        lambda lie, log: lie.event == "packet_sent" and _is_on_its_way(lie, log),
    ),
    "given-up": Kind(
        "A commit may go past what its origin has given up.",
        lambda lie, log: (
            lie.event == "committed"
            and (lie.field, lie.kind) in (("last", "raise"), ("first", "lower"))
            and _is_given_up(lie, log)
        ),
    ),
    "empty": Kind(
        "A session in which nothing happened may as well not have opened, or with another policy.",
        lambda lie, log: lie.event == "session_opened" and lie.kind in ("drop", *CHANGES) and _is_empty(lie, log),
    ),
    "alone": Kind(
        "A session that only one end opened agreed on nothing.",
        lambda lie, log: lie.event == "session_opened" and lie.kind in ("drop", *CHANGES) and _is_alone(lie, log),
    ),
    "probed": Kind(
        "Only a size that an end states must be proved; another probe may prove it, as may another's path.",
        lambda lie, log: (
            (lie.event in ("path_size", "probe_received") and lie.kind == "repeat")
            or (lie.event, lie.kind) == ("path_size", "drop")
            or (
                lie.event == "probe_received"
                and (lie.kind == "drop" or lie.field == "session")
                and _is_proved_still(lie, log)
            )
            or ((lie.event, lie.field) == ("path_size", "session") and _is_carried(lie, log))
        ),
    ),
    "kept-window": Kind(
        "A window that follows its path may be any within the agreed one, at any time, if it is kept.",
        lambda lie, _: (
            lie.event == "window_changed" and (lie.kind in ("drop", "raise", "lower") or lie.field == "session")
        ),
    ),
    "answered": Kind(
        "A sign of life more or less, in whichever session: an end that has heard its peer may still wait.",
        lambda lie, _: (
            lie.event in ("probe_answered", "piece_received")
            and (lie.kind in ("drop", "repeat") or lie.field == "session")
        ),
    ),
    "refusal": Kind(
        "Which packets a node refuses, and why, frees nothing, nor does an ack of them; a false duplicate shows.",
        lambda lie, log: (
            lie.event == "rejected"
            or (lie.event == "store_ack_sent" and _refuses(lie, log))
            or (lie.event == "order_ack_sent" and lie.field == "number" and _order_refused(lie, log))
        ),
    ),
    "asked": Kind(
        "A ping more or less, sooner or later, in a session that did not end because one had no answer.",
        lambda lie, log: lie.event == "ping_sent" and (lie.kind == "repeat" or not _times_out(lie, log)),
    ),
    "held": Kind(
        "Word of room names a stream and may be late, of one before it; it only excuses waits, and none was long.",
        lambda lie, _: (
            lie.event == "hold_received" and (lie.kind in ("drop", "repeat") or lie.field in ("stream", "sequence"))
        ),
    ),
    "not-told-yet": Kind(
        "A destination that has not heard of a stream's end: no later stream came in the stream of what it had taken.",
        lambda lie, log: (lie.event, lie.kind) == ("stream_forgotten", "drop") and not _is_reused(lie, log),
    ),
    "not-ended-yet": Kind(
        "A stream that no destination has forgotten, and whose stream no other stream has, may end later, or never.",
        lambda lie, log: (
            lie.event == "stream_ended"
            and (lie.kind == "drop" or lie.field in ("stream", "sequence"))
            and not _is_over(lie, log)
        ),
    ),
    "unknown-before": Kind(
        "Of a stream of which nothing was known to be on disk, nothing need be found there.",
        lambda lie, _: lie.event == "position_recovered",
    ),
    "topic-idle": Kind(
        "A topic in which nothing happens in that start promises nothing, nor does a subscription that gets nothing.",
        lambda lie, log: (
            lie.event in ABOUT_TOPICS
            and (is_idle(lie, log) or (lie.event != "topic_opened" and gets_nothing(lie, log)))
        ),
    ),
    "out-of-reach": Kind(
        "A limit of a subscription that it did not come near, or that binds no durable one.", is_out_of_reach
    ),
    "names-alike": Kind("A name or pattern with which each message goes to the same subscriptions.", names_alike),
    "found-again": Kind(
        "What a start found in its store it may say twice, and that a message has expired which is settled after that.",
        says_it_again,
    ),
    "kept-longer": Kind(
        "No subscription loses a message of a topic that is deleted late, or whose deletion is not recorded.",
        lambda lie, _: lie.event == "content_freed" and lie.kind in ("drop", "lower"),
    ),
    "late-anyway": Kind(
        "An acknowledgement that came too late changes nothing, of whatever it was.",
        lambda lie, _: lie.event == "late_ack",
    ),
    "unordered": Kind(
        "In which packet a message came says its place in the topic alone, where its stream has no order.",
        lambda lie, _: (
            lie.event == "placed"
            and (lie.field in ("number", "class") or (bool(lie.truth.get("recovered")) and lie.field in _OF_STREAM))
        ),
    ),
    "instant": Kind(
        "A moment that is less than a millisecond off: no limit of time is that sharp.",
        lambda lie, _: lie.kind == "shift" and abs(lie.said["at_ns"] - lie.truth["at_ns"]) < MS,
    ),
    "never-copied": Kind(
        "Whether the sender of a message asked for a copy shows only when one is made, or there is no room for it.",
        lambda lie, log: lie.event == "journal_asked" and not _is_copied(lie, log),
    ),
    "no-room": Kind(
        "Whether a journal had room for a copy no other record says, nor what it holds.",
        lambda lie, _: (lie.event, lie.field) == ("journaled", "kept"),
    ),
    "never-told": Kind(
        "Which packet of a commit asks for answers shows only in the answers, and none is about it.",
        lambda lie, log: lie.event == "admin_ack_asked" and not _is_told(lie, log),
    ),
    "way": Kind(
        "Which way packets go their sessions say. A word more or less of it excuses what is sent again, and none was.",
        lambda lie, _: lie.event == "rerouted" and lie.kind in ("drop", "repeat"),
    ),
    "operator": Kind(
        "Pauses and quotas that an operator sets are told for people: a message that waits breaks no promise.",
        lambda lie, _: lie.event in ("queue_paused", "queue_resumed", "queue_quota_set"),
    ),
    "broker-again": Kind(
        "What a broker does not hear of, or hears of again, it sends again, or knows; fewer are no lie to it.",
        lambda lie, _: (
            lie.event == "bridge_acked"
            and (lie.kind, lie.field) in (("drop", ""), ("repeat", ""), ("lower", "count"), ("raise", "known"))
        ),
    ),
    "known-here": Kind(
        "Which messages a node knows by their keys, and how many a packet has, no other record says.",
        lambda lie, _: lie.event == "bridge_took" and ("known" in lie.truth or lie.field in ("place", "counts")),
    ),
    "bridge-ends": Kind(
        "What a bridge has may come back when its connection ends, whatever it had done with it.",
        lambda lie, log: (
            lie.event in ("bridge_drew", "bridge_gave", "bridge_let_go")
            and ((lie.event, lie.kind) == ("bridge_drew", "repeat") or not _is_let_go(lie, log))
        ),
    ),
    "to-nobody": Kind(
        "Of messages that no subscription got it does not matter whether they were dispatched.", reaches_nobody
    ),
}


def reason_for(lie: Lie, log: Log) -> str | None:
    """Return the kind of a lie if it is harmless, or None."""
    return next((name for name, kind in HARMLESS.items() if kind.holds(lie, log)), None)
