"""Why something was dropped, refused or given up: each reason by name, with a sentence for people.

``Node.stats`` counts the names, the session log has them, and docs/reasons.md lists them.
"""

from enum import StrEnum
from typing import Self


class Reason(StrEnum):
    """A name that is counted and logged; ``sentence`` explains it."""

    sentence: str

    def __new__(cls, name: str, sentence: str) -> Self:
        """Make a member of its name and its sentence."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.sentence = sentence
        return member


class DropReason(Reason):
    """Why a datagram, a frame of one, or a connection was dropped."""

    # On the way out or in: sockets.
    TOO_LARGE = "too-large", "A datagram was larger than its transport, or the way out of the machine, carries."
    UNRESOLVED = "unresolved", "The host name of the destination was not found, or too much waited for the answer."
    WRONG_FAMILY = "wrong-family", "This machine cannot reach addresses of that kind (IPv4, IPv6)."
    NOT_LOOPBACK = "not-loopback", "A node without keys was to send beyond its machine."
    SEND_ERROR = "send-error", "The operating system refused to send a datagram."
    CANNOT_SEND = "cannot-send", "No endpoint could be opened for the destination."
    SEND_OVERFLOW = "send-overflow", "A TCP connection or socket that takes no more had too much waiting."
    CONNECT_FAILED = "connect-failed", "A TCP connection could not be made."
    CLOSED = "closed", "The endpoint, or the connection, had been closed."
    UNREACHABLE = "unreachable", "No node has that address on the in-memory network."
    RECEIVE_ERROR = "receive-error", "The operating system reported an error instead of a datagram."
    RECEIVE_OVERFLOW = "receive-overflow", "Datagrams arrived faster than the node took them."
    EMPTY = "empty", "A datagram had no content."
    FRAME_TOO_LARGE = "frame-too-large", "A TCP connection announced a datagram over the limit, and was ended."
    FRAME_TIMEOUT = "frame-timeout", "A TCP connection left a datagram unfinished for too long, and was ended."
    TOO_MANY_CONNECTIONS = "too-many-connections", "A TCP connection of a stranger gave way to a newer one."
    NOT_VOUCHED = "not-vouched", "A TCP connection led to no session or enrolment in time, and was ended."
    # Reading a datagram.
    TOO_SHORT = "too-short", "A datagram was shorter than its header and tag."
    BAD_VERSION = "bad-version", "A datagram was of another version of the protocol."
    UNKNOWN_KIND = "unknown-kind", "A datagram was of no known kind."
    BAD_HEADER = "bad-header", "Bits of a datagram's header were set that its kind does not use."
    BAD_MAC = "bad-mac", "A connect, or an answer to one, was made by someone who does not know this node's public key."
    BAD_TAG = "bad-tag", "A datagram was not what its sender sealed."
    REPLAYED = "replayed", "A datagram had come before, or was too old to be checked."
    KEY_EXPIRED = "key-expired", "A datagram was sealed with a key that is no longer used."
    TOO_MANY_FORGERIES = "too-many-forgeries", "A connection had as many forged datagrams as its keys can bear."
    UNKNOWN_CONNECTION = "unknown-connection", "A datagram named a connection that does not exist, or no more."
    # Its content.
    BAD_HELLO = "bad-hello", "A hello could not be read, or held a value that cannot be."
    BAD_FRAME = "bad-frame", "A frame could not be read, or held a value that cannot be."
    REPEATED_FRAME = "repeated-frame", "A datagram had two frames of one kind, which no correct sender writes."
    BAD_PACKET = "bad-packet", "A packet's sequence header could not be read, or contradicted its stream."
    BAD_BODY = "bad-body", "A packet's messages could not be read."
    ACK_OF_UNSENT = "ack-of-unsent", "An acknowledgement covered packets that were never sent."
    NOT_OPEN = "not-open", "A datagram came for a session that was not open."
    BEYOND_WINDOW = "beyond-window", "A packet's number was further ahead than any correct sender's."
    NOT_OUR_PACKET = "not-our-packet", "An order ack or a rejection came from a node that has no say in that stream."
    FORGED_WORD = (
        "forged-word",
        "A word about sealed messages had no proof of their other end: an order ack, a rejection, the end of a stream.",
    )
    FOREIGN_ORIGIN = "foreign-origin", "A packet came in another node's name."
    NO_WAY_BACK = "no-way-back", "A rejection of a packet that was passed on found no open session towards its origin."
    END_ASTRAY = "end-astray", "The end of a stream came that may not be passed on, or that no route leads on."
    # Connecting.
    NO_KEY = "no-key", "A peer was to be called whose key is not known, or no longer."
    UNTRUSTED = "untrusted", "A connect came with a key that belongs to no peer."
    OTHER_SUITE = "other-suite", "A connect was made with another cipher or hash, or was changed on the way."
    CODE_EXPIRED = "code-expired", "An enrolment came with a code that was used, withdrawn, or is too old."
    NOT_INVITED = "not-invited", "An enrolment came with a code that this node has not given out."
    TOO_MANY_CONNECTS = "too-many-connects", "One host had more connects than its share, while too many came in all."
    REPEATED_CONNECT = "repeated-connect", "A connect was no newer than one before it; its sender was asked for proof."
    CLOSING = "closing", "A connect came while the node was closing, or after its store had failed."
    FOREIGN_NODE_ID = "foreign-node-id", "A peer took the id of a node that is known to be another peer's."
    OWN_NODE = "own-node", "A connect came from this node itself, or from a copy of it."
    CONNECTING_OURSELVES = (
        "connecting-ourselves",
        "Both ends connected at the same time, and this one's connect counts.",
    )
    UNEXPECTED_ACCEPT = "unexpected-accept", "An accept, or a request to prove an address, answered no connect of ours."
    UNEXPECTED_RESPONSE = "unexpected-response", "A response answered no challenge of ours, or came from elsewhere."
    LATE_CONNECT = "late-connect", "A connect came for a session that was open already."
    OUTDATED_ACCEPT = "outdated-accept", "A session was confirmed after another process of its node had opened one."
    ROLLBACK = "rollback", "A peer was refused because its store or ours is an older copy, or runs twice."
    TOO_MANY_SESSIONS = "too-many-sessions", "A connect found no room for one more session."
    HALF_OPEN_OVERFLOW = "half-open-overflow", "An unfinished connection gave way to a newer one."
    # No room.
    CONTROL_OVERFLOW = (
        "control-overflow",
        "An order ack, a rejection or an answer about a subscription found too many waiting for the same peer.",
    )
    TOO_MANY_ENDS = (
        "too-many-ends",
        "A peer ended streams and left more gaps between them than it may have.",
    )
    SMALL_PART = "small-part", "A part of a large body came behind one so small that it had to be the last."
    PARTIAL_OVERFLOW = "partial-overflow", "An unfinished large express message gave way to newer ones."
    SUSPENDED_OVERFLOW = "suspended-overflow", "A suspended peer was refused and not remembered, as too many are."
    DEAD_LETTERS_FULL = "dead-letters-full", "A message found the quota of dead letters full, and is gone."
    DEAD_LETTER_REPLACED = (
        "dead-letter-replaced",
        "A dead letter gave way to newer ones before it was read, and is gone.",
    )
    LETTER_DECLINED = "letter-declined", "A message was given up whose sender wants no dead letter of it."
    ADMIN_ACK_LOST = (
        "admin-ack-lost",
        "An administration message was refused, had expired or was purged, or no way leads to its queue.",
    )
    EXPIRED_DISCARDED = "expired-discarded", "A message expired, and is gone, as its node keeps no such letters."
    JOURNAL_FULL = "journal-full", "A journal had no room, or the disk too little, for a copy of a message."
    JOURNAL_REPLACED = "journal-replaced", "The oldest copy in a journal gave way to newer ones."
    JOURNAL_EXPIRED = "journal-expired", "A copy had been in its journal for as long as it is kept."
    NO_SUBSCRIBER = "no-subscriber", "A message was published to a topic without a subscription."
    SUBSCRIPTION_REFUSED = "subscription-refused", "A node asked for a subscription that this node did not give it."
    SUBSCRIPTION_OVER = "subscription-over", "A message was on its way to a subscription that had ended."
    BAD_REQUEST = "bad-request", "A node sent a request about subscriptions that cannot be read, or is not its."
    TRANSIT_LOST = (
        "transit-lost",
        "A packet ended at a relay and is no dead letter, as it was express.",
    )
    # No longer awaited.
    LATE_ANSWER = "late-answer", "An answer came to a request whose program no longer waits."
    REQUEST_ENDED = "request-ended", "A request ran out of time on its way, or was refused; its caller got the error."


class RefusalReason(Reason):
    """Why a node does not give another one a subscription to its topics."""

    ACCESS_DENIED = "access-denied", "The node may not have these topics (may_subscribe), or another key has its name."
    TOO_MANY_SUBSCRIPTIONS = "too-many-subscriptions", "The node has as many subscriptions there as one may have."
    BAD_PATTERN = "bad-pattern", "The pattern, or another part of the request, cannot be read."
    MISMATCH = "mismatch", "The node has a subscription of that name to another pattern, or of another kind."
    TOPIC_NOT_FOUND = "topic-not-found", "The node with the topics has a fixed set of queues without this one."
    UNKNOWN = "unknown", "The node with the topics has named a reason that this node does not know."


class RejectReason(Reason):
    """Why the destination did not accept a packet."""

    DUPLICATE = "duplicate", "It was accepted before."
    STALE_SEQUENCE = "stale-sequence", "Its sequence has ended or been replaced, or has gone on without it."
    HOLD_FULL = "hold-full", "It came too early, and too many packets wait for those before them."
    ACCESS_DENIED = "access-denied", "Its origin may not send to that queue, or no other node may."
    QUEUE_NOT_FOUND = "queue-not-found", "The destination has a fixed set of queues, and this is none of them."
    BAD_QUEUE_NAME = "bad-queue-name", "No queue can have that name."
    HELD_BACK = "held-back", "There was no room for it now; its origin was asked to wait, and sends it again."
    QUEUE_FULL = "queue-full", "Its queue, or its origin's share of the node, is full, and the queue is set to refuse."
    TOO_LARGE = "too-large", "It is part of a message that is larger than all that its queue may take."
    LARGER_THAN_DISK = (
        "larger-than-disk",
        "It announces a large body that would not fit on the disk of the destination if that were empty.",
    )
    BODY_GONE = "body-gone", "It is a part of a large body that was given up, or that the destination has freed."
    PART_TOO_SMALL = (
        "part-too-small",
        "A part of a large body came behind one so small that it had to be the last.",
    )
    TOO_MANY_QUEUES = "too-many-queues", "The destination has as many queues as it may."
    NO_ROUTE = "no-route", "A relay knows no way to its destination."
    ROUTE_LOOP = "route-loop", "The routes lead back to a relay that it has passed, or to its origin."
    HOP_COUNT_EXCEEDED = "hop-count-exceeded", "It has passed as many relays as a packet may."
    NOT_SEALED = "not-sealed", "Its origin's messages, or those of the relay that brought it, must come sealed."
    BAD_SEAL = "bad-seal", "It was sealed for another node, or has changed on its way."
    UNKNOWN_SEALER = "unknown-sealer", "It was sealed with a key of no peer, or of another peer than its origin's."
    RENAMED = "renamed", "It is sealed, and the route of a relay calls its destination by another name."


class HoldReason(Reason):
    """Why a destination lets a stream wait."""

    QUEUE_FULL = "queue-full", "Its queue has reached its quota."
    PEER_QUOTA = "peer-quota", "Its origin's messages in the destination's queues have reached the quota of a peer."
    NODE_QUOTA = (
        "node-quota",
        "The destination's queues have reached their common quota, and its origin its share of that.",
    )
    PEER_MEMORY = "peer-memory", "Its origin's express messages in the destination's memory have reached their limit."
    PAUSED = "paused", "An operator of the destination lets nothing come into its queue."
    JOURNAL_FULL = "journal-full", "The journal of its queue has reached its quota, and is set to hold its senders."
    STORE_LOW = "store-low", "The disk of the destination has less room than its reserve."
    NO_ROOM_FOR_BODY = (
        "no-room-for-body",
        "The disk of the destination has no room for a large body beside its reserve and the bodies that are coming.",
    )
    STORE_BUSY = "store-busy", "Packets that wait for the destination's disk have reached their limit in memory."
    TOO_MANY_STREAMS = "too-many-streams", "The destination keeps as many streams of its origin as one peer may have."
    TRANSIT_FULL = "transit-full", "What waits at a relay for other nodes has reached its quota."
    OTHER_WAY = "other-way", "A relay has packets of the stream that came another way, and these go first."
    UNKNOWN = "unknown", "The destination has named a reason that this node does not know."


class FreedReason(Reason):
    """Why a relay no longer answers for a packet."""

    STORE_ACK = "store-ack", "It is on the disk of the next hop."
    ONWARD_ACK = "onward-ack", "The next hop of a synchronous link has passed it on, and it is on the disk behind that."
    SESSION_ACK = "session-ack", "It is express, and has arrived at the next hop."
    REJECTED = "rejected", "Its destination, or a relay on the way there, does not accept it."
    EXPIRED = "expired", "Its time to reach the queue, or to be received, ran out here."
    LET_GO = "let-go", "The next hop did not keep it; its origin has it, and sends it again."
    PURGED = "purged", "It was given up by hand."
    STALE_SEQUENCE = "stale-sequence", "Its origin has ended its stream, or, if it is express, begun a newer sequence."


class DeadReason(Reason):
    """Why a message is in the dead-letter queue, beside the reasons of a destination to reject it."""

    REACH_QUEUE_TIMEOUT = "reach-queue-timeout", "Its time to reach the queue ran out."
    RECEIVE_TIMEOUT = "receive-timeout", "Its time to be received ran out."
    MAX_REDELIVERIES = "max-redeliveries", "It was given back as failed too often."
    READER_DIED = "reader-died", "It failed too often, and the last time its reader's process died while it had it."
    HAND_OVER_TIMEOUT = "hand-over-timeout", "It failed too often, and the last time its reader had it for too long."
    READER_REFUSED = "reader-refused", "Its reader refused it for good."
    BAD_BODY = "bad-body", "Its parts do not make a message."
    BODY_LOST = "body-lost", "Not all parts of its large body are here."
    SESSION_LOST = "session-lost", "Its session was lost before it was acknowledged, and it is not to be sent again."
    PURGED = "purged", "It was taken out of its outgoing queue by hand."
    RELAY_DENIED = (
        "relay-denied",
        "It is sealed, and a relay does not pass it on, or says so; its destination has said nothing.",
    )
    OWN_ADDRESS = "own-address", "Its destination is this node by another address, where it can never arrive."


class BridgeReason(Reason):
    """Why a message can never be passed on, and is in the bridge's queue for those."""

    UNFIT = "unfit", "The rules of the bridge, this node or the protocol of the broker have no place for it."
    TOO_LARGE = (
        "too-large",
        "The broker takes no larger ones; or it came from there, has over 16 MiB, and no body here.",
    )
    RETURNED = "returned", "The broker leads it to no queue (AMQP, mandatory)."
    REJECTED = "rejected", "The broker refuses it for good (AMQP, basic.nack; MQTT, a reason code)."


