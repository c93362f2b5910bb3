"""Lies about topics that change no promise: of subscriptions that get nothing any more, limits that none reaches."""

from collections import defaultdict

from proof.lies.mutate import Lie, Log, Record
from triack.tools.replay.topics.dispatch_check import SLOWEST
from triack.tools.replay.topics.patterns import full_name, matches

ABOUT_TOPICS = (
    "topic_opened", "subscribed", "unsubscribed", "subscription_changed", "subscription_suspended",
    "subscription_resumed",
)  # fmt: skip
_SAYS_NOTHING = (*ABOUT_TOPICS, "late_ack", "content_freed")


def _behind(lie: Lie, log: Log) -> list[Record]:
    node, start = lie.start
    later = [it for (whose, when), some in sorted(log.items()) if whose == node and when > start for it in some]
    return [*log[lie.start][lie.at + 1 :], *later]


def is_idle(lie: Lie, log: Log) -> bool:
    """Whether no message of the topic is mentioned behind the record in that start, and none was before."""
    mine = [it for it in log[lie.start] if "topic" in it and it["event"] not in _SAYS_NOTHING]
    if lie.field == "first":
        mine = [it for it in mine if it["event"] == "placed" and not it.get("recovered")]
    topics = {lie.truth["topic"], lie.said.get("topic")}
    return not any(it["topic"] in topics for it in mine)


def gets_nothing(lie: Lie, log: Log) -> bool:
    """Whether the subscription is not mentioned behind the record, and nothing of its names is placed in that start."""
    name = lie.truth["subscription"]
    begun = [it for some in log.values() for it in some if it["event"] == "subscribed" and it["subscription"] == name]
    behind = _behind(lie, log) if any(it["durable"] for it in begun) else log[lie.start][lie.at + 1 :]
    if any(it.get("subscription") == name and it["event"] != "unsubscribed" for it in behind):
        return False
    said = begun if "pattern" not in lie.truth else [lie.truth, lie.said]  # it may say that there is no such record
    patterns = {it["pattern"] for it in said if "pattern" in it}
    since = 0 if lie.truth.get("recovered") else lie.at
    mine = log[lie.start]
    ends = [at for at, it in enumerate(mine) if at > lie.at and it["event"] == "unsubscribed"]
    until = next((at for at in ends if mine[at]["subscription"] == name and lie.event == "subscribed"), len(mine))
    placed = [it for it in mine[since:until] if it["event"] == "placed" and it["topic"] == lie.truth["topic"]]
    names = {full_name(it["topic"], it["below"]) for it in placed}
    return not any(matches(pattern, name) for pattern in patterns for name in names)


def reaches_nobody(lie: Lie, log: Log) -> bool:
    """Whether messages were dispatched to no subscription."""
    if lie.event != "dispatched":
        return False
    behind = [it for it in log[lie.start][lie.at + 1 :] if it.get("topic") == lie.truth["topic"]]
    return not behind or behind[0]["event"] != "assigned"


def is_out_of_reach(lie: Lie, log: Log) -> bool:
    """Whether a limit has no effect: of a durable subscription, one not come near, or one beside another's room."""
    if lie.event not in ("subscribed", "subscription_changed") or lie.field not in ("max_unacked", "ack_wait_ns"):
        return False
    if lie.truth.get("durable", True) and lie.field == "max_unacked":
        return True
    name, topic = lie.truth["subscription"], lie.truth["topic"]
    mine = [it for it in log[lie.start] if it.get("topic") == topic]
    got: defaultdict[str, dict[int, int]] = defaultdict(dict)
    for it in mine:
        if it["event"] == "assigned":
            got[it["subscription"]][it["first"]] = it["count"]
    if lie.field != "max_unacked" or sum(got[name].values()) < min(lie.truth["max_unacked"], lie.said["max_unacked"]):
        return lie.field == "max_unacked"
    if any(it["event"] == "subscription_changed" or it.get("strategy") == SLOWEST for it in mine):
        return False
    # Another one got the same, and never had to wait for room.
    limits = {it["subscription"]: it["max_unacked"] for it in mine if it["event"] == "subscribed"}
    free = [other for other in got if other != name and sum(got[other].values()) <= limits[other]]
    return any(got[name].keys() <= got[other].keys() for other in free)


def names_alike(lie: Lie, log: Log) -> bool:
    """Whether another pattern, or another name, means the same to everything that was placed, or to all patterns."""
    records = [it for (node, _), some in log.items() if node == lie.start[0] for it in some]
    if lie.event == "subscribed" and lie.field == "pattern":
        names = [full_name(it["topic"], it["below"]) for it in records if it["event"] == "placed"]
        return all(matches(lie.truth["pattern"], name) == matches(lie.said["pattern"], name) for name in names)
    if lie.event == "placed" and lie.field == "below":
        patterns = {it["pattern"] for it in records if it["event"] == "subscribed"}
        one, other = (full_name(it["topic"], it["below"]) for it in (lie.truth, lie.said))
        return all(matches(pattern, one) == matches(pattern, other) for pattern in patterns)
    return False


def says_it_again(lie: Lie, _: Log) -> bool:
    """Whether a record that sets something sets it twice, or says again what another one makes true.

    A durable subscription is done with what has expired by the ``settled`` that follows. The names that a node gives to
    others begin with a dollar sign.
    """
    if lie.kind != "repeat":
        return False
    expired = lie.event == "expired" and not str(lie.truth.get("subscription", "$")).startswith("$")
    return expired or lie.event == "topic_opened" or bool(lie.truth.get("recovered"))
