"""Administration messages: a sender learns once what happened to each message, where it happened."""

import pytest

from tests.queues.admin import answers, ask, classes
from tests.queues.relays import line, post
from tests.queues.world import PlainWorld, numbered, two
from tests.sure import sure
from triack.base.delivery import Delivery
from triack.base.reasons import DropReason
from triack.base.units import MS, SECOND
from triack.queues.mailboxes.redelivery import Return
from triack.queues.message_classes import Acks, MessageClass
from triack.queues.node_settings import Limits, NodeSettings, Quota
from triack.stats.troubles import find_troubles
from triack.tools.replay.engines.local_engine import verdict_on
from triack.tools.replay.log.files import parse_records

ARRIVED, RECEIVED = MessageClass.ACK_REACH_QUEUE, MessageClass.ACK_RECEIVE


def test_answers_wait_at_the_destination_while_their_queue_is_full() -> None:
    """The reader of the messages goes on."""
    full = NodeSettings(limits=Limits(queue_quota={"acks": Quota(3)}), messages_per_packet=1)
    world, a, b = two(a=full, b=NodeSettings(messages_per_packet=1))
    ask(a, "b", *numbered(0, 20), acks=Acks.POSITIVE_RECEIVE)
    world.run(SECOND)
    assert b.read("q") == 20
    world.run(20 * SECOND)
    assert a.length("acks") < 8
    assert b.busy
    came = 0
    for _ in range(30):
        came += len(answers(a))
        world.run(5 * SECOND)
    assert came == 20
    assert not b.busy


@pytest.mark.gate
@pytest.mark.parametrize("seed", range(6))
def test_a_crash_repeats_no_answer_and_loses_none(seed: int) -> None:
    """The destination dies again and again, at any commit; each cause is told once."""
    _, a, b = two(seed)
    ask(a, "b", *numbered(0, 60))
    chance = a.world.chance("crashes")
    for _ in range(60):
        a.world.run(chance.randrange(1, 40) * SECOND // 1_000)
        b.read("q", 3)
        if chance.random() < 0.3:
            b.restart()
    a.world.run(60 * SECOND)
    b.read_all("q")
    a.world.run(60 * SECOND)
    told = [(it[0], it[2]["correlation_id"]) for it in answers(a)]
    assert len(set(told)) == len(told) == 120
    assert len({one for _, one in told}) == 60
    records = [record for node in (a, b) for record in parse_records(b"".join(node.records))]
    assert [it for it in verdict_on(records).findings if it.check.startswith("admin")] == []


def test_a_relay_answers_for_what_ends_there() -> None:
    """It has told the origin that it has the message, so that the origin knows nothing of it any more."""
    net = line("arb")
    net.world.cut(net["r"], net["b"])
    ask(net["a"], "b", b"1", delivery=Delivery.RECOVERABLE, reach_ms=3_000)
    net.world.run(10 * SECOND)
    assert [it[:2] for it in answers(net["a"])] == [(MessageClass.REACH_QUEUE_TIMEOUT, b"1")]
    assert (net["r"].length("dead-letter"), net["a"].length("dead-letter")) == (1, 0)


def test_each_answer_is_in_the_log() -> None:
    """Which message of which packet, once for a run of neighbours."""
    _, a, b = two()
    ask(a, "b", b"1", b"2", b"3")
    a.world.run(SECOND)
    (record,) = b.log("admin_ack_queued")
    (accepted,) = b.log("committed")
    keys = ("origin", "stream", "sequence", "class")
    assert {key: record[key] for key in keys} == {key: accepted[key] for key in keys}
    assert (record["number"], record["place"], record["count"], record["message_class"]) == (1, 0, 3, 2)


def test_the_log_says_with_one_commit_what_readers_did_and_what_senders_hear() -> None:
    """Also of a message that was acknowledged while the disk was busy, just before another one was refused."""
    _, a, b = two()
    ask(a, "b", b"1", b"2", acks=Acks.FULL_RECEIVE)
    a.world.run(SECOND)
    b.commit_ns = 100 * MS
    post(b, "a", b"busy")
    b.world.run(10 * MS)
    mailbox = b.live.make_queue("q")
    done, refused = (sure(b.live.take(mailbox, b.world.now_ns)) for _ in range(2))
    b.live.acknowledge(mailbox, [(done.packet, 1 << done.index)])
    b.live.give_back(mailbox, refused, Return(failed=True, dead=True), b.world.now_ns)
    b.world.run(SECOND)
    assert {it["at_ns"] for it in b.log("admin_ack_queued")} == {it["at_ns"] for it in b.log("settled")}
    a.world.run(SECOND)
    assert classes(a) == [RECEIVED, MessageClass.RECEIVE_REJECTED]


def test_a_reader_whose_process_dies_before_its_commit_is_told_of_once() -> None:
    """No note in memory may count the message as done: its answer would never be sent."""
    _, a, b = two()
    ask(a, "b", b"1", acks=Acks.POSITIVE_RECEIVE)
    a.world.run(SECOND)
    mailbox = b.live.make_queue("q")
    lease = sure(b.live.take(mailbox, b.world.now_ns))
    b.live.acknowledge(mailbox, [(lease.packet, 1 << lease.index)])
    b.end()
    b.start()
    a.world.run(5 * SECOND)
    assert classes(a) == []
    assert b.read_all("q") == [b"1"]
    a.world.run(5 * SECOND)
    assert classes(a) == [RECEIVED]


def test_without_keys_answers_find_a_node_that_has_not_called_since_a_restart() -> None:
    """By the address with which it had called before."""
    world, a, b = two(make=PlainWorld)
    ask(a, b.address, b"1", b"2")
    world.run(3 * SECOND)
    assert classes(a) == [ARRIVED, ARRIVED]
    b.restart()
    b.read_all("q")
    world.run(5 * SECOND)
    assert classes(a) == [RECEIVED, RECEIVED]


def test_answers_to_a_node_that_only_its_id_names_end_after_four_days() -> None:
    """It has no address, so only it can call. Until then the operator sees what they wait for."""
    world, a, b = two(make=PlainWorld)
    ask(a, b.address, b"1")
    world.run(3 * SECOND)
    b.live.handshakes.peers.addresses.clear()
    a.crash()
    b.restart()
    b.live.handshakes.peers.addresses.clear()
    b.read_all("q")
    world.run(SECOND)
    assert [(it.trouble, it.about) for it in find_troubles(b.live, world.now_ns)] == [
        ("no-address", b.live.outbox.streams[-1].peer)
    ]
    before = b.live.drops[DropReason.ADMIN_ACK_LOST]
    world.run(4 * 86_400 * SECOND + SECOND)
    assert (b.busy, b.length("dead-letter")) == (False, 0)
    assert b.live.drops[DropReason.ADMIN_ACK_LOST] == before + 1