EXPIRED = (DeadReason.REACH_QUEUE_TIMEOUT, DeadReason.RECEIVE_TIMEOUT)


class Trouble(StrEnum):
    """Something that stops messages and that an operator can fix.

    This is the only table of them: the log line, the rows of ``triack status``, the event, the metric and the table of
    docs/troubles.md come from it.

    Attributes:
        sentence: what is wrong; ``{about}`` is the peer, host or queue, ``{detail}`` what else is known.
        remedy: what the operator can do.
    """

    sentence: str
    remedy: str

    def __new__(cls, name: str, sentence: str, remedy: str) -> Self:
        """Make a member of its name, its sentence and its remedy."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.sentence = sentence
        member.remedy = remedy
        return member

    # A node calls, and gets no answer.
    UNTRUSTED = (
        "untrusted",
        "a node calls from {about} and this node does not trust its key {detail}",
        "if you know the node: triack trust add NAME KEY --data DIR, with the key that is shown",
    )
    WRONG_KEY = (
        "wrong-key",
        "a node calls from {about} and takes another key than this node's for it",
        "print this node's key with triack keygen --data DIR; trust it there with triack trust add",
    )
    OTHER_SUITE = (
        "other-suite",
        "a node calls from {about} and uses another suite",
        "start both nodes with the same --suite; if they have it, something on the way changes what they send",
    )
    OTHER_VERSION = (
        "other-version",
        "a node calls from {about} and speaks another version of the protocol: {detail}",
        "install the same version of Triack on both machines",
    )
    ONE_WITHOUT_KEYS = (
        "one-without-keys",
        "a node calls from {about} and only one of the two nodes runs with keys",
        "start both nodes with --insecure, or neither",
    )
    OTHER_PSK = (
        "other-psk",
        "a node answers from {about} and its answer cannot be read",
        "trust each other with the same --psk, or both without; triack trust list shows which it is",
    )
    CODE_EXPIRED = (
        "code-expired",
        "a node calls from {about} to enrol and its code was used or withdrawn, or has expired",
        "make a new code with triack enrol",
    )
    # This node calls, and gets no answer.
    UNRESOLVED = (
        "unresolved",
        "the address of {about} cannot be resolved: {detail}",
        "correct the host name with triack trust add or --peer, or mend the name service",
    )
    NO_ANSWER = (
        "no-answer",
        "{about} does not answer: {detail}",
        "check that a node runs there, trusts this one and has the same --suite: triack status there shows its side",
    )
    NO_KEY = (
        "no-key",
        "messages for {about} wait, and this node does not trust it or has no key of it",
        "triack trust add {about} KEY, or remove the messages",
    )
    RENAMED = (
        "renamed",
        "messages for {about} wait, and its node has another name here now: {detail}",
        "let them leave under the old name: triack trust remove that one, and triack trust add {about} KEY",
    )
    CANNOT_SEAL = (
        "cannot-seal",
        "messages for {about} wait, and this node cannot seal them: {detail}",
        "triack trust add {about} KEY, with the key of that node; see triack route test {about}",
    )
    MAY_NOT_SUBSCRIBE = (
        "may-not-subscribe",
        "messages for {about} wait, and its node may not have these topics: {detail}",
        "trust add --may-subscribe lets the node have them; triack topic unsubscribe {about} ends the subscription",
    )
    SUBSCRIPTION_DENIED = (
        "subscription-denied",
        "subscription {about} gets nothing: {detail}",
        "at the node with the topics, triack trust add --may-subscribe; triack topic unsubscribe {about} ends it",
    )
    ANSWER_REFUSED = (
        "answer-refused",
        "subscription {about} has no answer, as this node refuses what the node with the topics says: {detail}",
        "trust that node with its key (triack trust add NAME KEY), and let a relay bring its messages (--relays-for)",
    )
    NO_ADDRESS = (
        "no-address",
        "messages for {about} wait, its address is unknown, and it does not call",
        "triack trust add {about} --address URL, or start the node there",
    )
    SUSPENDED = (
        "suspended",
        "nothing is exchanged with {about}: {detail}",
        "find out which store is the newest and run it alone: triack help guide, copies of a data directory",
    )
    # There is no room.
    QUEUE_FULL = (
        "queue-full",
        "queue {about} has reached its quota",
        "read the queue, or raise its quota",
    )
    QUEUE_PAUSED = (
        "queue-paused",
        "somebody has paused {about}",
        "triack queue resume {about} --data DIR, to let its messages leave again",
    )
    STORE_LOW = (
        "store-low",
        "the disk has less room than the reserve: {detail}",
        "make room on the disk; the node accepts again by itself",
    )
    HELD_HERE = (
        "held-here",
        "messages of {about} wait because this node has no room: {detail}",
        "read the queues of this node, raise the quota with the name that is shown, or make room on its disk",
    )
    HELD_THERE = (
        "held-there",
        "messages to {about} wait because the node there has no room: {detail}",
        "read the queue there, raise the quota there with the name that is shown, or make room on its disk",
    )
    DEAD_LETTERS = (
        "dead-letters",
        "{about} has {detail} dead letters, and none is refused yet",
        "read why with triack queue show {about} --data DIR, then requeue or purge them",
    )
    JOURNAL_FULL = (
        "journal-full",
        "{about} has reached its quota: {detail}",
        "read or purge {about}, or raise its limits in the settings of the node",
    )
    STREAMS_FULL = (
        "streams-full",
        "{about} has as many streams as one peer may have, or nearly: {detail}",
        "raise max_streams and limits.peer_memory_bytes, or use fewer queues at a time",
    )

    # A bridge to a broker.
    BROKER_AWAY = (
        "broker-away",
        "bridge {about} is not connected to its broker: {detail}",
        "start the broker, or correct [[bridges]] and triack reload; what is for it waits, here and there",
    )
    BRIDGE_WAITS = (
        "bridge-waits",
        "bridge {about} can pass on nothing: {detail}",
        "mend what it waits for; the broker keeps what is not taken yet",
    )

    def say(self, about: str, detail: str = "") -> str:
        """The sentence about one peer, host or queue."""
        return self.sentence.format(about=about, detail=detail)

    def advise(self, about: str) -> str:
        """The remedy for it."""
        return self.remedy.format(about=about)
