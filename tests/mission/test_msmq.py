"""MSMQ: sessions, acknowledgements, resends, dead letters, journals and administration messages.

[MS-MQQB] is Microsoft's specification of the binary protocol. Registry is the reference of its ``Parameters``.
"""

from dataclasses import replace
from string import ascii_letters

import pytest

import triack
from tests.mission.ends import Q, acks, pair, two, waits_s
from tests.ordering.pair import StreamPair, make_header
from tests.queues.admin import answers, ask, classes
from tests.queues.relays import dead, line, post
from tests.queues.stories.test_order_acks import ROUND_MS, longest_wait_ms
from tests.queues.world import PlainWorld, SimNode, World, numbered
from tests.session.pair import Pair, closes, cut, reasons
from triack import testing
from triack.base.delivery import DURABLE, Delivery
from triack.base.news import JournalFull
from triack.base.reasons import DropReason
from triack.base.units import MS, SECOND
from triack.node.handles.policies import MSMQ, msmq
from triack.ordering.incoming import IncomingSequence, Outcome
from triack.ordering.wire import HOPS_MAX
from triack.queues.mailboxes.redelivery import Return
from triack.queues.message_classes import Acks, MessageClass
from triack.queues.node_settings import Journal, Limits, NodeSettings, Quota, Reconnect
from triack.queues.peers.link import Link
from triack.session.protocol.binary import BINARY
from triack.session.protocol.frames import PingFrame
from triack.session.protocol.states import CloseReason

statement = pytest.mark.statement
MINUTE = 60 * SECOND


@statement("registry, MaxUnackedPacket", "msmq(max_unacked_packet=64)", "64 sent, the 65th not; 1 and 1,000 likewise")
@pytest.mark.parametrize("window", [1, 64, 1_000])
def test_a_sender_stops_when_64_messages_of_a_session_are_unacknowledged(window: int) -> None:
    session = msmq(max_unacked_packet=window).session
    ends = Pair.opened(session, udp=False)
    cut(ends)
    ends.backlog["a"].extend([(Delivery.EXPRESS, b"x")] * (window + 10))
    ends.run(10 * SECOND)
    assert {number for _, number in ends.packets("a")} == set(range(1, window + 1))


@statement("John Breakwell, MSMQ and Session Acks", "msmq(max_unacked_packet=64)", "the 32nd message, without delay")
def test_a_receiver_acknowledges_at_half_of_the_window() -> None:
    assert acks(MSMQ, 32) == [(0.0, "count", 32)]
    assert acks(msmq(max_unacked_packet=7), 3) == [(0.0, "count", 3)]


@statement("registry, IdleAckDelay", "msmq(idle_ack_delay_s=0.5)", "0.5 s after the first of 31 messages")
def test_a_receiver_acknowledges_after_idle_ack_delay() -> None:
    assert acks(MSMQ, 31) == [(0.5, "delay", 31)]
    assert acks(msmq(idle_ack_delay_s=2), 1) == [(2.0, "delay", 1)]


@statement("[MS-MQQB] 3.1.7.11", "ack_trigger.piggyback_after = 0.75", "from 375 of 500 ms on")
@pytest.mark.parametrize(("after_ms", "cause"), [(374, "delay"), (376, "piggyback")])
def test_a_session_ack_goes_with_a_message_when_more_than_three_quarters_of_its_timer_have_passed(
    after_ms: int, cause: str
) -> None:
    ends = Pair.opened(MSMQ.session, udp=False)
    ends.send("a", 1)
    ends.run((10 + after_ms) * MS)
    ends.send("b", 1)
    ends.run(SECOND)
    assert [why for _, why, _ in ends.acks("b")] == [cause]


