"""Dead letters that nobody reads stop nobody, have a quota of their own, and each wait for room has a name."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from tests.queues.relays import ALL, Relays, line, post
from tests.queues.world import SimNode, numbered, single, two
from triack.base.delivery import Delivery
from triack.base.news import DeadLettersWaiting, QueueOverQuota, StreamHeld
from triack.base.reasons import DropReason, HoldReason
from triack.base.units import SECOND
from triack.ordering.wire import HoldPacket
from triack.queues.mailboxes.redelivery import Return
from triack.queues.node_settings import DeadLetters, Limits, NodeSettings, Quota, WhenLettersFull
from triack.stats.troubles import find_troubles


def limited(**more: object) -> NodeSettings:
    return NodeSettings(limits=Limits(**more), messages_per_packet=1)  # type: ignore[arg-type]


def let_expire(sender: SimNode, to: SimNode, count: int) -> None:
    """Messages that nobody reads in a second."""
    post(sender, to.name, *numbered(0, count, 900), queue="unread", read_ms=1_000)
    sender.world.run(20 * SECOND)


@pytest.mark.gate
def test_expired_messages_of_a_peer_stop_none_of_its_queues() -> None:
    """Three times as much as it may have in all queues has expired."""
    world, a, b = two(a=limited(), b=limited(peer_quota_bytes=20_000))
    for _ in range(3):
        let_expire(a, b, 20)
    assert b.length("dead-letter") == 60
    a.send(b, "orders", *numbered(0, 5))
    assert world.run(5 * SECOND, lambda: b.length("orders") == 5)
    assert b.live.inbox.admission.holds.streams == []


@pytest.mark.parametrize("when_full", get_args(WhenLettersFull))
def test_letters_have_a_quota_of_their_own(when_full: WhenLettersFull) -> None:
    """Of twenty there is room for eight. Lost ones are counted, and reported once."""
    world, a, b = two(a=limited(), b=limited(dead_letters=DeadLetters(messages=8, when_full=when_full)))
    let_expire(a, b, 20)
    there, lost = {
        "keep": (numbered(0, 8, 900), DropReason.DEAD_LETTERS_FULL),
        "drop oldest": (numbered(12, 20, 900), DropReason.DEAD_LETTER_REPLACED),
        "discard expired": ([], DropReason.EXPIRED_DISCARDED),
    }[when_full]
    assert b.live.drops[lost] == 20 - len(there)
    assert b.live.queues.dead_letters == {"receive-timeout": 20}
    told = [event.queue for event in b.news if isinstance(event, QueueOverQuota)]
    assert told == (["dead-letter"] if there else [])
    b.restart()
    assert b.read_all("dead-letter") == there
    a.send(b, "orders", b"1")
    assert world.run(5 * SECOND, lambda: b.length("orders") == 1)


REASONS = [
    (HoldReason.QUEUE_FULL, {"queue_quota": {"q": Quota(5)}}),
    (HoldReason.PEER_QUOTA, {"peer_quota_bytes": 5_000}),
    (HoldReason.NODE_QUOTA, {"node_quota_bytes": 5_000, "peer_quota_bytes": 1_000_000}),
]


@pytest.mark.parametrize(("reason", "limits"), REASONS)
def test_a_wait_for_room_has_a_name_at_both_ends(reason: HoldReason, limits: dict[str, object]) -> None:
    """As long as it lasts, and in the events that tell of its beginning and its end."""
    world, a, b = two(a=limited(), b=limited(**limits))
    outgoing, _ = a.send(b, "q", *numbered(0, 20, 900))
    assert world.run(5 * SECOND, lambda: a.outbox.holds.of(outgoing) is not None)
    assert a.outbox.holds.of(outgoing) is reason
    assert [(it.queue, it.reason) for it in b.live.inbox.admission.holds.streams] == [("q", reason)]
    for node, here in ((a, False), (b, True)):
        held = [(it.queue, it.reason, it.here, it.is_held) for it in node.news if isinstance(it, StreamHeld)]
        assert held == ([] if here and reason is HoldReason.QUEUE_FULL else [("q", reason.value, here, True)])
        assert any(isinstance(event, QueueOverQuota) for event in node.news) == (not held)
    assert world.run(60 * SECOND, lambda: b.read_all("q") == numbered(0, 20, 900))
    assert a.outbox.holds.streams == b.live.inbox.admission.holds.streams == []
    assert [event.is_held for event in a.news if isinstance(event, StreamHeld)][-1] is False


def test_a_disk_without_room_has_a_name_at_the_sender_until_there_is_some() -> None:
    world, a, b = two()
    a.send(b, "q", b"first")
    world.run(SECOND)
    b.live.inbox.admission.disk_room.handle_room(0)
    outgoing, _ = a.send(b, "q", b"second")
    assert world.run(5 * SECOND, lambda: a.outbox.holds.of(outgoing) is HoldReason.STORE_LOW)
    b.act(lambda: b.live.inbox.admission.disk_room.handle_room(2**40))
    world.run(5 * SECOND)
    assert b.read_all("q") == [b"first", b"second"]


def test_a_wait_ends_with_its_session() -> None:
    """The destination says so again, if it is so."""
    world, a, b = two(a=limited(), b=limited(queue_quota={"q": Quota(5)}))
    outgoing, _ = a.send(b, "q", *numbered(0, 20, 900))
    assert world.run(5 * SECOND, lambda: a.outbox.holds.of(outgoing) is not None)
    b.end()
    assert world.run(120 * SECOND, lambda: a.outbox.holds.of(outgoing) is None)


def test_a_reason_that_is_not_known_is_said_to_be_that() -> None:
    """Of a peer that is newer; and of a neighbour by which the stream does not go nothing is."""
    world, a, b = two()
    outgoing, _ = a.send(b, "q", b"1")
    assert world.run(5 * SECOND, lambda: not a.busy)
    other: Any = SimpleNamespace(peer_id=b"another" + bytes(9))
    a.outbox.handle_hold(other, HoldPacket(*outgoing.id, 2, True, ""), world.now_ns)
    assert a.outbox.holds.of(outgoing) is None
    neighbour: Any = SimpleNamespace(peer_id=b.live.node_id)
    a.outbox.handle_hold(neighbour, HoldPacket(*outgoing.id, 1, True, "no-mood"), world.now_ns)
    assert a.outbox.holds.of(outgoing) is HoldReason.UNKNOWN


def test_a_policy_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="DeadLetters: when_full must be drop oldest, keep or"):
        DeadLetters(when_full="burn")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Limits: dead_letters"):
        Limits(dead_letters=5)  # type: ignore[arg-type]


@pytest.mark.parametrize("wanted", [False, "mine"])
def test_a_sender_may_want_no_dead_letter_or_one_elsewhere(wanted: object) -> None:
    """At its own node as at the destination: counted by its reason, or in a queue that is made for it, and stays."""
    world, a, b = two()
    post(a, "b", b"1", b"2", read_ms=2_000, dead_letter=wanted)
    post(a, "b", b"3", queue="$secret", dead_letter=wanted)
    world.run(10 * SECOND)
    declined = [dict(node.live.queues.declined_letters) for node in (a, b)]
    assert declined == ([{}, {}] if wanted else [{"access-denied": 1}, {"receive-timeout": 2}])
    assert b.live.drops[DropReason.LETTER_DECLINED] == (0 if wanted else 2)
    b.restart()
    assert (a.read_all("mine"), b.read_all("mine")) == (([b"3"], [b"1", b"2"]) if wanted else ([], []))
    assert (a.length("dead-letter"), b.length("dead-letter"), b.length("q")) == (0, 0, 0)


@pytest.mark.parametrize("name", ["$replies", "dead-letter", "no such name!", ".x", 5, True])
def test_a_letter_that_cannot_be_where_its_sender_wants_is_not_lost(name: object) -> None:
    world, a, b = two()
    post(a, "b", b"1", read_ms=2_000, dead_letter=name)
    world.run(10 * SECOND)
    assert b.length("dead-letter") == 1


def test_no_peer_writes_by_its_dead_letters_where_it_may_not_send() -> None:
    """Nor does it make queues where there are enough, or fill one over its quota."""
    world, a, b = two(a=limited(), b=limited(queue_quota={"small": Quota(1)}))
    b.know(replace(a.peer, may_send=("q", "small")))
    post(a, "b", b"1", read_ms=2_000, dead_letter="forbidden")
    post(a, "b", b"2", b"3", read_ms=2_000, dead_letter="small")
    world.run(10 * SECOND)
    assert (b.length("forbidden"), b.length("small"), b.length("dead-letter")) == (0, 1, 2)


@pytest.mark.parametrize("brings", [False, True])
def test_no_relay_writes_by_the_dead_letters_of_a_peer_where_it_may_not_send(brings: bool) -> None:
    """Though the peer whose id it gives may: the relay may have made it up."""
    net = Relays("ar rb ab", {})
    a, b = net["a"], net["b"]
    b.know(replace(net["r"].peer, may_send=("q",), may_relay=ALL, relays_for=("a",)))
    b.know(replace(a.peer, may_send=("q", "secret")))
    post(a, "b", b"1")  # its key is proved
    net.world.run(SECOND)
    net.reroute("a", *([("b", "r")] if brings else []))
    post(a, "b", b"2", read_ms=2_000, dead_letter="secret")
    net.world.run(10 * SECOND)
    assert (b.length("secret"), b.length("dead-letter")) == ((0, 1) if brings else (1, 0))


def test_a_letter_that_dies_in_the_queue_of_its_sender_is_one_for_the_operator() -> None:
    """It does not come into the same queue again and again."""
    world, a = single(NodeSettings(max_redeliveries=0))
    post(a, "", b"1", read_ms=500, dead_letter="mine")
    world.run(2 * SECOND)
    a.give_back(a.take("mine"), Return(failed=True), "mine")
    a.drain()
    world.run(SECOND)
    assert (a.length("mine"), a.length("dead-letter")) == (0, 1)


def test_a_relay_keeps_letters_as_their_sender_wants() -> None:
    net = line("arb")
    net.world.cut(net["r"], net["b"])
    for said in (False, "mine"):
        post(net["a"], "b", b"x", delivery=Delivery.RECOVERABLE, life_ms=3_000, dead_letter=said)
    net.world.run(10 * SECOND)
    assert (net["r"].length("mine"), net["r"].length("dead-letter")) == (1, 0)
    assert net["r"].live.queues.declined_letters == {"reach-queue-timeout": 1}


def test_the_operator_hears_once_of_many_dead_letters() -> None:
    """None is refused; the trouble ends with the letters."""
    world, a = single(limited(dead_letters=DeadLetters(warn_at=5)))
    for count in (4, 1, 3):
        post(a, "", *numbered(0, count), read_ms=500)
        world.run(2 * SECOND)
    told = [event for event in a.news if isinstance(event, DeadLettersWaiting)]
    assert told == [DeadLettersWaiting("dead-letter", 5)]
    assert [it.trouble for it in find_troubles(a.live, world.now_ns)] == ["dead-letters"]
    a.read_all("dead-letter")
    assert find_troubles(a.live, world.now_ns) == []
