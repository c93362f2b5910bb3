"""The session log's schema, version 6: every event, the fields of its records, and their meanings.

Pure data, and part of the file format: no name may change. ``queues/manager/recorder.py`` writes such records,
``base/log_lines.py`` turns them into lines and back, ``tools/replay`` reads them, and ``make docs`` writes the tables
of docs/session-log.md from here.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

Record = Callable[..., None]
"""Writes to the session log of a node: ``record(event, now_ns, **fields)``."""


def record_nothing(_event: str, _now_ns: int, /, **_fields: Any) -> None:
    """The ``Record`` of a node without a session log: no fields need to be found for it."""


SCHEMA_VERSION: Final = 6
"""Written into the first record of a segment. Readers refuse every other version."""


class Field(NamedTuple):
    """The type and meaning of a field. ``type`` is its Python type; a list is one of pairs, each a list of two ints."""

    type: type
    sentence: str


class Event(NamedTuple):
    """The fields of an event's records, beside those of every record."""

    sentence: str
    fields: tuple[str, ...] = ()
    variants: tuple[tuple[str, ...], ...] = ((),)


COMMON: Final[dict[str, Field]] = {
    "v": Field(int, f"schema version, {SCHEMA_VERSION}"),
    "event": Field(str, "one of the events below"),
    "node": Field(str, "id of the recording node, 32 hex digits"),
    "incarnation": Field(int, "which start of the node on its data, from 1"),
    "n": Field(
        int,
        "serial of the record within the incarnation, from 1 without gaps: `(incarnation, n)` orders a node's records",
    ),
    "at_ns": Field(int, "monotonic clock, nanoseconds; comparable within one incarnation only"),
    "wall_ns": Field(int, "wall clock, nanoseconds since 1970"),
}