@statement("[MS-MQQB] 3.1.5.3.2", "store_ack_trigger.delay_rtts = 8", "8 round trips; from 0.5 s to 120 s")
@pytest.mark.parametrize("scheme", ["udp", "tcp"])
@pytest.mark.parametrize("initiator", ["a", "b"])
@pytest.mark.parametrize("round_trip_ms", [20, 100, 200, 500, 1_000, 2_000, 5_000, 20_000])
def test_a_store_ack_waits_for_eight_round_trips(round_trip_ms: int, scheme: str, initiator: str) -> None:
    world = World(3)
    world.faults.delay_ns = round_trip_ms * MS // 2
    a, b = world.node("a", MSMQ, scheme=scheme), world.node("b", MSMQ, scheme=scheme)
    first, second = (a, b) if initiator == "a" else (b, a)
    first.send(second, "q", b"1", delivery=Delivery.RECOVERABLE)
    assert world.run(300 * SECOND, lambda: not first.busy)
    (delay_ns,) = {it["store_ack_delay_ns"] for node in (a, b) for it in node.log("session_opened")}
    exact_ns = min(max(8 * round_trip_ms, 500), 120_000) * MS
    assert exact_ns <= delay_ns <= min(max(round(8.4 * round_trip_ms), 500), 120_000) * MS


def silence_s(world: World, a: SimNode, b: SimNode) -> float:
    """After how long ``a`` gives up a peer that died when their session had nothing to do."""
    a.send(b, "q", b"opens a session")
    assert world.run(100 * SECOND, lambda: not a.busy)
    b.crash()
    a.send(b, "q", b"lost")
    begun_ns = world.now_ns
    assert world.run(1_000 * SECOND, lambda: len(a.log("session_closed")) == 1)
    assert a.log("session_closed")[0]["reason"] == "ack-timeout"
    return round((world.now_ns - begun_ns) / SECOND, 3)


@statement("registry, AckTimeout; [MS-MQQB] 2.2.2.1", "msmq(ack_timeout_s=None)", "20 s at 2 ms, 120 s at 6 s")
@pytest.mark.parametrize(
    ("round_trip_ns", "least_s", "most_s"), [(2 * MS, 20, 20), (2 * SECOND, 21, 119), (6 * SECOND, 120, 120)]
)
def test_the_ack_timeout_is_computed_for_each_line_from_20_to_120_seconds(
    round_trip_ns: int, least_s: float, most_s: float
) -> None:
    assert least_s <= silence_s(*pair(MSMQ, round_trip_ns=round_trip_ns)) <= most_s


@statement("registry, AckTimeout", "msmq(ack_timeout_s=60)", "60 s at 2 ms and at 6 s")
@pytest.mark.parametrize("round_trip_ns", [2 * MS, 6 * SECOND])
def test_a_set_ack_timeout_turns_its_computation_off(round_trip_ns: int) -> None:
    assert silence_s(*pair(msmq(ack_timeout_s=60), round_trip_ns=round_trip_ns)) == 60


@statement("[MS-MQQB] 3.1.2.4, QosCleanupIntervalMultiplier", "session.direct_ack_timeouts = 2", "40 s")
def test_a_peer_with_a_direct_name_may_be_silent_for_twice_as_long() -> None:
    assert silence_s(*pair(MSMQ, make=PlainWorld)) == 40


@statement("[MS-MQQB] 3.1.2.4", "msmq(ack_timeout_s=20)", "kept for 60 s by a datagram each 15 s; then 20 s")
def test_any_packet_of_the_peer_keeps_a_session_although_messages_are_unacknowledged() -> None:
    ends = Pair.opened(msmq(ack_timeout_s=20).session, udp=False)
    ends.lose = lambda end, sent: end == "b" and sent.ack is not None
    ends.send("a", 1)
    for _ in range(4):
        ends.run(15 * SECOND)
        ends.inject("a", BINARY.encode(PingFrame()))
    ends.lose = lambda _end, _sent: True
    heard_ns = ends.now_ns
    ends.run_until(lambda: bool(closes(ends)))
    assert (ends.now_ns - heard_ns, reasons(ends)) == (20 * SECOND, [CloseReason.ACK_TIMEOUT])


@statement("[MS-MQQB] 3.1.2.1", "session.connect_timeout_s = 60", "opens at round trips of 12 s and 30 s")
@pytest.mark.gate
@pytest.mark.parametrize("round_trip_s", [12, 30])
def test_the_session_initialization_timer_leaves_a_minute_to_open(round_trip_s: int) -> None:
    world, a, b = pair(MSMQ, round_trip_ns=round_trip_s * SECOND)
    a.send(b, "q", b"1")
    assert world.run(120 * SECOND, lambda: not a.busy)
    assert b.read_all("q") == [b"1"]
    assert len(a.log("session_opened")) == 1
    assert not a.log("session_closed")


