"""The catalogue: every check of replay by its id, what must hold, why it matters, the source of the rule, the evidence.

``docs/checks.md`` is written from here. A rule of a machine has its check here; ``MACHINES`` says which check watches
which machine, and a test compares it with the machines that there are.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Check(NamedTuple):
    """One promise that session logs can prove or disprove.

    Attributes:
        sentence: what must hold.
        why: what a user loses when it does not.
        source: where the rule comes from.
        evidence: what a violation shows.
    """

    sentence: str
    why: str
    source: str
    evidence: str


CHECKS: Final[dict[str, Check]] = {
    # What the application sees.
    "order": Check(
        "Committed numbers of a stream rise at their destination, and messages are handed out in that order.",
        "A reader that sees the second step before the first acts on a world that never was.",
        "MS-MQQB 3.1.5.8.6",
        "the range that came late, and what had come before it",
    ),
    "gaps": Check(
        "A commit never skips a queued packet that was neither removed nor committed before.",
        "What is skipped in an ordered stream is never delivered: its position has passed.",
        "MS-MQQB 3.1.5.8.6",
        "the packets that were skipped",
    ),
    "previous": Check(
        "A transactional packet is committed only behind the one that its origin named as its previous.",
        "`previous` is what tells an expired packet from one that is late.",
        "MS-MQQB 3.1.5.8.6",
        "the number, its previous, and the position before it",
    ),
    "duplicates_delivered": Check(
        "No packet is committed twice, no message is handed out again without being marked.",
        "Exactly once is the promise; a second copy is a second payment.",
        "docs/guide.md, delivery classes",
        "how often, and how many messages",
    ),
    "express_twice": Check(
        "No express packet enters its queue twice in one life of its node.",
        "Express is at most once in a life of the receiver.",
        "docs/guide.md, delivery classes",
        "the packets",
    ),
    "priority_order": Check(
        "No message is handed out while one of a higher priority waits in its queue.",
        "What is urgent is late, and no figure shows why.",
        "MS-MQDMPR 3.1.1.18",
        "both priorities, and the record of the message that came first",
    ),
    "unmarked": Check(
        "What was handed out as redelivered is never handed out as new later.",
        "An application that trusts the mark would do its work again.",
        "docs/receiving.md",
        "the messages",
    ),
    "not_handed": Check(
        "What is committed is handed out, purged or expired before what its stream commits later is handed out.",
        "A message that never leaves its queue is lost to its reader, whatever the disk says.",
        "docs/receiving.md",
        "the packets left behind",
    ),
    "expired": Check(
        "What has expired in its queue is not handed out afterwards, in that life of the node.",
        "Its sender said until when to act on it, and it is a dead letter already.",
        "docs/sending.md",
        "the packets and when they were handed out",
    ),
    "lost": Check(
        "What the origin forgot because it was acknowledged is on disk at its destination.",
        "This is the loss that the three acknowledgements exist to prevent.",
        "base/delivery.py, FREED_BY",
        "the packets and how many messages they hold",
    ),
    "queue": Check(
        "What is sent or committed was queued at its origin, and what is handed out was committed before.",
        "A message out of nowhere is forged, or its record is.",
        "docs/session-log.md",
        "what happened to the packet without its cause",
    ),
    # What survives.
    "not_recovered": Check(
        "What a destination had committed or acknowledged is there again when it has started again.",
        "Durable means that a crash cannot take it back.",
        "decisions/0006",
        "the packets, and what the node found on its disk",
    ),
    "recovered_from_nowhere": Check(
        "What a start finds on its disk had come to its node before, or was passed over; a first start finds nothing.",
        "A start that could claim any position would hide every loss before it.",
        "docs/session-log.md",
        "the packets that no earlier record of the node shows",
    ),
    "forgotten": Check(
        "After a restart an origin has again everything durable that was neither acknowledged nor removed.",
        "`receipt.queued()` had returned: the message must be on its way until it has arrived.",
        "docs/guide.md, delivery classes",
        "the packets",
    ),
    # Journals.
    "journal_complete": Check(
        "Each message that a reader took from a queue with a journal, and each freed one whose sender asked for that, "
        "is copied by the commit that deletes it, or a record says that it is not.",
        "An audit by its journal would miss a message that was delivered.",
        "decisions/0097",
        "the messages",
    ),
    "journal_twice": Check(
        "No message is copied into a journal twice.",
        "An audit would count it twice, and to send the copies again would do twice what was asked for once.",
        "decisions/0097",
        "the message",
    ),
    "journal_early": Check(
        "A copy is of a message that a reader was handed, or that an acknowledgement of its class has freed.",
        "An audit would show as delivered what is lost if the node dies now.",
        "decisions/0097",
        "the message",
    ),
    # Administration messages.
    "admin_ack_missing": Check(
        "A sender that asked for it hears of each message in its queue, and of each settled one.",
        "A sender whose process is gone learns of its messages by nothing else.",
        "MS-MQQB 3.1.7.15",
        "the message, and what was not told",
    ),
    "admin_ack_twice": Check(
        "No sender hears twice of what happened to a message.",
        "A program that counts its answers pays twice.",
        "MS-MQQB 3.1.7.15",
        "the message, and what was told again",
    ),
    "admin_ack_made_up": Check(
        "A sender hears only what it asked for, and only what has happened at the node that says so.",
        "It would take work for done that has not begun.",
        "MS-MQQB 3.1.7.15",
        "the packet, and what was told",
    ),
    # Relays.
    "transit_forgotten": Check(
        "After a restart a relay has again everything durable that it took and has not freed.",
        "The node before it forgot a recoverable message on the relay's word.",
        "base/delivery.py, FREED_BY",
        "the packets",
    ),
    "freed_too_early": Check(
        "A relay forgets a packet only by the ack of the next hop that frees its class there, or when it gives it up.",
        "Between two hops exactly one node answers for a message; freed early, none does.",
        "base/delivery.py, FREED_BY",
        "the packets, and what freed them",
    ),
    "transit_unsent": Check(
        "The ack that frees a packet at a relay is of a session that carried it to the next hop.",
        "It would free what never left.",
        "base/delivery.py, FREED_BY",
        "the packets, and the session",
    ),
    "onward_early": Check(
        "A relay says that packets are stored behind it only when the ack of its next hop has said so.",
        "The node before it forgets a recoverable message on that word, as its link is synchronous.",
        "ordering/onward.py",
        "the packets",
    ),
    "downgrade_rule": Check(
        "A synchronous link is downgraded only when its oldest packet has waited for longer than it may, and not in "
        "the grace after a start; it is upgraded when the oldest has waited for less than the bound.",
        "A link that is asynchronous without need lets go of messages that only one disk has.",
        "ordering/onward.py, TRANSITIONS",
        "the peer, the age and the bound",
    ),
    "hop_limit": Check(
        "No packet passes more than 29 relays.",
        "Where routes lead in a ring, a packet without a limit never stops.",
        "MS-MQMQ 2.2.19.2, UserHeader.RC",
        "the packets, and their hop count",
    ),
    "hops_step": Check(
        "A packet leaves its origin with hop count 0, and each relay with one more than it came with.",
        "A count that does not rise is no limit.",
        "MS-MQMQ 2.2.19.2, UserHeader.RC",
        "the packets, and their hop count",
    ),
    "previous_raised": Check(
        "A relay names no previous packet that it was not told, and of unordered classes none that it still has.",
        "The destination takes what lies between for given up, and never accepts it.",
        "MS-MQQB 3.1.1.6.2; ordering/wire.py",
        "the packets, and what they say",
    ),
    "rejection_made_up": Check(
        "A relay passes on only rejections that a node gave, and an origin gives packets up as rejected only for one.",
        "The messages become dead letters though their destination would have taken them.",
        "MS-MQQB 3.1.5.8.6",
        "which packet, and by which node",
    ),
    "order_ack_made_up": Check(
        "A relay passes on only order acks that a destination gave.",
        "The origin deletes its only copy on that word.",
        "MS-MQQB 3.1.1.6.2",
        "which order ack, and who passed it on",
    ),
    "end_overtakes": Check(
        "A relay passes the end of a stream on only when no packet of that stream is there any more.",
        "The destination forgets the stream, and refuses what comes later.",
        "docs/decisions/0092-relays.md",
        "the packets that were there",
    ),
    "word_astray": Check(
        "A relay passes order acks and rejections only to a neighbour that brought packets of their stream.",
        "No other node waits for them: the origin sends again and again.",
        "docs/session-log.md",
        "who was told",
    ),
    # Topics.
    "topic_lost": Check(
        "What is placed in a topic is assigned and handed to each subscription that is to get it, or stays pending; "
        "and a subscription of another node is done with what was passed on in a packet to it.",
        "A subscriber that misses one message of many never notices.",
        "docs/topics.md, what a subscription gets",
        "the messages, by their places, and the subscription that missed them",
    ),
    "topic_before_join": Check(
        "A subscription gets nothing that had arrived before it began.",
        "It would act on what was over before it was there.",
        "docs/topics.md, what a subscription gets",
        "the messages, and after which place it began",
    ),
    "topic_astray": Check(
        "A subscription gets only messages of names that its pattern matches.",
        "Its application would act on what it never asked for.",
        "docs/topics.md, names and patterns",
        "the messages, and the pattern",
    ),
    "topic_twice": Check(
        "No message is handed to a subscription again unless it came back or its node started, and then it is marked; "
        "and none is passed on to another node again once its packet is queued.",
        "Exactly once for each subscription is the promise.",
        "docs/topics.md, what a subscription gets",
        "the messages, and the subscription",
    ),
    "subscriber_twice": Check(
        "A node has one subscription of a name to a topic, by whatever way its requests come.",
        "A subscriber whose way changes would get everything twice from then on.",
        "docs/topics.md, subscriptions over a relay",
        "both subscriptions, and the node",
    ),
    "topic_order": Check(
        "Messages of a topic are placed, dispatched and handed to each subscription in their order.",
        "A reader that sees the second step before the first acts on a world that never was.",
        "docs/topics.md, what a subscription gets",
        "the messages, and what had gone before them",
    ),
    "none_rule": Check(
        "Under `discard_none` and `discard_allowed` a message is dispatched when, and as soon as, one of the "
        "subscriptions that get it has room, or there is none.",
        "Earlier, and nothing slows the publisher; later, and one stalled subscription stops all others.",
        "WSO2 Message Broker, Configuring the Message Delivery Strategy",
        "the messages, and which subscriptions had no room",
    ),
    "slowest_rule": Check(
        "Under `slowest_sub_rate` a message is dispatched when, and as soon as, all subscriptions that get it have "
        "room.",
        "Earlier, and the slowest subscriber is buried in what it cannot take.",
        "WSO2 Message Broker, Configuring the Message Delivery Strategy",
        "the messages, and which subscriptions had no room",
    ),
    "discard_rule": Check(
        "Only under `discard_allowed`, and `delivery_timeout` after its dispatch, a message that is pending for a "
        "subscription is dropped for it, the eldest first.",
        "Earlier, and a subscriber loses what it may still acknowledge; later, and a stalled one fills the disk.",
        "WSO2 Message Broker, Configuring the Message Delivery Strategy; deliveryTimeout in broker.xml",
        "what was dropped, and what it loses by the rule",
    ),
    "content_freed_early": Check(
        "A message of a topic is deleted only when no subscription wants it, nor will get it.",
        "It is stored once for all of them: deleted early, it is lost to each that comes later.",
        "docs/topics.md, what is stored",
        "the messages, and who wanted them",
    ),
    "subscription_forgotten": Check(
        "After a restart of its node a durable subscription is there, unless it was ended.",
        "What is published meanwhile is lost to it, without a word.",
        "docs/topics.md, durable subscriptions",
        "the subscription and its pattern",
    ),
    "ack_wait": Check(
        "With an `ack_wait`, a message that its reader holds for that long comes back then, and not before.",
        "Too late, and a reader that hangs keeps it; too early, and it is processed twice.",
        "WSO2 Message Broker, AndesAckWaitTimeOut",
        "the messages, and how long readers had them",
    ),
    # The order ack.
    "order_ack_before_commit": Check(
        "An order ack never says more than its node had committed.",
        "The origin deletes its only copy on that word.",
        "design of the order ack; ordering/order_ack.py",
        "what was acknowledged and what was committed",
    ),
    "order_ack_late": Check(
        "An order ack leaves at the latest `seq_max_ack_delay` after the commit that it speaks of, given a session.",
        "Withheld, it keeps the origin's disk full and makes it send again for nothing.",
        "MS-MQQB 3.1.2.7",
        "how long it took, what is allowed",
    ),
    # The store ack.
    "store_ack_before_commit": Check(
        "A store ack never covers a packet that its node had not committed.",
        "The origin deletes a recoverable message on that word.",
        "session/acknowledgements/store_ack.py",
        "the packets",
    ),
    "store_ack_late": Check(
        "A store ack leaves within its agreed delay, or directly when enough packets or bytes are on disk.",
        "Withheld, it keeps recoverable messages on the origin's disk, and at last closes a healthy session.",
        "MS-MQQB 3.1.2.5; session/acknowledgements/store_ack.py",
        "how many packets, how long it took, what is allowed",
    ),
    "store_ack_unsent": Check(
        "No store ack leaves for a packet that had not arrived.",
        "It would free a packet that is still on its way.",
        "session/acknowledgements/store_ack.py",
        "the packets",
    ),
    # The session ack.
    "ack_unsent": Check(
        "No ack leaves for a packet that had not arrived.",
        "It would free an express packet that is still on its way.",
        "session/acknowledgements/session_ack.py",
        "the packets",
    ),
    "ack_unreceived": Check(
        "No ack arrives for a packet that was not sent.",
        "An ack of what never left is forged or mixed up; nothing that it says can be believed.",
        "RFC 9000 13.1",
        "the packets",
    ),
    "ack_from_nowhere": Check(
        "No ack of any kind arrives that its peer did not send.",
        "A peer that forges one makes a sender forget.",
        "docs/session-log.md",
        "which ack, of what, from whom",
    ),
    "ack_taken_back": Check(
        "No ack says less than an earlier one: within a session, and at any time for order acks.",
        "What was acknowledged may be deleted already.",
        "RFC 9000 13.2.3",
        "both numbers",
    ),
    "half_window": Check(
        "An ack leaves as soon as the threshold of new packets, or of their bytes, is reached.",
        "Later, and the sender stands still at a full window.",
        "MS-MQQB 3.1.1.6.1",
        "how many packets came in how many later moments, and when the ack left",
    ),
    "idle_delay": Check(
        "An ack leaves within the idle delay of the first packet it covers, and the agreed quiet time of the last.",
        "Later, and the sender takes the silence for a dead link.",
        "MSMQ IdleAckDelay",
        "how long it took, the delay in force, and the tolerance",
    ),
    "at_once": Check(
        "If so agreed, an ack leaves directly when a packet is missing before one that came, or when one comes twice.",
        "A sender that hears late of a loss mends it late.",
        "RFC 9000 13.2.1",
        "what happened, how many later moments brought packets, and when the ack left",
    ),
    "policy": Check(
        "Both ends of a session have the initiator's policy in force, and hold no ack back beyond half of a timeout.",
        "Two ends that disagree close a healthy link again and again.",
        "MS-MQQB 2.2.2.1, 3.1.2.5",
        "what is in force at one end, and at the other",
    ),
    # Sessions.
    "window": Check(
        "A sender never has more unacknowledged packets than the session's window.",
        "The window is what bounds the memory of both ends.",
        "MSMQ MaxUnackedPacket",
        "how many, and the window",
    ),
    "wire": Check(
        "Packets of a session count 1, 2, 3, ..., keep their number and content, and arrive only as they were sent.",
        "An arrival without a send is forged; a number that changes breaks every acknowledgement.",
        "docs/session-log.md",
        "what does not fit",
    ),
    "silent_end": Check(
        "A session opens once, ends once by a known reason or with its node, and is silent before and after.",
        "What happens outside a session is under no promise at all.",
        "session/protocol/states.py",
        "what happened, and when the session was open",
    ),
    "ack_timeout": Check(
        "A session closes by a timeout of acks or store acks only if one was awaited, or the answer to a ping, not "
        "before the shortest timeout.",
        "Too early, and every slow answer costs a full resend.",
        "MSMQ AckTimeout, StoreAckTimeout; RFC 6298",
        "the silence, and the timeout in force",
    ),
    "silence": Check(
        "A session with packets unacknowledged, or a ping unanswered, hears from its peer within the longest ack "
        "timeout, or closes.",
        "A sender that waits without end on a dead link never sends what it has by another session.",
        "MSMQ AckTimeout; decisions/0051",
        "how long it heard nothing, the timeout in force, and the tolerance",
    ),
    "store_silence": Check(
        "A session with packets not known to be on its peer's disk gets a store ack within the longest timeout, or "
        "closes.",
        "A sender that waits without end on a peer whose disk hangs never sends what it has by another session.",
        "MSMQ StoreAckTimeout",
        "how long no store ack came, the timeout in force, and the tolerance",
    ),
    "idle_close": Check(
        "A session closes as idle only when one of its ends had no packet for its cleanup interval.",
        "Too early, and each pause costs a handshake.",
        "MSMQ CleanupInterval; MS-MQQB 3.1.6.2",
        "how long after the last packet, and the interval",
    ),
    "idle_open": Check(
        "A session in which nothing waits, and of which no store ack is to be given, closes when it had no packet for "
        "the cleanup interval of either end, unless relays pass its packets on.",
        "Sessions without a use fill the memory of both ends.",
        "MSMQ CleanupInterval; MS-MQQB 3.1.6.2",
        "how long it has been open without a packet, and the interval",
    ),
    "path_size": Check(
        "An end of a session sends no datagrams longer than a probe that has come to the other end.",
        "What the path does not carry is lost each time, and a session that sends it stands still.",
        "RFC 8899; session/path/path_mtu.py",
        "the size in force, and the longest probe that has come",
    ),
    "unsent": Check(
        "What is queued leaves within 10 s if a session with its peer has nothing unacknowledged all that time.",
        "A message that waits in an open session with room is never sent.",
        "design of the sessions; queues/peers/link.py",
        "the packets, and since when they waited",
    ),
    "close_without_full_resend": Check(
        "After a failed session the next one carries every unacknowledged packet of its streams, none skipped.",
        "What is skipped waits for a resend tier, or without end.",
        "design of the session's end",
        "the packets, and the session that went on without them",
    ),
    "resend_tiers": Check(
        "Resend attempts count 1, 2, ..., each after the wait of its tier; progress, a new session or way starts anew.",
        "Too early floods a sick peer; too late, or never, is a message that waits without end.",
        "MS-MQQB note <24>, MSMQ SeqResend13Time and its siblings",
        "the attempt, the time waited, and the wait of the tier in force",
    ),
    "rejected": Check(
        "What is rejected has arrived; what is rejected as a duplicate was accepted or refused before, or waits.",
        "A false rejection makes the origin believe that a message has arrived.",
        "ordering/incoming.py",
        "the number and the position",
    ),
    # The record itself.
    "claims": Check(
        "What a record says of itself agrees with the other records: counts, sizes, triggers, waits.",
        "A log that contradicts itself proves nothing.",
        "docs/session-log.md",
        "what is claimed and what the other records say",
    ),
    "node_life": Check(
        "A start of a node begins with `node_started`, ends with `node_stopped` or a crash, and starts count 1, 2, 3.",
        "Two processes on one store, or half a log, must not pass for one node.",
        "docs/session-log.md",
        "what came where",
    ),
    "clock": Check(
        "Within a start the monotonic clock never falls and the wall clock keeps its distance from it.",
        "Every limit of time is judged by it.",
        "docs/session-log.md",
        "both times",
    ),
    "clocks": Check(
        "By the clocks of both ends of a session nothing arrives before it left, and neither clock loses a fifth.",
        "Every limit of time is judged by these clocks: one that runs slow keeps all of them.",
        "tools/replay/checks/clock_check.py",
        "by how much, and with which record",
    ),
    "log_gap": Check(
        "The serial numbers of a node's records have no gaps.",
        "Where a record is missing, anything may have happened.",
        "docs/session-log.md",
        "both serials",
    ),
    # The replay itself.
    "engines_disagree": Check(
        "What the judges count in logs that they pass, a second count in expressions of Spark counts, too.",
        "A judge that is wrong must not pass logs in silence.",
        "tools/replay/tables/counts.py",
        "both counts",
    ),
}
"""All checks, in the order in which the report shows them."""

IN_TIME: Final = (
    "ack_wait", "none_rule", "slowest_rule", "topic_lost",
    "at_once", "half_window", "idle_delay", "idle_open", "order_ack_late", "resend_tiers", "silence", "store_ack_late",
    "store_silence", "unsent",
)  # fmt: skip
"""The checks of limits of time: what a process that stands still cannot keep."""

MACHINES: Final[dict[str, tuple[str, ...]]] = {
    "base/ack_debt": ("half_window", "idle_delay", "at_once", "store_ack_late", "order_ack_late"),
    "base/delivery": ("lost", "forgotten"),
    "ordering/departing": ("close_without_full_resend", "unsent"),
    "ordering/duplicates": ("duplicates_delivered", "express_twice", "rejected"),
    "ordering/hold": ("rejected", "gaps", "resend_tiers"),
    "ordering/incoming": ("order", "gaps", "previous", "rejected", "recovered_from_nowhere"),
    "ordering/order_ack": ("order_ack_before_commit", "order_ack_late", "ack_taken_back"),
    "ordering/outgoing": ("close_without_full_resend", "queue"),
    "ordering/rejections": ("rejected", "rejection_made_up"),
    "ordering/tiers": ("resend_tiers",),
    "ordering/onward": ("downgrade_rule", "onward_early"),
    "ordering/transit": (
        "transit_forgotten",
        "freed_too_early",
        "transit_unsent",
        "hop_limit",
        "hops_step",
        "previous_raised",
    ),
    "queues/transit/transit_onward": ("onward_early", "word_astray"),
    "queues/transit/transit_words": ("order_ack_made_up", "rejection_made_up", "word_astray"),
    "queues/transit/transit_ends": ("end_overtakes",),
    "queues/topics/strategies": ("none_rule", "slowest_rule", "discard_rule"),
    "queues/topics/subscription": ("topic_twice", "topic_order", "topic_lost", "ack_wait"),
    "queues/topics/topic_root": ("content_freed_early", "topic_lost", "topic_order"),
    "queues/topics/topics": ("subscription_forgotten",),
    "queues/topics/trie": ("topic_astray", "topic_before_join"),
    "queues/remote/pump": ("topic_lost", "topic_twice"),
    "queues/remote/peer_subscriptions": ("subscriber_twice",),
    "queues/streams/group_commit": ("store_ack_before_commit", "order_ack_before_commit"),
    "queues/mailboxes/expiry": ("expired",),
    "queues/journals/journals": ("journal_complete", "journal_early", "journal_twice"),
    "queues/streams/sent_copies": ("journal_complete", "journal_early", "journal_twice"),
    "queues/manager/admin_desk": ("admin_ack_missing", "admin_ack_twice", "admin_ack_made_up"),
    "queues/mailboxes/mailbox": ("not_handed", "unmarked", "duplicates_delivered", "order", "priority_order"),
    "session/congestion/send_window": ("window", "wire", "ack_unreceived", "ack_timeout", "silence"),
    "session/idle": ("idle_close", "idle_open"),
    "session/loss_timers": ("ack_timeout", "silence", "store_silence"),
    "session/acknowledgements/store_ack_waiter": ("ack_timeout", "store_silence"),
    "session/session": ("silent_end", "ack_from_nowhere"),
    "session/acknowledgements/probing": ("ack_timeout", "silence"),
    "session/protocol/policy": ("policy",),
    "session/congestion/auto_window": ("window",),
    "session/path/path_mtu": ("path_size",),
    "session/path/pieces": ("wire", "ack_unsent"),
    "session/path/path_size": ("path_size",),
    "session/acknowledgements/session_ack": ("ack_unsent", "ack_taken_back"),
    "session/protocol/states": ("silent_end",),
    "session/acknowledgements/store_ack": ("store_ack_unsent", "ack_taken_back", "store_ack_late"),
    "node/shell/life": ("node_life",),
}
"""The machines that make a promise, and the checks that watch them."""
