"""Messages that a destination refuses: each is either delivered or a dead letter that says so, and never both."""

from random import Random

import pytest

from tests.queues.admin import answers
from tests.queues.world import SimNode, numbered, two
from triack.base.delivery import Delivery
from triack.base.reasons import RejectReason
from triack.base.units import MS, SECOND
from triack.queues.node_settings import Limits, NodeSettings, Quota
from triack.queues.stages import STAGES, Stage
from triack.queues.streams.admission import Admission
from triack.queues.streams.inbox import Inbox
from triack.tools.sim.faults import Faults

EXPRESS, RECOVERABLE, TRANSACTIONAL = Delivery
DURABLE = [RECOVERABLE, TRANSACTIONAL]


class Moody:
    """A destination that takes or refuses a packet as chance has it, and another time the same one otherwise."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, random: Random, share: float) -> None:
        self.share = share

        def refusal(*_: object) -> RejectReason | None:
            return RejectReason.QUEUE_NOT_FOUND if random.random() < self.share else None

        monkeypatch.setattr(Admission, "refusal", refusal)


def letters(node: SimNode) -> list[bytes]:
    """Bodies of the dead letters of a node, each of which must be sure that it was not delivered."""
    node.world.run(MS)
    found = answers(node, "dead-letter")
    assert {(it["dead_maybe_delivered"], it["dead_reason"]) for _, _, it in found} <= {(False, "queue-not-found")}
    return [body for _, body, _ in found]


@pytest.mark.gate
@pytest.mark.parametrize("delivery", list(Delivery))
@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
@pytest.mark.plain
def test_each_message_is_delivered_or_a_dead_letter(
    monkeypatch: pytest.MonkeyPatch, delivery: Delivery, share: float
) -> None:
    """Large ones, too, of which one fragment is taken and the next is not; and all of it within seconds."""
    world, a, b = two()
    Moody(monkeypatch, Random(1), share)
    bodies = [*numbered(0, 60, 900), *numbered(60, 80, 3_000), *numbered(80, 100)]
    said = [a.watch(a.send(b, "q", body, delivery=delivery), STAGES[delivery]) for body in bodies]
    assert world.run(10 * SECOND, lambda: not a.busy)
    got, dead = b.read_all("q"), letters(a)
    assert sorted(got + dead) == bodies
    assert share < 1 or not got
    assert share == 1 or (got and dead)
    if delivery is TRANSACTIONAL:
        assert got == sorted(got)
    told = {body: reason for body, (reason,) in zip(bodies, said, strict=True)}
    assert told == {body: "queue-not-found" if body in dead else None for body in bodies}
    assert a.live.closes.total() == b.live.closes.total() == 0


@pytest.mark.gate
@pytest.mark.parametrize("delivery", DURABLE)
@pytest.mark.plain
def test_nothing_waits_for_the_store_ack_of_what_was_refused_before_it_left(delivery: Delivery) -> None:
    """A fragment was refused, and the session had those behind it: what comes after the next message is passed over."""
    small = NodeSettings(limits=Limits(Quota(size_bytes=50_000)))
    world, a, b = two(1, Faults(delay_ns=50 * MS, jitter_ns=20 * MS), b=small)
    bodies = numbered(0, 10, 3_000)
    a.send(b, "q", b"x" * 100_000, *bodies, delivery=delivery)
    world.run(60 * SECOND)
    assert sorted(b.read_all("q")) == bodies
    assert a.live.closes.total() == b.live.closes.total() == 0


@pytest.mark.plain
def test_what_an_earlier_process_may_have_taken_is_not_called_undelivered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of express messages the destination's disk knows nothing: refused when sent again, it says no more than that."""
    world, a, b = two()
    moody = Moody(monkeypatch, Random(1), 0.0)
    a.send(b, "q", b"opens", delivery=EXPRESS)
    world.run(SECOND)
    world.cut(b, a, both=False)
    a.send(b, "q", b"taken", delivery=EXPRESS)
    world.run(SECOND)
    assert b.read_all("q") == [b"opens", b"taken"]
    moody.share = 1.0
    b.restart()
    world.heal()
    assert world.run(60 * SECOND, lambda: not a.busy)
    a.send(b, "q", b"refused", delivery=EXPRESS)
    assert world.run(60 * SECOND, lambda: not a.busy)
    world.run(MS)
    said = {body: properties["dead_maybe_delivered"] for _, body, properties in answers(a, "dead-letter")}
    assert said == {b"taken": True, b"refused": False}