FIELDS: Final[dict[str, Field]] = {
    # Where a message is, whatever session carries it.
    "class": Field(str, "`express`, `recoverable` or `transactional`"),
    "origin": Field(str, "id of the node that the messages come from"),
    "stream": Field(
        int,
        "the origin's number for one stream: one destination queue of one peer in one class and of one priority, "
        "sealed or not. 0: dead letters, which their node puts into their queue itself; records tell only how they "
        "leave it",
    ),
    "sequence": Field(int, "the stream's sequence id: only grows"),
    "number": Field(
        int, "a packet's number in the sequence, from 1; of several packets, whose numbers rise by 1, the first"
    ),
    "previous": Field(
        int,
        "the number of the packet before it that its origin still wants delivered; 0: none. Of several packets that of "
        "the first: each other one names the one before it (`transactional`), or the same (other classes)",
    ),
    "counts": Field(
        list,
        "pairs (p, m): p packets in a row complete m messages each (only the last fragment of a large message "
        "completes one); in `handed`, m messages of each were handed out",
    ),
    "place": Field(int, "the place of the first message within its packet, from 0; packets behind it begin with 0"),
    "first": Field(int, "with `last` an inclusive range of sequence numbers; in records with `topic`, of places"),
    "last": Field(int, "the end of the range"),
    "ordinal": Field(
        int, "the first message's ordinal at its origin, the number in its id; each other message has the one behind it"
    ),
    "count": Field(
        int,
        "how many messages these packets complete; in `dropped` how many datagrams",
    ),
    "queue": Field(str, "name of the destination queue"),
    "priority": Field(
        int,
        "priority of the messages, 0 to 7. Absent where it is the default of the class: 0 of `transactional` messages, "
        "3 of others",
    ),
    "sealed": Field(bool, "they leave sealed, so that relays cannot read them; absent from logs of early snapshots"),
    "final": Field(str, "name of the destination node, as the packets brought it here"),
    "hops": Field(
        int, "how many relays the packets had passed when they were sent: 0 from their origin. Absent where none passes"
    ),
    "acks": Field(int, "what to tell of, summed: 1 arrived, 2 received, 4 did not arrive, 8 was not received"),
    "lost": Field(bool, "no way leads to the queue for the answers: they were dropped"),
    "message_class": Field(
        int,
        "what happened, by MSMQ's number of a message class "
        "([administration messages](cookbook/administration-messages.md))",
    ),
    "receive_by_ms": Field(int, "wall clock at which they were to have been received, milliseconds since 1970"),
    "messages": Field(int, "the most unacknowledged messages of the queue"),
    "size_bytes": Field(int, "the most bytes of the packets that hold them"),
    "when_full": Field(str, "what happens then: `hold` or `reject`"),
    "by_settings": Field(bool, "whether the settings of the node say so, and no operator"),
    "kept": Field(bool, "whether the journal has the copies"),
    "journaled": Field(bool, "the queue has a journal, and nothing of these packets is left: it has copies by now"),
    "recovered": Field(bool, "true when read from the store at the start"),
    "redelivered": Field(bool, "whether they may have been handed out before"),
    "chosen": Field(bool, "whether a reader asked for it by its id, so that it was handed out before its turn"),
    "reason": Field(str, "why, by name; [reasons.md](reasons.md) lists them all, but for those of topics"),
    "attempt": Field(int, "which resend of the sequence since its last progress, from 1"),
    "interval_ns": Field(int, "the wait that just ended, in nanoseconds"),
    "since_ns": Field(int, "monotonic clock at which it was due, nanoseconds"),
    "arrivals": Field(bool, "nothing comes into it meanwhile, either"),
    "stop": Field(bool, "nothing more of the stream is to be sent for now"),
    "kind": Field(str, "which word about a stream: `order-ack` or `reject`"),
    "here": Field(int, "every packet up to this number that was not given up is on the relay's disk, or has left it"),
    "waits": Field(bool, "the relay answers for these packets until its next hop has them: no node need resend them"),
    "is_async": Field(bool, "store acks of the node that says so are enough from now on, or no longer"),
    "sync": Field(bool, "true when the link that they go by is synchronous: a store ack does not pass them on"),
    "awaited": Field(int, "packets that wait to be passed on by the next hop; 0: none"),
    "oldest_ns": Field(int, "for how long the oldest packet has waited to be passed on by the next hop, nanoseconds"),
    "downgrade_after_ns": Field(int, "for how long it may wait before the link is asynchronous, nanoseconds"),
    "upgrade_below_ns": Field(int, "the link is synchronous again when it has waited for less, nanoseconds"),
    "grace_ns": Field(int, "nanoseconds since the start of the node in which the link is not downgraded"),
    # Sessions.
    "session": Field(str, "id of the session, 16 hex digits, the same at both ends"),
    "peer": Field(str, "node id of the other end, 32 hex digits; empty if it never said"),
    "subscriber": Field(str, "the id of the node to which a subscription belongs, whatever the way to it is"),
    "peer_name": Field(
        str,
        "the peer, as this node calls it: by name, or by address when it has none; empty where a queue of this node is "
        "meant",
    ),
    "role": Field(str, "`initiator` or `acceptor`"),
    "address": Field(str, "where the peer is; in `node_started` where the node listens"),
    "window": Field(int, "packets, the most that may be unacknowledged"),
    "idle_ack_delay_ns": Field(int, "nanoseconds that a packet may wait for its session ack"),
    "ack_threshold": Field(int, "packets after which a session ack is due; 0: no such limit"),
    "ack_share": Field(str, "share of the window after which a session ack is due, as `1/2`; empty: no such limit"),
    "ack_count": Field(int, "packets after which one is due for any window; 0: no such limit"),
    "ack_bytes": Field(int, "bytes after which a session ack is due; 0: no such limit"),
    "store_ack_delay_ns": Field(int, "nanoseconds that a packet on the disk may wait for its store ack"),
    "store_ack_threshold": Field(int, "packets on the disk after which a store ack is due; 0: no such limit"),
    "store_ack_share": Field(str, "share of the window for store acks, as `1/2`; empty: no such limit"),
    "store_ack_count": Field(int, "packets for store acks, for any window; 0: no such limit"),
    "store_ack_bytes": Field(int, "bytes on the disk after which a store ack is due; 0: no such limit"),
    "ack_timeout_max_ns": Field(int, "nanoseconds of silence after which one ends the session at the latest"),
    "store_ack_timeout_min_ns": Field(int, "nanoseconds before which no store ack timeout ends the session"),
    "store_ack_timeout_max_ns": Field(int, "nanoseconds after which one does at the latest"),
    "ack_at_once": Field(
        str,
        "the events that make a session ack due: those of `gap`, `duplicate` and `request`, in this order",
    ),
    "ack_idle_ns": Field(int, "nanoseconds since the last packet after which a session ack is due"),
    "cleanup_interval_ns": Field(int, "nanoseconds without a packet after which this end closes the session"),
    "congestion": Field(str, "the congestion control: `newreno`, `bbr`, `stream` over TCP, `none` in memory"),
    "unacked": Field(int, "packets sent and not session-acked"),
    "packet": Field(
        int,
        "the session's number of a packet, from 1 in each direction; a resend inside the session keeps it. Of several "
        "packets, whose numbers rise by 1, the first",
    ),
    "packets": Field(int, "how many packets these are"),
    "resend": Field(bool, "resends inside this session"),
    "duplicate": Field(bool, "this session had them already"),
    "size": Field(int, "bytes, of all of them"),
    "cumulative": Field(int, "every packet up to this number is acknowledged"),
    "ranges": Field(
        list,
        "inclusive ranges, ascending, disjoint; of an ack that leaves: above `cumulative`; in records with `topic`, of "
        "places",
    ),
    "trigger": Field(
        str, "why the ack left: `count`, `bytes`, `delay`, `idle`, `piggyback`, `gap`, `duplicate` or `request`"
    ),
    "pending": Field(
        int,
        "packets newly covered; in `discarded`, how many messages of the subscription are assigned to it, and neither "
        "settled nor discarded, afterwards",
    ),
    # The node's settings, which its sessions and streams keep to.
    "max_unacked_packet": Field(int, "packets, the largest window that the node opens a session with"),
    "ack_timeout_min_ns": Field(int, "nanoseconds of silence before which no ack timeout ends a session"),
    "seq_max_ack_delay_ns": Field(int, "nanoseconds that an order ack may wait for"),
    "seq_resend_13_ns": Field(int, "nanoseconds before each of the resends 1 to 3 of packets without an order ack"),
    "seq_resend_46_ns": Field(int, "the same for 4 to 6"),
    "seq_resend_79_ns": Field(int, "the same for 7 to 9"),
    "seq_resend_10_ns": Field(int, "the same from 10 on"),
    # Topics. A topic's messages have *places*: they count up from 1, one for each message. None is used twice, but for
    # those of express messages, which a later start may give to others.
    "topic": Field(
        str,
        "a topic's root, the first level of its names, as `Games`; its messages arrive in the queue `topic:Games`",
    ),
    "below": Field(str, "the levels of the messages' name below the root, as `Cricket.Scores`; empty: none"),
    "at_place": Field(int, "the place in the topic of the first message; each other one has the place behind it"),
    "subscription": Field(
        str,
        "the node's name for a subscription. A durable one keeps it; one that is not durable has a name that no other "
        "subscription has in this start of the node",
    ),
    "pattern": Field(str, "which names it takes: `Games.*` those one level below, `Games.#` that name and all below"),
    "durable": Field(bool, "whether its messages wait while no program reads it"),
    "after": Field(int, "the last place that had been given in the topic when it began: it gets none up to that"),
    "strategy": Field(str, "`discard_none`, `slowest_sub_rate` or `discard_allowed`"),
    "delivery_timeout_ns": Field(int, "nanoseconds after its dispatch when `discard_allowed` drops a message"),
    "max_unacked": Field(int, "messages that may be pending before a subscription has no room"),
    "ack_wait_ns": Field(
        int,
        "nanoseconds after which a message that a reader still has counts as failed and comes back; 0: never",
    ),
    "age_ns": Field(
        int,
        "nanoseconds since the dispatch of the last of the messages; too few by a thousandth of the timeout at most",
    ),
    "overdue": Field(bool, "given back by the node, as `ack_wait_ns` were over"),
    # Bridges.
    "bridge": Field(str, "the node's name for a bridge to a broker"),
    "where": Field(
        str,
        "the rule of the bridge: the filter, queue, or exchange and routing key at the broker, as the settings have it",
    ),
    "known": Field(int, "messages that were here before: by their keys or, of MQTT, by their packet ids"),
    # Nodes.
    "name": Field(str, "the node's name"),
    "records": Field(int, "how many records its log had when its last commit was begun; 0: it kept no log"),
    "boot": Field(str, "names this boot of the machine; absent where the system does not tell"),
    "survives": Field(str, "the worst that the node's store survives: `process crash` or `nothing`"),
    "rolled_back": Field(str, "whose store: `own`, `peer`, or `unknown` when the peer has not said"),
    "contradicts": Field(int, "a start of another node, as its incarnation, of which that node has told two things"),
}
"""All other fields. A name means the same in every event; if an event adds something, its sentence says so."""

