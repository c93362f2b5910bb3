"""Lies about a topic: two or more for each promise to its subscriptions."""

from collections.abc import Callable

from tests.tools.replay.builder import MS, Record
from tests.tools.replay.faults import Expected
from tests.tools.replay.topic_logs import KEPT, Topics

Lie = Callable[[], tuple[Topics, Expected]]
TOPIC_FAULTS: dict[str, Lie] = {}
SECOND_NS = 1_000 * MS


def lie(tell: Lie) -> Lie:
    TOPIC_FAULTS[tell.__name__] = tell
    return tell


def found(check: str, *places: int) -> Expected:
    return {(check, -1, -1, at) for at in places or (-1,)}


def plain(strategy: str = "discard_none", ack_wait_ns: int = 0) -> Topics:
    """One reader that is quick, one that is slow, a durable one, and three packets of ten messages."""
    world = Topics(strategy)
    world.subscribe("quick", limit=1_000, ack_wait_ns=ack_wait_ns)
    world.subscribe("slow", limit=1_000)
    world.subscribe("audit", durable=True, limit=1_000)
    for _ in range(3):
        world.publish()
        world.consume(world.readers["quick"], 10)
        world.take(world.readers["audit"], 10)
        world.settle_all(world.readers["audit"])
    return world


def one(world: Topics, event: str, subscription: str, at: int = 0) -> Record:
    return world.beta.all(event, subscription=subscription)[at]


@lie
def a_message_is_passed_over() -> tuple[Topics, Expected]:
    """The durable reader is handed the second packet without its first message."""
    world = plain()
    one(world, "handed", "audit", 1).update(ranges=[[12, 20]])
    one(world, "settled", "audit", 1).update(ranges=[[12, 20]])
    return world.stop(), found("topic_lost", 11)


@lie
def a_reader_is_left_out() -> tuple[Topics, Expected]:
    """A packet is dispatched, and one of the readers that match gets nothing of it."""
    world = plain()
    world.beta.records.remove(one(world, "assigned", "slow", 1))
    return world.stop(), found("topic_lost", *range(11, 21))


@lie
def a_commit_without_a_place() -> tuple[Topics, Expected]:
    """A packet is on the disk, and the topic never gets it."""
    world = plain()
    numbers = world.queue(KEPT, 1)
    world.commit(KEPT, numbers)
    world.clock.tick(11 * SECOND_NS)
    world.consume(world.readers["slow"], 1)
    return world.stop(), {("topic_lost", 2, 5, -1)}


@lie
def a_wanted_message_is_gone_after_a_start() -> tuple[Topics, Expected]:
    world = plain()
    world.publish()
    world.restart()
    world.beta.drop("placed", recovered=True, at_place=31)
    return world.stop(), found("topic_lost", *range(31, 41))


@lie
def a_reader_gets_what_it_missed() -> tuple[Topics, Expected]:
    """It was suspended while a packet was dispatched, and the packet was assigned to it."""
    world = plain()
    at = next(at for at, it in enumerate(world.beta.records) if it["event"] == "dispatched" and it["first"] == 11)
    before = world.beta.records[at]
    told = world.say("subscription_suspended", subscription="slow")
    told.update(at_ns=before["at_ns"], wall_ns=before["wall_ns"])
    world.beta.records.insert(at, world.beta.records.pop())
    return world.stop(), found("topic_astray", *range(11, 21))


@lie
def a_reader_misses_what_came_after_its_pause() -> tuple[Topics, Expected]:
    """It was resumed, and gets nothing of the next packet."""
    world = plain()
    for event in ("subscription_suspended", "subscription_resumed"):
        world.say(event, subscription="slow")
    world.publish()
    world.consume(world.readers["quick"], 1)
    world.beta.records.remove(one(world, "assigned", "slow", 3))
    return world.stop(), found("topic_lost", *range(31, 41))


@lie
def a_suspended_reader_is_handed_a_message() -> tuple[Topics, Expected]:
    world = plain()
    world.say("subscription_suspended", subscription="slow")
    world.take(world.readers["slow"], 1)
    return world.stop(), found("claims", 1)


@lie
def a_joiner_sees_what_was_there() -> tuple[Topics, Expected]:
    """A reader that joins later is handed a message of before."""
    world = plain()
    late = world.subscribe("late", limit=1_000)
    world.publish()
    world.take(late, 10)
    one(world, "handed", "late").update(ranges=[[30, 40]])
    return world.stop(), found("topic_before_join", 30)


