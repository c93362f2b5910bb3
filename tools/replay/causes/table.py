"""The table of causes: what each record that says something needs, where, and what excuses that it is not there.

``docs/checks.md`` prints it. A row costs nothing but for records of its event.
"""

from __future__ import annotations

from typing import Final

from triack.tools.replay.causes.cause import ANYWHERE, HERE, NEVER, NOW, Cause, Fact, Some
from triack.tools.replay.log.schema import EXPRESS, FOR_EVER, RECOVERABLE, ROUTE_REASONS, TRANSACTIONAL

ARRIVED_CLASS: Final = 0x0002
RECEIVED_CLASS: Final = 0x4000
EXPIRED_ON_THE_WAY: Final = 0x8002
PURGED_CLASS: Final = 0xC001
EXPIRED_CLASS: Final = 0xC002
REFUSED_CLASS: Final = 0xC004
"""Message classes of [MS-MQMQ] 2.2.18.1.6."""
ON_THE_WAY: Final = frozenset({*range(0x8000, 0x8008), *range(0x8009, 0x800C)})
"""Those that say that a message did not come to its queue."""

REJECTIONS: Final = tuple(reason for reason in (*FOR_EVER, "stale-sequence") if reason not in ROUTE_REASONS)
"""Reasons for which a packet ends only where it was sent to."""

ARRIVED: Final = Fact("it has arrived", (Some("packet_received"),), "receivers", ("arrived",))
HANDED: Final = Fact("it was handed out", (Some("handed"),), "receivers", ("out.any", "out.chosen"))
RECOVERED: Final = Fact("a process that died had handed it out", (Some("settled", {"recovered": (True,)}),))
SETTLED: Final = Fact("its reader was done with it", (Some("settled"),), "receivers", ("settling.done",), messages=True)
EXPIRED: Final = Fact("it has expired in its queue", (Some("expired"),))
PURGED: Final = Fact("it was purged from its queue", (Some("purged"),))
TOO_LATE: Final = Fact(
    "it was given up as expired", tuple(Some(event, {"reason": ("expired",)}) for event in ("removed", "transit_freed"))
)
GIVEN_UP: Final = Fact(
    "it was given up", (Some("removed"), Some("transit_freed", {"reason": ("rejected", "expired", "purged")}))
)
REFUSED: Final = Fact("it was refused", (Some("rejected"), Some("route_refused")), "receivers", ("refused_ever",))
FREED: Final = Fact(
    "an acknowledgement of its class has freed it",
    (Some("~acked", {"class": (EXPRESS,)}), Some("~stored", {"class": (RECOVERABLE,)}), Some("onward_ack_received")),
)
ORDERED: Final = Fact("an order ack has freed it", (Some("order_ack_received"),), up_to=True)
LOCAL: Final = Fact("it is in a queue of that node", (Some("committed", at="origin"),))
ASKED_NOW: Final = Fact(
    "its sender has asked at the same moment, for a queue of that node", (Some("journal_asked"),), passes=True
)
ANSWERED: Final = Fact("an order ack was given", (Some("order_ack_sent"),))
TOLD_ORIGIN: Final = Fact(
    "its origin was told so",
    (Some("order_ack_sent", to_origin=True), Some("control_relayed", {"kind": ("order-ack",)}, to_origin=True)),
)
DECLINED: Final = Fact(
    "a node does not want it",
    (
        Some("rejected", but={"reason": ("duplicate", "hold-full", "held-back")}), Some("route_refused"),
        Some("transit_freed", {"reason": ("expired", "purged")}),
    ),
)  # fmt: skip
QUEUED: Final = Fact("it was queued", (Some("queued"),), "senders", ("queued",))
CAME: Final = Fact("it has come", (Some("packet_received"),), "relays", ("brought.numbers",))
IN_TRANSIT: Final = Fact("it is in transit here", (Some("transit_committed"),), "relays", ("held",))
HEARD: Final = Fact("the next hop has passed it on", (Some("onward_ack_received"),), "relays", ("heard",))
BEHIND: Final = Fact(
    "it is stored behind the relay",
    (Some("transit_freed", {"reason": ("onward-ack", "session-ack", "store-ack"), "sync": (None, False)}), HEARD.by[0]),
    "relays", ("onward",),
)  # fmt: skip

