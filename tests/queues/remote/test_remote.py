"""Subscriptions of one node to topics of another."""

import json
from collections import Counter

import pytest

from tests.queues.hubs import HubWorld
from tests.queues.topics.bench import Bench
from tests.sure import sure
from triack.base.commit import HEAD_BYTES
from triack.base.delivery import Delivery
from triack.base.errors import AddressError, ProtocolError, StoreDamaged
from triack.base.news import SubscriptionLost
from triack.base.reasons import DeadReason, DropReason
from triack.queues.mailboxes.local_commit import LocalCommit
from triack.queues.mailboxes.mailbox import Lease, Mailbox, Notices
from triack.queues.mailboxes.queued_packet import QueuedPacket
from triack.queues.messages import Outgoing, Passed
from triack.queues.node_settings import NodeSettings
from triack.queues.packing import pack
from triack.queues.remote.remote_subscriptions import RemoteState, RemoteSubscription
from triack.queues.remote.requests import Answer, Live, Subscribe, Unknown, Unsubscribe, check_remote_name, decode


def test_the_store_keeps_a_durable_one() -> None:
    ask = Subscribe("audit", 7, "Games.#", True, Delivery.RECOVERABLE, 10)
    found = RemoteSubscription("hub", ask, shared=True, state=RemoteState.LIVE)
    again = RemoteSubscription.decode("audit", found.encode())
    assert (again.peer, again.ask, again.shared, again.state) == ("hub", ask, True, RemoteState.LIVE)
    with pytest.raises(StoreDamaged):
        RemoteSubscription.decode("audit", b"[1]")


@pytest.mark.gate
def test_a_hub_that_is_away_for_days_gets_one_message_about_what_lives() -> None:
    it = HubWorld("sub")
    away = it.begun(durable=None)
    it.hub.crash()
    it.run(2_000)
    (stream,) = [it for it in away.node.live.outbox.streams if it.queue == "$subscriptions"]
    assert stream.unacknowledged <= 1
    it.hub.start()
    it.run(130)
    it.publish(b"1")
    it.settle(away)
    assert away.read() == [b"1"]


@pytest.mark.gate
@pytest.mark.parametrize(("cut_s", "lost"), [(20, False), (200, True)])
def test_a_cut_that_lasts_longer_than_a_subscription_is_told(cut_s: int, lost: bool) -> None:
    it = HubWorld("sub")
    away = it.away("sub", durable=None)
    found = away.begin()
    it.run()
    it.publish(b"1")
    it.settle(away)
    it.world.cut(it.hub, it.nodes["sub"])
    it.publish(b"2")
    it.run(cut_s)
    it.world.heal()
    it.run(60)
    it.publish(b"3")
    it.settle(away)
    assert away.read() == ([b"1", b"3"] if lost else [b"1", b"2", b"3"])
    assert [event for event in it.nodes["sub"].news if isinstance(event, SubscriptionLost)] == (
        [SubscriptionLost("hub/topic:Games.#", found.name)] if lost else []
    )


ASK = Subscribe("audit", 7, "Games.#", True, Delivery.RECOVERABLE, 10)
MESSAGES = [
    ASK,
    Unsubscribe("audit", 7),
    Live({"audit": 7, "$1.1": 8}),
    Answer("accepted", "audit", 7),
    Answer("refused", "audit", 7, "access-denied", "no"),
    Answer("ended", "audit", 7),
    Unknown({"audit": 7}),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda it: type(it).__name__)
def test_each_message_is_read_as_it_was_written(message: Subscribe) -> None:
    assert decode(message.encode()) == message


@pytest.mark.parametrize(
    "changed",
    [
        {"do": "receive"}, {"do": None}, {"name": "a/b"}, {"name": ""}, {"name": "x" * 124}, {"name": 1},
        {"number": 0}, {"number": True}, {"number": 1 << 70}, {"pattern": "x" * 2_000}, {"pattern": None},
        {"durable": 1}, {"delivery": "certain"}, {"max_unacked": 0}, {"max_unacked": "9"},
    ],
)  # fmt: skip
def test_a_request_that_is_wrong_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(ProtocolError) as raised:
        decode(json.dumps(json.loads(ASK.encode()) | changed).encode())
    assert raised.value.reason is DropReason.BAD_REQUEST


@pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b"7", b"[" * 100_000, b'{"do": "live", "names": [1]}'])
def test_what_is_no_request_is_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(body)