@lie
def a_joiner_begins_too_early() -> tuple[Topics, Expected]:
    """Its subscription begins with the first of the messages that wait for dispatch."""
    world = Topics("slowest_sub_rate")
    world.subscribe("slow", limit=3)
    world.publish()
    late = world.subscribe("late", limit=3)
    one(world, "subscribed", "late").update(after=3)
    late.after = 3
    return world.stop(), found("topic_before_join", 3)


@lie
def a_name_that_does_not_match() -> tuple[Topics, Expected]:
    world = plain()
    chess = world.subscribe("chess", limit=1_000, only="Chess")
    world.publish(1, "Chess")
    world.publish(1, "Go")
    world.take(chess, 10)
    one(world, "handed", "chess").update(ranges=[[31, 41]])
    return world.stop(), found("topic_astray", 41)


@lie
def a_name_that_is_assigned_although_it_does_not_match() -> tuple[Topics, Expected]:
    world = plain()
    world.subscribe("chess", limit=1_000, only="Chess")
    world.publish(1, "Go")
    fields = {"subscription": "chess", "first": 31, "last": 40, "count": 10}
    world.beta.repeat(world.beta.all("assigned")[-1], **fields)
    return world.stop(), found("topic_astray", *range(31, 41))


@lie
def handed_again_after_its_ack() -> tuple[Topics, Expected]:
    world = plain()
    one(world, "handed", "audit", 1).update(ranges=[[10, 20]])
    return world.stop(), found("topic_twice", 10)


@lie
def handed_again_without_a_mark() -> tuple[Topics, Expected]:
    world = plain()
    audit = world.readers["audit"]
    world.publish()
    world.take(audit, 10)
    world.give_back(audit)
    world.take(audit, 10)
    return world.stop(), found("topic_twice", *range(31, 41))


@lie
def one_node_with_two_subscriptions_of_a_name() -> tuple[Topics, Expected]:
    world = plain()
    node = {"peer_name": "reports@g1", "subscriber": "5" * 32}
    world.subscribe("reports@g1/audit", durable=True, limit=1_000, **node)
    world.subscribe("reports@g2/audit", durable=True, limit=1_000, **node)
    return world.stop(), found("subscriber_twice", 30)


@lie
def handed_in_another_order() -> tuple[Topics, Expected]:
    world = plain()
    for _ in range(2):
        world.take(world.readers["slow"], 10)
    first, second = (one(world, "handed", "slow", at) for at in (0, 1))
    first["ranges"], second["ranges"] = second["ranges"], first["ranges"]
    return world.stop(), found("topic_order", *range(1, 11))


@lie
def dispatched_in_another_order() -> tuple[Topics, Expected]:
    """The third packet is dispatched before the second one."""
    world = Topics()
    world.publish(3)
    whole = world.beta.one("dispatched")
    world.beta.repeat(whole, first=11, last=20)
    world.beta.repeat(whole, first=21, last=30)
    whole.update(last=10)
    return world.stop(), found("topic_order", *range(11, 21))


@lie
def handed_before_its_dispatch() -> tuple[Topics, Expected]:
    world = Topics("slowest_sub_rate")
    slow = world.subscribe("slow", limit=3)
    world.publish()
    world.take(slow, 3)
    one(world, "handed", "slow").update(ranges=[[1, 4]])
    return world.stop(), found("topic_order", 4)


@lie
def dispatched_beyond_the_limit_of_the_slowest() -> tuple[Topics, Expected]:
    world = Topics("slowest_sub_rate")
    quick = world.subscribe("quick", limit=3)
    world.subscribe("slow", limit=3)
    world.publish()
    world.consume(quick, 3)
    world.say("dispatched", first=4, last=4)
    for name in ("quick", "slow"):
        world.say_now("assigned", subscription=name, first=4, last=4, count=1)
    return world.stop(), found("slowest_rule", 4)


@lie
def stopped_although_all_have_room() -> tuple[Topics, Expected]:
    world = Topics("slowest_sub_rate")
    slow = world.subscribe("slow", limit=3)
    world.publish()
    world.consume(slow, 1)
    # It lets nothing go from now on.
    at = world.beta.records.index(world.beta.all("dispatched")[-1])
    del world.beta.records[at : at + 2]
    world.clock.tick(SECOND_NS)
    world.take(slow, 1)
    return world.stop(), found("slowest_rule", 4)


@lie
def dispatched_although_none_has_room() -> tuple[Topics, Expected]:
    world = Topics()
    for name in ("one", "other"):
        world.subscribe(name, limit=3)
    world.publish()
    world.say("dispatched", first=4, last=6)
    for name in ("one", "other"):
        world.say_now("assigned", subscription=name, first=4, last=6, count=3)
    return world.stop(), found("none_rule", 4, 5, 6)