@statement("[MS-MQQB] 3.1.2.1", "session.connect_timeout_s = 60", "60 s")
def test_a_peer_that_does_not_answer_is_given_up_after_a_minute() -> None:
    world, a, b = pair(MSMQ)
    b.crash()
    begun_ns = world.now_ns
    a.send(b, "q", b"1")
    assert world.run(100 * SECOND, lambda: bool(a.log("session_closed")))
    assert world.now_ns - begun_ns == pytest.approx(60 * SECOND, abs=10 * MS)
    assert a.log("session_closed")[0]["reason"] == "connect-timeout"


@statement("[MS-MQQB] 3.1.2.3, TryConnectInterval", "msmq(try_connect_interval_s=5)", "5 s after each attempt of 60 s")
@pytest.mark.gate
def test_a_closed_session_is_tried_again_after_try_connect_interval() -> None:
    assert waits_s(MSMQ) == [65.0, 65.0]


@statement("registry, WaitTime", "Reconnect(first_s=60, step_s=30, most_s=300)", "60, 90, 120, ... 300, 300 s")
@pytest.mark.parametrize("unanswered", [False, True])
def test_a_name_is_resolved_again_after_60_seconds_and_30_more_each_time_up_to_300(unanswered: bool) -> None:
    link, waits = Link("udp://b:1", Reconnect(60, 30, 300, unanswered_most_s=300, jitter=0), World(1).random), []
    for _ in range(11):
        link.handle_closed(CloseReason.CONNECT_TIMEOUT if unanswered else CloseReason.PEER_CLOSED, 0)
        waits.append(link.retry_at_ns / SECOND)
    assert waits == [60, 90, 120, 150, 180, 210, 240, 270, 300, 300, 300]


@statement("[MS-MQQB] 3.1.2.2, CleanupInterval", "session.cleanup_interval_s = 300", "300 s")
def test_a_session_without_messages_is_closed_after_the_cleanup_interval() -> None:
    world, a, b = pair(MSMQ)
    begun_ns = world.now_ns
    a.send(b, "q", b"1", delivery=Delivery.EXPRESS)
    assert world.run(400 * SECOND, lambda: bool(a.log("session_closed")))
    assert world.now_ns - begun_ns == pytest.approx(300 * SECOND, abs=10 * MS)
    assert a.log("session_closed")[0]["reason"] == "idle"


@statement(
    "[MS-MQQB] 3.1.1.6.1",
    "send(delivery=)",
    "express on arrival; recoverable with the disk, 3 s; transactional with the order ack",
)
@pytest.mark.gate
async def test_each_class_of_messages_is_freed_by_its_own_ack(triack_world: testing.World) -> None:
    async with two(triack_world, MSMQ) as (a, _):
        triack_world.machine("b").disk_delay = 3
        began, freed = triack_world.now, dict[Delivery, float]()
        for delivery in Delivery:
            await a.send(Q, b"x", delivery=delivery)
        for _ in range(200):
            await triack_world.advance(0.05)
            left = {it.delivery for it in a.stats().outgoing if it.messages}
            for delivery in set(Delivery) - left - freed.keys():
                freed[delivery] = triack_world.now - began
        assert freed[Delivery.EXPRESS] < 0.6
        assert 1.5 < freed[Delivery.RECOVERABLE] <= freed[Delivery.TRANSACTIONAL]