SETTINGS: Final = (
    "max_unacked_packet",
    "idle_ack_delay_ns",
    "ack_threshold",
    "ack_timeout_min_ns",
    "seq_max_ack_delay_ns",
    "seq_resend_13_ns",
    "seq_resend_46_ns",
    "seq_resend_79_ns",
    "seq_resend_10_ns",
)

POLICY: Final = (
    "ack_share",
    "ack_count",
    "ack_bytes",
    "store_ack_delay_ns",
    "store_ack_threshold",
    "store_ack_share",
    "store_ack_count",
    "store_ack_bytes",
    "ack_timeout_min_ns",
    "ack_timeout_max_ns",
    "store_ack_timeout_min_ns",
    "store_ack_timeout_max_ns",
)
"""Further values in force in a session, by agreement of both ends."""

TERMS: Final = ("ack_at_once", "cleanup_interval_ns")

_STREAM: Final = ("class", "origin", "stream", "sequence")
_PACKETS: Final = (*_STREAM, "first", "last", "count")
_PRIORITY: Final = ((), ("priority",))
_PACKET: Final = ("session", "packet", "packets", "class", "size")
_CONTENT: Final = ("origin", "stream", "sequence", "number", "previous", "counts")
_SUBSCRIPTION: Final = ("topic", "subscription")
_MESSAGES: Final = (*_STREAM, "queue", "number", "place", "counts")
_IN_HAND: Final = (_MESSAGES, (*_SUBSCRIPTION, "ranges"))
_CARRIED: Final = ((), _CONTENT, (*_CONTENT, "hops"))
"""Control packets (order acks, rejections) belong to no stream; only packets that relays pass on have hops."""

