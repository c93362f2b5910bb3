"""Checks of journals: honest logs of nodes, and lies in them."""

from functools import cache

import pytest

from tests.queues.world import SimNode, numbered, two
from tests.tools.replay.judging import checks_of
from tests.tools.replay.telling import happens
from tests.tools.replay.two_nodes import Log, checks, logs_of, renumbered
from triack.base.delivery import Delivery
from triack.base.units import SECOND
from triack.queues.mailboxes.redelivery import Return
from triack.queues.messages import JOURNAL, Outgoing
from triack.queues.node_settings import Journal, Limits, NodeSettings

KEEPS = NodeSettings(limits=Limits(queue_journal={"q": Journal(), "local": Journal(messages=20, when_full="stop")}))


def send(node: SimNode, where: str, queue: str, *bodies: bytes, delivery: Delivery = Delivery.TRANSACTIONAL) -> None:
    outgoing = node.live.outgoing_stream(where, queue, delivery)
    for body in bodies:
        node.live.submit(outgoing, Outgoing(body, {JOURNAL: True}), len(body))
    node.drain()


@cache
def honest(*, restarts: bool = False) -> tuple[Log, Log]:
    """The logs of two nodes: one keeps what it sends, here and there; both keep what their readers take."""
    world, a, b = two(3, a=KEEPS, b=KEEPS)
    for delivery in Delivery:
        send(a, "b", "q", *numbered(0, 30), delivery=delivery)
        send(a, "", "local", *numbered(0, 8), delivery=delivery)
        world.run(2 * SECOND)
        a.read("local")
    b.read("q", 65)
    mailbox = b.live.queues.mailboxes["q"]
    lease = b.live.take(mailbox, world.now_ns)
    assert lease is not None
    b.act(lambda: b.live.give_back(mailbox, lease, Return(failed=True, dead=True), world.now_ns))
    world.run(2 * SECOND)
    if restarts:
        send(a, "b", "q", *numbered(30, 40))
        a.restart()
        b.restart()
        world.run(60 * SECOND)
    send(a, "b", "q", bytes(50_000))
    world.run(5 * SECOND)
    b.read_all("q")
    world.run(5 * SECOND)
    return logs_of(a, b)


@pytest.mark.parametrize("restarts", [False, True])
def test_honest_logs_accuse_nobody(*, restarts: bool) -> None:
    a, b = honest(restarts=restarts)
    assert checks(a, b) == set()
    said = {(it["queue"], it["kept"]) for it in a + b if it["event"] == "journaled"}
    assert said == {("$journal", True), ("q", True), ("q", False), ("local", True), ("local", False)}


@pytest.mark.parametrize(("cls", "found"), [("transactional", True), ("recoverable", True), ("express", False)])
def test_what_was_sent_is_judged_without_a_next_start(cls: str, found: bool) -> None:
    """The session has gone on long enough: the commit that deleted the messages has begun. Express ones have none."""
    a, b = honest()
    local = {it["stream"] for it in a if it["event"] == "committed"}
    lie = [it for it in a if it["event"] != "journaled" or it["stream"] in local or it["class"] != cls]
    assert len(lie) < len(a)
    assert checks(renumbered(lie), b) == ({"journal_complete"} if found else set())


@pytest.mark.parametrize(("waited_s", "stops", "found"), [(9, False, False), (11, False, True), (9, True, True)])
def test_a_commit_that_may_not_have_begun_accuses_nobody(waited_s: int, stops: bool, found: bool) -> None:
    """As the store may be slow, or have failed, which ends the session. To stop in good order is to commit."""
    world = happens(f"ask_copy 1; deliver tx 1; wait {waited_s}000; deliver tx 1; end")
    if not stops:
        world.alpha.drop("node_stopped")
    assert ("journal_complete" in checks_of(world)) == found


def test_what_is_copied_was_handed_out_before() -> None:
    """A judge that reads of the copy first takes what an earlier start had settled for what was settled here."""
    handed: set[tuple[int, int]] = set()
    for it in honest(restarts=True)[1]:
        if it["event"] in ("handed", "journaled"):
            packets = range(it["number"], it["number"] + sum(packets for packets, _ in it["counts"]))
            numbers = {(it["sequence"], number) for number in packets}
            if it["event"] == "handed":
                handed |= numbers
            elif it["kept"]:
                assert numbers <= handed


@pytest.mark.parametrize(
    ("boots", "found"), [(("same", "same"), True), (("another", "another"), False), (("same", "another"), False)]
)
def test_what_the_lost_end_of_a_log_may_say_of_a_stream_accuses_nobody(boots: tuple[str, str], found: bool) -> None:
    """A loss of power may have taken the record of the copy, or what the next start has said of the stream."""
    first, second = boots
    world = happens(f"ask_copy 1; deliver tx 1; alpha.start {first}; alpha.start {second}; end")
    assert ("journal_complete" in checks_of(world)) == found


SETTLED = "beta settled tx queue=orders number=1"
STARTED = "close path-lost; beta start; open"


@pytest.mark.parametrize(("then", "found"), [("arrive; settle_journaled 2;", True), ("", False)])
def test_a_copy_is_known_to_be_made_when_all_of_its_packet_is_settled(then: str, found: bool) -> None:
    """The first message was settled before; the commit of the rest, which made the copy, may not have returned."""
    world = happens(
        f"arrive; {SETTLED} place=0 counts=[[1,1]]; copy 1; {SETTLED} place=1 counts=[[1,9]] journaled=true; wait 1;"
        f"{then} {STARTED}; copy 1; end"
    )
    assert ("journal_twice" in checks_of(world)) == found


@pytest.mark.parametrize(("again", "found"), [("place=0", True), ("place=5", False)])
def test_a_message_is_left_out_of_a_journal_once(again: str, found: bool) -> None:
    left = "beta journaled tx queue=orders number=1 kept=false counts=[[1,5]]"
    world = happens(f"arrive; {left} place=0; {left} {again}; {SETTLED} place=0 counts=[[1,10]] journaled=true; end")
    assert ("journal_twice" in checks_of(world)) == found


def test_a_copy_that_is_made_again_is_made_of_all_of_its_messages() -> None:
    """One that was left out between them makes two records of the copy, and the second repeats nothing of the first."""
    copied = "beta journaled tx queue=orders number=1 kept=true"
    again = (
        f"{copied} place=0 counts=[[1,4]]; {copied} place=4 counts=[[1,6]];"
        f"{SETTLED} place=1 counts=[[1,9]] journaled=true; {STARTED};"
    )
    world = happens(f"arrive; {SETTLED} place=0 counts=[[1,1]]; {again} {again} end")
    assert "journal_twice" not in checks_of(world)


@pytest.mark.parametrize(("boot", "found"), [("same", {"claims", "journal_early"}), ("another", set())])
def test_a_commit_with_a_copy_may_never_have_returned(boot: str, found: set[str]) -> None:
    """Two starts copy the packet. That its sender asks for it was in the end of a log that a loss of power took."""
    start = f"alpha.start {boot}; queued tx 1 1 recovered=true; open; copy 1 sent=true; close path-lost;"
    assert checks_of(happens(f"queue tx 1; send tx 1; close path-lost; {start} {start} end")) == found