def test_the_name_of_a_subscription_leaves_room_for_that_of_its_queue() -> None:
    assert check_remote_name("x" * 119) == "x" * 119
    with pytest.raises(AddressError, match="too long"):
        check_remote_name("x" * 120)


def test_its_last_reader_is_missed_unless_it_has_ended() -> None:
    left: list[Mailbox] = []
    queue = Mailbox(1, "$sub.audit", Notices(Counter(), on_left=left.append))
    queue.listeners += [print, left.clear]
    queue.leave(print)
    assert left == []
    queue.leave(left.clear)
    assert left == [queue]
    queue.listeners.append(print)
    queue.end()
    queue.leave(print)
    assert left == [queue]
    assert queue.subscription == "audit"


def test_a_dead_letter_names_the_topic_and_the_subscription() -> None:
    queues = Bench().queues
    message = Passed(b"1", topic="Games.Cricket", publisher=bytes(16), ordinal=7, sent_at_ms=5)
    (packed,), _ = pack([message], 1_000, 1, 9)
    packet = QueuedPacket((), bytes(16), 1, 1, 1, Delivery.EXPRESS, 1, len(packed.body), [packed.body])
    group = LocalCommit()
    queues.put("$sub.audit", packet, packed.body[:HEAD_BYTES], group)
    queues.dead_letter(queues.mailboxes["$sub.audit"], Lease(packet, 0, redelivered=False), DeadReason.BAD_BODY, group)
    ((_, (letter,), _),) = group.queued
    assert letter.open().properties == [
        {
            "dead_reason": "bad-body",
            "dead_attempts": 0,
            "dead_destination": "topic:Games.Cricket",
            "dead_subscription": "audit",
        }
    ]


@pytest.mark.gate
def test_requests_and_their_answers_are_taken_as_they_come() -> None:
    it = HubWorld("sub")
    for number in range(300):
        it.away("sub", durable=f"audit{number}").begin()
    it.run(5)
    assert len(it.hub.live.topics.subscriptions) == 300
    for node in (it.hub, it.nodes["sub"]):
        assert node.length("$subscriptions") == 0


# What a pump has on its way, and in which class and with which properties it goes.


def classes_at(it: HubWorld) -> set[str]:
    """The classes in which messages have come to the subscriber."""
    records = it.nodes["sub"].log("committed", "handed")
    return {record["class"] for record in records if record.get("queue") == "$sub.audit"}


@pytest.mark.parametrize("published", Delivery)
@pytest.mark.parametrize("wanted", [Delivery.RECOVERABLE, Delivery.TRANSACTIONAL])
def test_messages_come_in_the_weaker_of_both_classes(published: Delivery, wanted: Delivery) -> None:
    it = HubWorld("sub")
    away = it.begun(delivery=wanted)
    it.publish(b"1", delivery=published)
    it.settle(away)
    assert away.read() == [b"1"]
    assert classes_at(it) == {min(published, wanted).label}


@pytest.mark.gate
def test_no_more_is_on_the_way_than_may_be() -> None:
    it = HubWorld("sub", settings=NodeSettings(messages_per_packet=1))
    away = it.begun(max_unacked=5)
    it.world.cut(it.hub, it.nodes["sub"])
    it.publish(*(b"%d" % number for number in range(50)))
    it.run()
    subscription = sure(it.at_hub("sub/audit"))
    pump = sure(it.hub.live.remote.of_peers.pump_of(subscription))
    assert (pump.ahead, subscription.mailbox.length) == (5, 45)
    it.hub.restart()
    subscription = sure(it.at_hub("sub/audit"))
    assert subscription.mailbox.length == 45, "what was on its way is not in the topic any more"
    it.world.heal()
    for _ in range(5):
        it.settle(away)
    assert away.read() == [b"%d" % number for number in range(50)]


def test_what_is_for_the_topic_node_alone_stays_there() -> None:
    it = HubWorld("sub")
    away = it.begun()
    engine = it.hub.live
    outgoing = engine.outgoing_stream("", "topic:Games", Delivery.TRANSACTIONAL)
    properties = {"label": "l", "dead_letter": False}
    engine.submit(outgoing, Outgoing(b"1", properties, topic="Cricket"), 1)
    it.hub.drain()
    it.run()
    assert away.found is not None
    assert away.found.mailbox is not None
    lease = sure(away.node.live.take(away.found.mailbox, it.world.now_ns))
    assert list(lease.packet.open().properties or []) == [{"label": "l"}]