EVENTS: Final[dict[str, Event]] = {
    "node_started": Event(
        "the node has opened its store; first record of an incarnation. Without `address` it does not listen; without "
        "`survives` its store survives a loss of power",
        ("name", *SETTINGS),
        ((), ("address",), ("survives",), ("address", "survives")),
    ),
    "node_continued": Event(
        "the log of a start continues in another segment, whose first record this is: it repeats the settings of "
        "`node_started`, by which the records of this segment are judged",
        ("name", *SETTINGS),
    ),
    "start_before": Event(
        "after `node_started`: the node's knowledge of the log of the start before. If that has fewer than `records`, "
        "or another `boot`, its end may be gone",
        ("records",),
        ((), ("boot",)),
    ),
    "woke_late": Event(
        "at `at_ns` the node does work that was due at `since_ns`: its process was stopped, its machine suspended or "
        "its event loop blocked. It has written nothing in between; a limit that ended then is late, not broken",
        ("since_ns",),
    ),
    "node_stopped": Event("the node closed in good order; last record of an incarnation"),
    "position_recovered": Event(
        "after `node_started`, for each incoming durable stream, and for each that the node has to one of its queues: "
        "everything up to `number` (transactional), or in `ranges` (recoverable), was on disk at the start, or is not "
        "wanted any more",
        _STREAM,
        (("number",), ("ranges",)),
    ),
    "queued": Event(
        "outgoing packets were committed here (express: entered memory). `origin` is the recording node; `topic` where "
        "they pass messages of that topic on to a subscription of another node. `ordinal` is absent from "
        "these, from those found on the disk, and where no message is complete",
        (*_PACKETS, "queue", "peer_name"),
        tuple(
            (*more, *priority, *sealed)
            for sealed in ((), ("sealed",))
            for more in ((), ("ordinal",), ("recovered",), ("topic",))
            for priority in _PRIORITY
        ),
    ),
    "session_opened": Event(
        "the session became open; without `ack_idle_ns` nothing is due for it",
        (
            "session",
            "peer",
            "peer_name",
            "role",
            "address",
            "window",
            "idle_ack_delay_ns",
            "ack_threshold",
            *POLICY,
            *TERMS,
            "congestion",
        ),
        ((), ("ack_idle_ns",)),
    ),
    "session_closed": Event("the session ended", ("session", "peer", "peer_name", "reason", "unacked")),
    "rollback_detected": Event(
        "a store, this node's or the peer's, is an older copy of itself, or runs twice: nothing is exchanged with that "
        "peer until the node starts again; once for each peer and start. With `contradicts`, relays have told "
        "so of a destination: two of its words do not agree about that start of it; messages still go there",
        ("peer", "peer_name", "rolled_back"),
        ((), ("contradicts",)),
    ),
    "packet_sent": Event(
        "packets went to the transport in one burst; control packets (order acks, rejections) have `class` `express` "
        "and no `stream`",
        (*_PACKET, "resend"),
        _CARRIED,
    ),
    "packet_received": Event("packets arrived in a session in one burst", (*_PACKET, "duplicate"), _CARRIED),
    "ack_sent": Event("a session ack left", ("session", "cumulative", "ranges", "trigger", "pending")),
    "ack_received": Event(
        "a session ack arrived; `ranges` are the packets newly acknowledged, perhaps none", ("session", "ranges")
    ),
    "store_ack_sent": Event("a store ack left", ("session", "cumulative", "ranges", "trigger", "pending")),
    "store_ack_received": Event(
        "a store ack arrived; `ranges` are the packets newly store-acked", ("session", "ranges")
    ),
    "ping_sent": Event("a ping left: its receiver answers without delay with every ack that it owes", ("session",)),
    "path_size": Event(
        "datagrams of this end have that size at most from now on: an answer to a probe came, or the path has changed, "
        "or carries such datagrams no more. Until the first of these it is 1,200 bytes over UDP",
        ("session", "size"),
    ),
    "window_changed": Event(
        "this end has no more than `window` packets unacknowledged from now on; where its window follows the path",
        ("session", "window"),
    ),
    "probe_received": Event("a probe of the path arrived, in a datagram of that size", ("session", "size")),
    "probe_answered": Event("an answer to a probe of this end arrived, which may say nothing new", ("session",)),
    "piece_received": Event(
        "pieces of packets too large for the path arrived, in one burst: none is whole with them, or it was before",
        ("session",),
    ),
    "committed": Event(
        "incoming packets and the sequence's new position are on disk, in one transaction (express: entered the queue "
        "in memory). The range of a `transactional` commit passes numbers that its origin gave up: the `previous` of "
        "the arrived packets shows them, and `count` counts the messages that it holds",
        (*_PACKETS, "queue"),
        ((), ("priority",)),
    ),
    "rejected": Event("the ordering layer did not accept a packet", (*_STREAM, "number", "reason")),
    "order_ack_sent": Event(
        "an order ack for everything up to `number` was handed to a session, or said in the accept of one",
        ("origin", "stream", "sequence", "number", "peer"),
    ),
    "order_ack_received": Event(
        "an order ack for everything up to `number` arrived at the origin, by itself or in an accept",
        ("origin", "stream", "sequence", "number"),
    ),
    "hold_received": Event(
        "the destination of a stream has no room for more of it (`stop`), and says why (`reason`), or has some again: "
        "of a durable stream, all that waits for acknowledgements goes out again when it may. A hold that is only "
        "repeated has no record",
        (*_STREAM, "stop"),
        ((), ("reason",)),
    ),
    "stream_ended": Event(
        "the origin ends a stream of which nothing is outstanding: nothing more is queued in it. A process that dies "
        "before its next commit keeps the stream",
        _STREAM,
    ),
    "stream_forgotten": Event(
        "the origin said that it has ended a stream, and the commit that begins now forgets how far it was: nothing of "
        "it is accepted any more. A process that dies in between recovers it, and the origin says it again",
        _STREAM,
    ),
    "transit_committed": Event(
        "packets of another node for another node are on the disk of this relay, in one transaction (express: in its "
        "memory). `peer_name` is the neighbour that they came by",
        (*_STREAM, "first", "last", "queue", "final", "peer_name"),
        ((), ("recovered",)),
    ),
    "transit_freed": Event(
        "from now on the relay answers for these packets no longer: one of the next commits deletes them. A process "
        "that dies before it returns has them again. `reason` is `store-ack` or `session-ack`, of the `session` that "
        "carried them to the next hop; `let-go`, when the next hop has no room and their origin has them still; "
        "`rejected`, `expired` or `purged`, when they are dead letters here or this node tells their origin; "
        "`stale-sequence`, when their origin has ended their stream, or, of express ones, begun a newer sequence; "
        "over a synchronous link `onward-ack`, when the next hop has passed them on",
        (*_STREAM, "first", "last", "reason"),
        ((), ("session",), ("sync",), ("session", "sync")),
    ),
    "control_relayed": Event(
        "the relay handed an order ack for everything up to `number`, or the rejection of packet `number`, on to a "
        "session with `peer`, or said it in the accept of one; or the end of a stream whose last packet is `number`, "
        "or that its destination has forgotten it (`forgotten`)",
        ("kind", "origin", "stream", "sequence", "number", "peer"),
    ),
    "word_refused": Event(
        "an order ack for everything up to `number`, or the rejection of packet `number`, came from `peer` about a "
        "sealed stream of this node, without a proof that it was its destination's: nothing was freed or given up",
        ("kind", "origin", "stream", "sequence", "number", "peer"),
    ),
    "route_refused": Event(
        "packets came that this node may not pass on, and `reason` says why: it tells their origin, and keeps nothing "
        "of them",
        (*_STREAM, "first", "last", "final", "reason"),
    ),
    "rerouted": Event(
        "the routes, or the link to the next hop, have changed: the stream goes by the neighbour `peer_name` from now "
        "on, and all that is not freed goes out again there",
        (*_STREAM, "peer_name"),
    ),
    "onward_sent": Event(
        "the relay told its neighbour `peer` how far it has a stream of it, and whether these packets wait there or "
        "behind it",
        (*_STREAM, "here", "waits", "peer", "session"),
    ),
    "onward_received": Event(
        "a relay said how far it has a stream. While it `waits`, no resend tier of its origin runs for these packets; "
        "the word ends with its session",
        (*_STREAM, "here", "waits", "session"),
    ),
    "onward_ack_sent": Event(
        "the node told its neighbour `peer`, whose link to it is synchronous, that the packets of `ranges` are on the "
        "disk behind it",
        (*_STREAM, "ranges", "is_async", "peer"),
    ),
    "onward_ack_received": Event(
        "the next hop of a synchronous link said that the packets of `ranges` are on the disk behind it",
        (*_STREAM, "ranges", "is_async"),
        (("session",),),
    ),
    "link_downgraded": Event(
        "`awaited` packets wait for the next hop of a synchronous link to pass them on, the oldest for too long: until "
        "further notice its store acks are enough",
        ("peer_name", "oldest_ns", "awaited", "downgrade_after_ns", "grace_ns"),
    ),
    "link_upgraded": Event(
        "the oldest packet waits for less, or none does: the link is synchronous again",
        ("peer_name", "oldest_ns", "awaited", "upgrade_below_ns"),
    ),
    "resend_scheduled": Event(
        "a resend tier ran out: unacknowledged packets of the sequence go out again",
        (*_STREAM, "first", "last", "attempt", "interval_ns"),
    ),
    "removed": Event(
        "the origin gives packets up: they are sent no more, and one of the next commits moves their messages to its "
        "dead-letter queue, unless they are freed before. A process that dies in between has them again. `reason` is "
        "`expired`, `session-lost`, `purged` or that of the peer's rejection",
        (*_PACKETS, "reason"),
    ),
    "handed": Event(
        "messages of one or more packets were handed to the application; `chosen` when a reader asked for one by its "
        "id, so that it came before its turn; or of a topic, to that of a subscription",
        ("redelivered",),
        (
            *((*_MESSAGES, *chosen, *priority) for priority in _PRIORITY for chosen in ((), ("chosen",))),
            (*_SUBSCRIPTION, "ranges"),
        ),
    ),
    "settled": Event(
        "messages of one or more packets are settled: the commit that begins now takes them out of their queue for "
        "good, as the application has acknowledged them, or they are dead letters or purged. A process that dies "
        "before it returns has them again. Of durable classes only. Of a subscription, of all classes: it has room for "
        "others from now on, the next commit takes them from it, and this record comes before those of the dispatch "
        "that follows from that. `recovered`: readers of an earlier process were done with them when that died, and "
        "its log may lack that, and their `handed`",
        (),
        (_MESSAGES, (*_MESSAGES, "journaled"), (*_MESSAGES, "recovered"), (*_SUBSCRIPTION, "ranges")),
    ),
    "journal_asked": Event(
        "messages of one packet ask for a copy in the journal of this node: the commit that begins now holds it "
        "(express: it enters memory). Of a large message, the packet is its last",
        (*_STREAM, "number", "place", "count"),
    ),
    "journaled": Event(
        "messages of one or more packets are copied into the journal of their queue by the commit that begins now, and "
        "that removes them; not `kept` where the journal has no room, or no reader took them. With the queue "
        "`$journal`: messages of this node that ask for it, which an acknowledgement has freed, or which are in a "
        "queue of the node with that commit. A process that dies before it returns has them again. Express messages "
        "need no commit",
        (*_MESSAGES, "kept"),
    ),
    "returned": Event(
        "messages of one or more packets came back unsettled from the application: they are handed "
        "out again, perhaps after a wait, in which younger ones may pass",
        (),
        (_MESSAGES, (*_SUBSCRIPTION, "ranges", "overdue")),
    ),
    "purged": Event(
        "messages of one or more packets were taken out of their queue: given up or moved by hand, or, of the "
        "dead-letter queue, lost to newer letters. A process that dies before its next commit has them again",
        _MESSAGES,
    ),
    "expired": Event(
        "the time to be received of messages ended while they waited in their queue, or for a subscription: the commit "
        "that begins now moves them to this node's dead-letter queue (those of a subscription that is not durable are "
        "dropped). A process that dies in between has them again",
        ("receive_by_ms",),
        _IN_HAND,
    ),
    "topic_opened": Event(
        "the node serves a topic from now on; at a start after it was there before, and again when its settings "
        "change. The next message gets the place `first`",
        ("topic", "strategy", "delivery_timeout_ns", "first"),
    ),
    "placed": Event(
        "messages of one or more packets of one name have arrived in a topic, for good, and have their places; right "
        "behind the `committed` of them. `recovered`: they were in the store at the start",
        (*_STREAM, "topic", "below", "number", "counts", "at_place"),
        ((), ("recovered",)),
    ),
    "subscribed": Event(
        "a subscription has begun, and gets what is placed from now on; one record for each topic that its pattern "
        "can match, also for a topic that begins later. The next commit has a durable one: a process that dies before "
        "that returns has it no more. `recovered`: it was in the store at the start; `peer_name`: the node to which it "
        "belongs, if that is another one, as messages go there; `subscriber`: the id of that node, whatever its way",
        (*_SUBSCRIPTION, "pattern", "durable", "after", "max_unacked", "ack_wait_ns"),
        (
            (),
            ("recovered",),
            ("peer_name", "subscriber"),
            ("recovered", "peer_name", "subscriber"),
        ),
    ),
    "unsubscribed": Event(
        "a subscription has ended, and nothing waits for it any more. `reason` is `unsubscribed`, `closed` when the "
        "holder of one that is not durable went away, or `lost` when its node did; of another node `not-renewed` when "
        "that was not heard for too long, or `replaced` when it has asked for another one of that name",
        (*_SUBSCRIPTION, "reason"),
    ),
    "subscription_changed": Event(
        "a durable subscription has a new holder, with other limits than the one before",
        (*_SUBSCRIPTION, "max_unacked", "ack_wait_ns"),
    ),
    "subscription_suspended": Event(
        "the holder of a subscription that is not durable has suspended it: it gets nothing, is not asked for room, "
        "and misses what is dispatched until it is resumed",
        _SUBSCRIPTION,
    ),
    "subscription_resumed": Event(
        "the holder of a suspended subscription has resumed it: it gets what is dispatched from now on",
        _SUBSCRIPTION,
    ),
    "dispatched": Event(
        "the strategy let messages go, in their order: to each subscription that is not durable, matches, and began "
        "before they arrived. A record has no more than what was decided at one moment. (Durable "
        "ones follow no strategy: they have a message once it is placed.)",
        ("topic", "first", "last"),
    ),
    "assigned": Event(
        "behind each `dispatched`: how many of those messages became pending for a subscription; none for one that got "
        "none",
        (*_SUBSCRIPTION, "first", "last", "count"),
    ),
    "discarded": Event(
        "under `discard_allowed`: the eldest messages of a subscription are acknowledged in its place, as it has not "
        "done so within the timeout",
        (*_SUBSCRIPTION, "first", "last", "age_ns", "pending"),
    ),
    "passed_on": Event(
        "messages of a subscription of another node are on their way there, as those of a stream to its queue: behind "
        "their `handed`, and before the `queued` of their packets. A durable subscription is done with them (`settled`)"
        " in the same commit, any other one when they have arrived",
        (*_STREAM, *_SUBSCRIPTION, "ranges"),
    ),
    "late_ack": Event(
        "the application acknowledged, or gave back, messages that are its no longer: discarded, given back as "
        "overdue, or of a subscription that has ended. That changes nothing",
        (*_SUBSCRIPTION, "ranges"),
    ),
    "content_freed": Event(
        "no subscription wants these messages any more: the next commit deletes them. A process that dies before it "
        "returns has them again. `reason` is `all`, when all that wanted them are done, or `nobody`, when "
        "none did",
        ("topic", "ranges", "reason"),
    ),
    "admin_ack_asked": Event(
        "messages of one packet ask for administration messages: the commit that begins now holds it (express: it "
        "enters memory). Of a large message, the packet is its last",
        (*_STREAM, "number", "place", "count", "acks"),
    ),
    "admin_ack_queued": Event(
        "what happened to messages of one packet is sent to their origin, in an administration message for each: the "
        "commit that begins now holds it, and what it tells of. A process that dies before it returns does both again. "
        "The packet is the one that the messages came in; of a large message, its last",
        (*_STREAM, "number", "place", "count", "message_class"),
        ((), ("lost",)),
    ),
    "bridge_took": Event(
        "messages of one or more packets, which are queued, came from a broker: behind their `queued`, and before the "
        "`bridge_acked` of the bridge. Or how many of those that came were `known` by their keys, and not sent again",
        ("bridge", "where"),
        ((*_STREAM, "number", "place", "counts"), ("known",)),
    ),
    "bridge_acked": Event(
        "a bridge acknowledges `count` messages to its broker from now on; of them, `known` had come before, as their "
        "packet ids say",
        ("bridge", "count", "known"),
    ),
    "bridge_drew": Event(
        "a bridge has taken messages out of a queue here, to give them to its broker: right behind their `handed`",
        ("bridge", "where"),
        _IN_HAND,
    ),
    "bridge_gave": Event(
        "the broker has acknowledged messages that a bridge had taken out of a queue; with `reason`, it never will, "
        "and they are moved to the queue of the bridge for such messages",
        ("bridge", "where"),
        (*_IN_HAND, *((*fields, "reason") for fields in _IN_HAND)),
    ),
    "bridge_let_go": Event(
        "the commit that begins deletes messages that a bridge had taken out of their queue, before their `settled`. A "
        "process that dies before it returns has them again",
        ("bridge", "where"),
        _IN_HAND,
    ),
    "queue_paused": Event(
        "an operator has paused a queue of this node, `peer/queue`, or `peer/` for all outgoing queues to a peer: "
        "nothing leaves it until it is resumed",
        ("queue", "arrivals"),
    ),
    "queue_resumed": Event("an operator has resumed a paused queue", ("queue",)),
    "queue_quota_set": Event(
        "an operator has set the quota of a queue of this node, or has left it to the settings again",
        ("queue", "messages", "size_bytes", "when_full", "by_settings"),
    ),
    "dropped": Event(
        "datagrams were dropped; written when the node stops and at most once a second", ("reason", "count")
    ),
}

SHARED: Final = (
    "session", "class", "origin", "stream", "sequence", "queue", "peer", "peer_name", "final", "hops",
    "resend", "duplicate", "recovered", "redelivered", "priority", "sealed", "topic",
    "subscription",
)  # fmt: skip
"""Fields that are alike in many records: a segment says them once and refers to them (``base/log_lines.py``)."""

SHARING: Final = frozenset(EVENTS) - {
    "node_started", "node_continued", "node_stopped", "start_before", "woke_late", "position_recovered",
    "session_opened", "session_closed", "rollback_detected", "dropped", "queue_paused", "queue_resumed",
    "queue_quota_set",
    "topic_opened", "subscribed", "unsubscribed", "subscription_changed", "subscription_suspended",
    "subscription_resumed",
}  # fmt: skip