@pytest.mark.gate
def test_more_rejections_than_an_ack_has_ranges_stall_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every second packet of hundreds in one session: store acks pass what was refused, when its origin knows."""
    world, a, b = two()
    refused = iter([True, False] * 1_000)
    monkeypatch.setattr(Admission, "refusal", lambda *_: RejectReason.QUEUE_NOT_FOUND if next(refused) else None)
    bodies = numbered(0, 600, 900)
    for at in range(0, 600, 20):
        a.send(b, "q", *bodies[at : at + 20], delivery=RECOVERABLE)
        world.run(20 * MS)
    assert world.run(2 * SECOND, lambda: not a.busy)
    assert sorted(b.read_all("q") + letters(a)) == bodies
    assert len(a.log("session_opened")) == 1


@pytest.mark.parametrize("delivery", DURABLE)
@pytest.mark.plain
def test_a_rejection_stands_when_the_answer_is_lost_and_there_is_room_again(
    monkeypatch: pytest.MonkeyPatch, delivery: Delivery
) -> None:
    """The resend gets the same answer; what was sent behind it was delivered long before."""
    world, a, b = two()
    moody = Moody(monkeypatch, Random(1), 1.0)
    world.cut(b, a, both=False)
    a.send(b, "q", b"refused", delivery=delivery)
    world.cut(a, b)
    world.heal()
    world.run(5 * MS)
    world.run(SECOND, lambda: len(b.log("rejected")) == 1)
    world.run(MS)
    world.cut(a, b)
    moody.share = 0.0
    a.restart()
    b.restart()
    world.heal()
    a.send(b, "q", b"taken", delivery=delivery)
    assert world.run(20 * SECOND, lambda: not a.busy)
    assert (b.read_all("q"), letters(a)) == ([b"taken"], [b"refused"])


@pytest.mark.parametrize("delivery", DURABLE)
@pytest.mark.plain
def test_an_order_ack_does_not_speak_of_what_its_origin_does_not_know(
    monkeypatch: pytest.MonkeyPatch, delivery: Delivery
) -> None:
    """Rejections are lost again and again, all else comes through: nobody frees what was refused."""
    world, a, b = two()
    refused = iter([False, True, False, False])
    monkeypatch.setattr(Admission, "refusal", lambda *_: RejectReason.QUEUE_NOT_FOUND if next(refused, False) else None)
    monkeypatch.setattr(Inbox, "_tell_rejected", lambda *_: None)
    for body in numbered(0, 4):
        a.send(b, "q", body, delivery=delivery)
        world.run(50 * MS)
    world.run(60 * SECOND)
    assert b.read_all("q") == [*numbered(0, 1), *numbered(2, 4)]
    assert (a.busy, a.length("dead-letter")) == (True, 0)
    monkeypatch.undo()
    assert world.run(60 * SECOND, lambda: not a.busy)
    assert letters(a) == numbered(1, 2)


@pytest.mark.parametrize("loss", [0.0, 0.3])
@pytest.mark.parametrize("sent", ["large small", "small large small", "small large large small", "large large small"])
def test_order_acks_behind_a_refusal_wait_for_no_resend_tier(sent: str, loss: float) -> None:
    """The packet after it goes out again as soon as its origin has the refusal: no half minute passes."""
    small = NodeSettings(limits=Limits(queue_quota={"q": Quota(100, 5_000)}))
    world, a, b = two(1, Faults(loss=loss, reorder=0.2, delay_ns=5 * MS), b=small)
    bodies = [bytes(20_000) if size == "large" else b"small" for size in sent.split()]
    said = [a.watch(a.send(b, "q", body), Stage.ORDERED) for body in bodies]
    assert world.run(3 * SECOND, lambda: all(said))
    assert said == [["too-large"] if len(body) > 5 else [None] for body in bodies]
    assert not a.log("resend_scheduled")


def test_a_duplicate_is_known_before_anything_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that was accepted is not refused when it comes again, even if nothing more would be taken."""
    world, a, b = two()
    moody = Moody(monkeypatch, Random(1), 0.0)
    b.commit_ns = MS
    a.send(b, "q", b"taken")
    assert world.run(SECOND, lambda: b.length("q") == 1)
    moody.share = 1.0
    a.restart()
    assert world.run(20 * SECOND, lambda: not a.busy)
    assert (b.read_all("q"), letters(a)) == ([b"taken"], [])