CAUSES: Final[tuple[Cause, ...]] = (
    # Administration messages.
    Cause(Some("admin_ack_queued", {"message_class": (ARRIVED_CLASS,)}, at="other"), (ARRIVED,), HERE,
        "admin_ack_made_up", "told that a message is in its queue, and it had not arrived"),
    Cause(Some("admin_ack_queued", {"message_class": (RECEIVED_CLASS,)}), (HANDED,), NOW,
        "admin_ack_made_up", "told that a message was received, and never handed it out"),
    Cause(Some("admin_ack_queued", {"message_class": (RECEIVED_CLASS,), "class": (RECOVERABLE, TRANSACTIONAL)}),
        (SETTLED,), NOW, "admin_ack_made_up", "told that a message was received, and its reader was not done with it"),
    Cause(Some("admin_ack_queued", {"message_class": (REFUSED_CLASS,)}), (HANDED,), NOW,
        "admin_ack_made_up", "told that its reader has refused a message, and never handed it out"),
    Cause(Some("admin_ack_queued", {"message_class": (EXPIRED_CLASS,)}), (EXPIRED,), NOW,
        "admin_ack_made_up", "told that a message has expired in its queue, and it had not"),
    Cause(Some("admin_ack_queued", {"message_class": (PURGED_CLASS,)}), (PURGED,), NOW,
        "admin_ack_made_up", "told that a message was purged from its queue, and it was not"),
    Cause(Some("admin_ack_queued", {"message_class": (EXPIRED_ON_THE_WAY,)}), (TOO_LATE,), NOW,
        "admin_ack_made_up", "told that a message has expired on its way, and had not given it up for that"),
    Cause(Some("admin_ack_queued", {"message_class": ON_THE_WAY - {EXPIRED_ON_THE_WAY}}), (GIVEN_UP, REFUSED), NOW,
        "admin_ack_made_up", "told that a message does not come to its queue, and had not given it up"),
    # Journals.
    Cause(Some("journaled", {"queue": ("$journal",), "kept": (True,)}, at="origin"), (FREED, ORDERED, LOCAL, ASKED_NOW),
        HERE, "journal_early", "copied as sent, and no acknowledgement had freed it"),
    Cause(Some("journaled", {"kept": (True,)}, but={"queue": ("$journal",)}), (HANDED, RECOVERED), NOW,
        "journal_early", "copied as taken from its queue, and it was handed to no reader"),
    # What senders ask for: said before the commit that holds the packets.
    Cause(Some("admin_ack_asked"), (QUEUED, LOCAL), NEVER, "claims", "asked to be told of what was queued before"),
    Cause(Some("journal_asked"), (QUEUED, LOCAL), NEVER, "claims", "asked for copies of what was queued before"),
    # Bridges.
    Cause(Some("bridge_drew"), (HANDED,), HERE, "claims", "drawn by a bridge, and never handed out"),
    Cause(Some("bridge_took"), (QUEUED,), HERE, "bridge_acked_early", "taken from a broker, and not queued"),
    # Words of a destination, and what relays make of them.
    Cause(Some("order_ack_received"), (TOLD_ORIGIN,), ANYWHERE,
        "ack_from_nowhere", "an order ack came to its origin, which no node told it"),
    Cause(Some("control_relayed", {"kind": ("order-ack",)}), (ANSWERED,), ANYWHERE,
        "order_ack_made_up", "passed on an order ack that no destination gave"),
    Cause(Some("word_refused", {"kind": ("order-ack",)}), (ANSWERED,), ANYWHERE,
        "order_ack_made_up", "an order ack came that no destination gave"),
    Cause(Some("control_relayed", {"kind": ("reject",)}), (DECLINED,), ANYWHERE,
        "rejection_made_up", "passed on a rejection that no node wrote"),
    Cause(Some("word_refused", {"kind": ("reject",)}), (DECLINED,), ANYWHERE,
        "rejection_made_up", "a rejection came that no node wrote"),
    Cause(Some("removed", {"reason": REJECTIONS}), (DECLINED,), ANYWHERE,
        "rejection_made_up", "given up as rejected, and no node has rejected it", of_one=True),
    # What leaves a stream, and what relays do with it.
    Cause(Some("rejected"), (ARRIVED,), HERE, "rejected", "rejected but not arrived"),
    Cause(Some("route_refused"), (ARRIVED,), HERE, "rejected", "refused but not arrived"),
    Cause(Some("removed"), (QUEUED,), HERE, "queue", "removed but not queued"),
    Cause(Some("onward_ack_received", at="origin"), (QUEUED,), HERE,
        "claims", "passed on by the next hop, and never queued"),
    Cause(Some("onward_ack_received", at="other"), (CAME,), HERE,
        "claims", "passed on by the next hop, and had never come here"),
    Cause(Some("onward_ack_sent"), (BEHIND,), HERE,
        "onward_early", "said to be stored behind the relay, and no ack of the next hop had said so"),
    Cause(Some("transit_committed", but={"recovered": (True,)}), (CAME,), HERE,
        "queue", "taken into transit, and had not arrived"),
    Cause(Some("transit_committed", {"recovered": (True,)}), (CAME,), HERE,
        "recovered_from_nowhere", "found in transit at a start, and had not arrived before"),
    Cause(Some("transit_freed"), (IN_TRANSIT,), HERE, "claims", "freed, and was not in transit"),
    Cause(Some("transit_freed", {"reason": ("onward-ack",), "class": (RECOVERABLE,)}), (HEARD,), HERE,
        "freed_too_early", "freed as passed on by the next hop, which had not said so"),
)  # fmt: skip
"""All of them, by kind."""

CAUSES_OF: Final = {
    event: [it for it in CAUSES if it.says.event == event] for event in {it.says.event for it in CAUSES}
}
"""By event."""
CAUSES_NAMED: Final = {it.evidence: it for it in CAUSES}
"""By their evidence."""
_FACTS: Final = {fact.words: fact for cause in CAUSES for fact in cause.needs if fact.by and not fact.side}
FACTS_BY: Final = {
    event: [(fact, some) for fact in _FACTS.values() for some in fact.by if some.event == event]
    for event in {some.event for fact in _FACTS.values() for some in fact.by}
}
"""By event, the facts that a book keeps."""