@statement(
    "registry, SeqResend13Time to SeqResend10Time",
    "order.seq_resend_13_s, ...",
    "30, 300 and 1,800 s three times each, then 21,600 s",
)
def test_a_message_without_an_order_ack_is_resent_after_waits_of_four_tiers() -> None:
    waits_s = [0, *[30] * 3, *[300] * 3, *[1_800] * 3, *[21_600] * 3]
    ends = StreamPair(MSMQ.order, lose_order_acks=True)
    ends.append(1)
    ends.run((sum(waits_s) + 1) * SECOND)
    assert [at_ns // SECOND for at_ns, _, _ in ends.sent] == [sum(waits_s[:count]) for count in range(1, 14)]
    assert ends.delivered == [b"1"]


@statement("[MS-MQQB] 3.1.6.5", "", "16 of 16")
@pytest.mark.plain
def test_a_resend_sends_all_unacknowledged_messages_again() -> None:
    ends = StreamPair(MSMQ.order, lose_order_acks=True)
    ends.append(16)
    ends.run(31 * SECOND)
    assert [number for _, number, _ in ends.sent] == [*range(1, 17)] * 2


@statement("[MS-MQQB] 3.1.3.2", "order.seq_resend_13_s = 30", "all without delay, then 30 s")
def test_a_new_session_resends_everything_and_begins_with_the_first_tier() -> None:
    ends = StreamPair(MSMQ.order, lose_order_acks=True)
    ends.append(3)
    ends.run(30_000 * SECOND)
    before = len(ends.sent)
    ends.new_session()
    assert [sent[:2] for sent in ends.sent[before:]] == [(ends.now_ns, number) for number in (1, 2, 3)]
    assert (ends.out.tier.attempt, ends.out.tier.deadline_ns) == (0, ends.now_ns + 30 * SECOND)


@statement("[MS-MQQB] 3.1.2.4", "msmq(max_unacked_packet=64)", "64 sent twice, each delivered once")
@pytest.mark.gate
@pytest.mark.parametrize("delivery", list(Delivery))
def test_after_a_lost_session_all_its_messages_are_sent_again_and_duplicates_are_discarded(delivery: Delivery) -> None:
    world, a, b = pair(MSMQ)
    a.send(b, "q", b"opens")
    world.run(30 * SECOND)
    world.cut(b, a, both=False)
    a.send(b, "q", *numbered(0, 64), delivery=delivery)
    assert world.run(300 * SECOND, lambda: bool(a.log("session_closed")))
    assert b.length("q") == 65
    world.heal()
    assert world.run(300 * SECOND, lambda: not a.busy)
    assert sorted(b.read_all("q")) == [*numbered(0, 64), b"opens"]


@statement("[MS-MQQB] 3.1.2.7", "order.order_ack_idle_s = 0.5", "0.5 s after the burst")
def test_an_order_ack_leaves_half_a_second_after_the_last_message() -> None:
    world, a, b = pair(MSMQ)
    a.send(b, "q", b"opens")
    assert world.run(30 * SECOND, lambda: not a.busy)
    a.send(b, "q", *numbered(0, 10))
    began_ns = world.now_ns
    assert world.run(30 * SECOND, lambda: not a.busy)
    assert 500 <= (world.now_ns - began_ns) // MS < 500 + ROUND_MS


@statement("registry, SeqMaxAckDelay", "msmq(seq_max_ack_delay_s=10)", "10.02 s with a message each 300 ms")
@pytest.mark.gate
def test_an_order_ack_waits_no_longer_than_seq_max_ack_delay() -> None:
    world, a, b = pair(MSMQ)
    assert 10_000 <= longest_wait_ms(world, a, b.address, 70) < 10_000 + ROUND_MS


@statement("[MS-MQQB] 3.1.1.6.2", "", "1, 2 and 4 received: 2 acknowledged")
def test_an_order_ack_says_no_more_than_has_arrived_in_order() -> None:
    incoming = IncomingSequence[str](MSMQ.order, (5, 0))
    for number in (1, 2, 4):
        incoming.handle_packet(make_header(number, number - 1, 5), "", 0)
    assert incoming.position == (5, 2)
    incoming.handle_packet(make_header(3, 2, 5), "", 0)
    assert incoming.position == (5, 4)


CASES = {
    "next": (5, 8, 7, Outcome.ACCEPTED),
    "duplicate": (5, 6, 5, Outcome.DUPLICATE),
    "duplicate of the last": (5, 7, 6, Outcome.DUPLICATE),
    "gap": (5, 10, 9, Outcome.OUT_OF_ORDER),
    "gap bridged": (5, 10, 7, Outcome.ACCEPTED),
    "gap bridged from the start": (5, 10, 0, Outcome.ACCEPTED),
    "new sequence": (6, 1, 0, Outcome.ACCEPTED),
    "new sequence, first expired": (6, 3, 0, Outcome.ACCEPTED),
    "new sequence, middle": (6, 2, 1, Outcome.OUT_OF_ORDER),
    "old sequence": (4, 9, 0, Outcome.STALE_SEQUENCE),
    "old sequence, number that would fit": (4, 8, 7, Outcome.STALE_SEQUENCE),
}


@statement("[MS-MQQB] 3.1.5.8.6", "", "the table of eleven cases")
@pytest.mark.parametrize(("sequence", "number", "previous", "outcome"), CASES.values(), ids=CASES)
def test_a_message_is_accepted_if_it_follows_the_last_one_or_begins_a_newer_sequence(
    sequence: int, number: int, previous: int, outcome: Outcome
) -> None:
    """With (5, 7) accepted last. Only what is accepted moves the position."""
    incoming = IncomingSequence[str](MSMQ.order, (5, 7))
    found, accepted = incoming.handle_packet(make_header(number, previous, sequence), "", 0)
    is_accepted = outcome is Outcome.ACCEPTED
    assert (found, len(accepted)) == (outcome, is_accepted)
    assert incoming.position == ((sequence, number) if is_accepted else (5, 7))
    assert incoming.committed == (5, 7)


@statement("[MS-MQQB] 3.1.5.8.6; KB 918343", "", "none in the 2 s before the commit")
def test_no_order_ack_leaves_before_its_message_is_on_the_disk() -> None:
    world, a, b = pair(MSMQ)
    a.send(b, "q", b"opens")
    assert world.run(30 * SECOND, lambda: not a.busy)
    b.commit_ns = 2 * SECOND
    a.send(b, "q", b"1")
    world.run(1_900 * MS)
    b.end()
    b.commit_ns = MS
    b.start()
    assert a.busy
    assert world.run(300 * SECOND, lambda: not a.busy)
    assert b.read_all("q") == [b"opens", b"1"]


@statement("[MS-MQQB] 3.1.7.1.2", "send(time_to_reach_queue=)", "5 s; a dead letter of its sender")
@pytest.mark.parametrize("delivery", sorted(DURABLE))
def test_a_message_whose_time_to_reach_queue_is_over_is_a_dead_letter_and_those_after_it_arrive(
    delivery: Delivery,
) -> None:
    world, a, b = pair(MSMQ)
    world.cut(a, b)
    a.send(b, "q", b"1", delivery=delivery, live_ms=5_000)
    a.send(b, "q", b"2", delivery=delivery)
    world.run(4_990 * MS)
    assert a.length("dead-letter") == 0
    world.run(20 * MS)
    assert dead(a) == ([b"1"], {"reach-queue-timeout": 1})
    world.heal()
    assert world.run(300 * SECOND, lambda: not a.busy)
    assert b.read_all("q") == [b"2"]


@statement("registry, MachineCache\\LongLiveTime", "time_to_reach_queue_s = 345600", "345,600 s, four days")
async def test_a_message_without_a_time_to_reach_queue_has_four_days(triack_world: testing.World) -> None:
    """It is off in between, as four days of a node that runs take long to simulate."""
    for wait_s, dead_letters in ((345_590, 0), (20, 0), (0, 1)):
        with triack_world.machine("a"):
            node = triack.open("a", data="a", insecure=True, settings=replace(MSMQ, close_timeout_s=0.01))
        async with node:
            if wait_s > 20:
                await node.send(Q, b"1", until="queued")
            await triack_world.advance(1)
            assert node.queue_lengths().get("dead-letter", 0) == dead_letters
        await triack_world.advance(wait_s)


@statement("[MS-MQMQ] 2.2.19.2, RC", "", "29 relays; the 30th refuses")
@pytest.mark.gate
@pytest.mark.parametrize("relays", [1, 2, 28, 29, 30])
def test_a_message_passes_29_relays_and_its_order_ack_as_many(relays: int) -> None:
    """Over one more it is refused, and its origin hears that, as far away as it is."""
    chain = line(f"a{ascii_letters[2 : relays + 2]}b")
    a, b = chain["a"], chain["b"]
    post(a, "b", *numbered(0, 3))
    assert chain.world.run(25 * SECOND, lambda: chain.is_done("a"))
    assert not [record for record in a.log("packet_sent") if record["resend"]]
    arrives = relays <= HOPS_MAX
    assert b.read_all("q") == (numbered(0, 3) if arrives else [])
    assert dead(a) == (([], {}) if arrives else (numbered(0, 3), {"hop-count-exceeded": 3}))


@statement("[MS-MQQB] 3.1.5.5, JP", "send(journal=True)", "a copy in $journal when it has arrived, and not before")
async def test_a_message_with_source_journaling_is_copied_at_its_sender_when_it_has_arrived(
    triack_world: testing.World,
) -> None:
    async with two(triack_world, MSMQ) as (a, _):
        triack_world.cut("a", "b")
        await a.send(Q, b"1", journal=True)
        await triack_world.advance(10)
        assert a.queue_lengths().get("$journal", 0) == 0
        triack_world.heal()
        await a.drain()
        await triack_world.until(lambda: a.queue_lengths().get("$journal") == 1)


@statement(
    "MSMQ documentation, target journaling",
    'Limits(queue_journal={"q": Journal()})',
    "a copy in $journal.q of what was received",
)
async def test_a_queue_with_a_journal_keeps_a_copy_of_each_message_that_is_received(
    triack_world: testing.World,
) -> None:
    async with two(triack_world, MSMQ, replace(MSMQ, limits=Limits(queue_journal={"q": Journal()}))) as (_, b):
        assert b.queue_lengths().get("$journal.q", 0) == 0
        async with b.receive("q") as reader:
            assert (await reader.get()).body == b"hello"
        await b.flush()
        assert b.queue_lengths()["$journal.q"] == 1


@statement(
    "MSMQ documentation, JournalQuota",
    'Journal(messages=4, when_full="stop")',
    "4 of 8 copies, or 1 with a limit of 1; all 8 are read",
)
@pytest.mark.parametrize("copies", [1, 4])
def test_a_full_journal_gets_no_more_copies_until_it_has_room(copies: int) -> None:
    assert MSMQ.limits.journal.when_full == "stop"
    world = World(9)
    journal = Limits(queue_journal={"q": Journal(messages=copies, when_full="stop")})
    node = world.node("a", NodeSettings(limits=journal, messages_per_packet=1))
    for bodies in (numbered(0, 8), [b"later"], [b"too late"]):
        node.send(node, "q", *bodies)
        world.run(SECOND)
        node.read("q")
        world.run(SECOND)
        if bodies[1:]:
            assert [event.when_full for event in node.news if isinstance(event, JournalFull)] == ["stop"]
            assert node.read("$journal.q", 1) == 1
            world.run(SECOND)
    assert node.read_all("q") == [*numbered(0, 8), b"later", b"too late"]
    assert node.read_all("$journal.q") == [*numbered(0, copies), b"later"]


ARRIVED, RECEIVED = MessageClass.ACK_REACH_QUEUE, MessageClass.ACK_RECEIVE


@statement("[MS-MQQB] 3.1.7.15", "send(admin_queue=, acks=)", "one of each; no body")
@pytest.mark.gate
@pytest.mark.parametrize("delivery", list(Delivery))
def test_a_positive_acknowledgement_says_that_a_message_reached_its_queue_and_another_that_it_was_received(
    delivery: Delivery,
) -> None:
    world, a, b = pair(MSMQ)
    ask(a, "b", b"1", b"2", delivery=delivery, label="order")
    world.run(2 * SECOND)
    came = answers(a)
    assert [it[:2] for it in came] == [(ARRIVED, b"")] * 2
    assert [(it[2]["label"], it[2]["reply_to"]) for it in came] == [("order", "q")] * 2
    first = int(came[0][2]["correlation_id"].rpartition("-")[2])
    assert [it[2]["correlation_id"] for it in came] == [f"{a.live.node_id.hex()}-{first + at}" for at in (0, 1)]
    b.read("q")
    world.run(2 * SECOND)
    assert [it[2]["correlation_id"] for it in answers(a)] == [it[2]["correlation_id"] for it in came]
    assert b.live.administration.queued == {"ack-reach-queue": 2, "ack-receive": 2}
    assert {stream.delivery for stream in b.outbox.streams if stream.queue == "acks"} <= {delivery}


@statement("[MS-MQQB] 3.1.7.15", "send(admin_queue=, acks=)", "each of three kinds alone")
@pytest.mark.parametrize("asked", [Acks.POSITIVE_ARRIVAL, Acks.POSITIVE_RECEIVE, Acks.NOT_ACKNOWLEDGE_RECEIVE])
def test_only_the_acknowledgements_that_a_message_asks_for_are_sent(asked: Acks) -> None:
    world, a, b = pair(MSMQ)
    ask(a, "b", b"1", acks=asked)
    world.run(SECOND)
    b.read("q")
    world.run(SECOND)
    assert classes(a) == [it for it in (ARRIVED, RECEIVED) if it.asked_by & asked]


@statement("[MS-MQQB] 3.1.7.1.2, 3.1.7.15", "send(admin_queue=, acks=)", "0x8002, with the body")
@pytest.mark.parametrize("delivery", sorted(DURABLE))
def test_a_message_that_does_not_reach_its_queue_in_time_comes_back_as_a_negative_acknowledgement(
    delivery: Delivery,
) -> None:
    world, a, b = pair(MSMQ)
    world.cut(a, b)
    ask(a, "b", b"1", reach_ms=500, delivery=delivery)
    world.run(2 * SECOND)
    ((message_class, body, properties),) = answers(a)
    assert (message_class, body, properties["reply_to"]) == (0x8002, b"1", "b/q")
    assert a.length("dead-letter") == 1


@statement("[MS-MQMQ] 2.2.18.1.6", "send(time_to_be_received=)", "2 s; 0xC002, and a dead letter where it waited")
def test_a_message_that_is_not_received_in_time_is_a_dead_letter_and_its_sender_hears_of_it() -> None:
    world, a, b = pair(MSMQ)
    ask(a, "b", b"1", receive_ms=2_000)
    world.run(1_990 * MS)
    assert (b.length("q"), b.length("dead-letter")) == (1, 0)
    world.run(20 * MS)
    assert (b.length("q"), b.length("dead-letter"), a.length("dead-letter")) == (0, 1, 0)
    world.run(SECOND)
    assert [it[:2] for it in answers(a)] == [(ARRIVED, b""), (0xC002, b"1")]


@statement("[MS-MQMQ] 2.2.18.1.6", "send(admin_queue=, acks=)", "0x8003 for a full queue, 0x8004 for access denied")
def test_a_message_that_is_refused_comes_back_with_the_class_of_its_refusal() -> None:
    full = Limits(queue_quota={"q": Quota(1, when_full="reject")})
    world, a, b = pair(MSMQ, replace(MSMQ, limits=full))
    ask(a, "b", b"1")
    world.run(SECOND)
    ask(a, "b", b"2", acks=Acks.FULL_REACH_QUEUE)
    ask(a, "b", b"3", queue="$secret")
    world.run(2 * SECOND)
    assert classes(a) == [ARRIVED, 0x8003, 0x8004]
    assert b.length("q") == 1


@statement("[MS-MQMQ] 2.2.18.1.6", "message.reject(dead=True)", "0xC004; also after too many failures")
def test_a_message_that_its_application_rejects_comes_back_as_rejected() -> None:
    world, a, b = pair(replace(MSMQ, max_redeliveries=0))
    ask(a, "b", b"1", b"2", acks=Acks.FULL_RECEIVE)
    world.run(SECOND)
    mailbox = b.live.make_queue("q")
    for way in (Return(failed=True, dead=True), Return(failed=True)):
        lease = b.live.take(mailbox, b.world.now_ns)
        assert lease is not None
        b.live.give_back(mailbox, lease, way, b.world.now_ns)
    b.drain()
    world.run(SECOND)
    assert [it[:2] for it in answers(a)] == [(0xC004, b"1"), (0xC004, b"2")]


@statement("[MS-MQQB] 3.1.7.15", "", "none for one that finds no queue")
def test_an_acknowledgement_is_never_acknowledged() -> None:
    """A queue for answers at which nothing can be received: they are dropped there, and counted."""
    world = World(1)
    a, b = world.node("a", queues=["other"]), world.node("b")
    ask(a, "b", b"1")
    world.run(5 * SECOND)
    assert b.live.drops[DropReason.ADMIN_ACK_LOST] == 1
    assert (b.length("dead-letter"), a.length("dead-letter")) == (0, 0)
    b.read("q")
    world.run(5 * SECOND)
    assert b.live.drops[DropReason.ADMIN_ACK_LOST] == 2
    assert not b.busy