@lie
def stopped_although_one_has_room() -> tuple[Topics, Expected]:
    """As if the topic kept to the slowest one."""
    world = Topics("slowest_sub_rate")
    world.beta.one("topic_opened").update(strategy="discard_none")
    quick = world.subscribe("quick", limit=3)
    world.subscribe("slow", limit=3)
    world.publish()
    world.consume(quick, 3)
    world.clock.tick(SECOND_NS)
    world.publish()
    return world.stop(), found("none_rule", 4)


def discarding() -> Topics:
    """A reader with ten messages of a minute ago and a limit of three loses one for each of ten new ones."""
    world = Topics("discard_allowed")
    quick = world.subscribe("quick", limit=1_000)
    world.subscribe("slow", limit=3)
    world.publish()
    world.consume(quick, 10)
    world.clock.tick(61 * SECOND_NS)
    world.publish()
    return world


@lie
def the_newest_are_discarded() -> tuple[Topics, Expected]:
    world = discarding()
    one(world, "discarded", "slow").update(first=11, last=20)
    return world.stop(), found("discard_rule", *range(11, 21))


@lie
def more_is_discarded_than_it_had() -> tuple[Topics, Expected]:
    world = discarding()
    one(world, "discarded", "slow").update(first=0)
    return world.stop(), found("discard_rule", *range(11))


@lie
def discarded_by_a_timer() -> tuple[Topics, Expected]:
    world = discarding()
    world.clock.tick(61 * SECOND_NS)
    fields = {"first": 11, "last": 12, "age_ns": 61 * SECOND_NS, "pending": 8}
    world.say("discarded", subscription="slow", **fields)
    return world.stop(), found("discard_rule", 11, 12)


@lie
def nothing_is_discarded() -> tuple[Topics, Expected]:
    world = discarding()
    world.beta.drop("discarded")
    return world.stop(), found("discard_rule", *range(1, 11))


@lie
def discarded_under_another_strategy() -> tuple[Topics, Expected]:
    world = discarding()
    world.beta.one("topic_opened").update(strategy="discard_none")
    return world.stop(), found("discard_rule", *range(1, 11))


@lie
def a_late_ack_is_taken() -> tuple[Topics, Expected]:
    world = discarding()
    world.say("settled", subscription="slow", ranges=[[3, 3]])
    return world.stop(), found("discard_rule", 3)


@lie
def deleted_while_one_wants_it() -> tuple[Topics, Expected]:
    world = plain()
    world.say("content_freed", ranges=[[5, 6]], reason="all")
    return world.stop(), found("content_freed_early", 5, 6)


@lie
def deleted_before_its_dispatch() -> tuple[Topics, Expected]:
    world = Topics("slowest_sub_rate")
    world.subscribe("slow", limit=3)
    world.publish()
    world.say("content_freed", ranges=[[9, 10]], reason="nobody")
    return world.stop(), found("content_freed_early", 9, 10)


@lie
def a_durable_subscription_is_forgotten() -> tuple[Topics, Expected]:
    world = plain()
    world.restart()
    world.beta.drop("subscribed", subscription="audit", recovered=True)
    world.publish()
    return world.stop(), found("subscription_forgotten")


@lie
def the_whole_topic_is_forgotten() -> tuple[Topics, Expected]:
    """The next start knows nothing of the topic."""
    world = plain()
    world.readers["slow"].limit = 1
    world.restart()
    start = world.beta.incarnation
    for record in [it for it in world.beta.records if it["incarnation"] == start and "topic" in it]:
        world.beta.records.remove(record)
    return world.stop(), found("subscription_forgotten")


@lie
def given_back_too_early() -> tuple[Topics, Expected]:
    world = plain(ack_wait_ns=60 * SECOND_NS)
    quick = world.readers["quick"]
    world.publish()
    world.take(quick, 2)
    world.clock.tick(50 * SECOND_NS)
    world.give_back(quick, overdue=True)
    return world.stop(), found("ack_wait", 31, 32)


@lie
def never_given_back() -> tuple[Topics, Expected]:
    world = plain(ack_wait_ns=60 * SECOND_NS)
    quick = world.readers["quick"]
    world.publish()
    world.take(quick, 2)
    world.clock.tick(61 * SECOND_NS)
    world.publish()
    return world.stop(), found("ack_wait", 31, 32)


@lie
def given_back_without_a_limit() -> tuple[Topics, Expected]:
    world = plain()
    slow = world.readers["slow"]
    world.take(slow, 2)
    world.give_back(slow, overdue=True)
    return world.stop(), found("ack_wait", 1, 2)
