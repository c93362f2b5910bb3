"""Worlds in which something is unusual but right; each of them must pass."""

from collections.abc import Callable
from typing import Any

from tests.tools.replay.builder import (
    BETA,
    CLASS_STREAMS,
    MS,
    PER_PACKET,
    World,
    healthy,
    place,
    scheduled,
)
from tests.tools.replay.faults import TX, ready, recover, settle
from tests.tools.replay.relays import HONEST

# What is unusual but right; each of them must pass.
HARMLESS: dict[str, Callable[[], World]] = {"healthy": healthy, **HONEST}


def harmless(build: Callable[[], World]) -> Callable[[], World]:
    HARMLESS[build.__name__] = build
    return build


@harmless
def rejected_for_good() -> World:
    """Beta has no such queue: it rejects, and alpha moves the packet to its dead letters."""
    world = ready()
    arrived = world.send("recoverable", world.queue("recoverable", 1))
    where = place("recoverable")
    world.beta.write("rejected", cls="recoverable", **where, number=1, reason="queue-not-found")
    world.ack(arrived, store=False)
    world.alpha.write(
        "removed", cls="recoverable", **where, first=1, last=1, count=PER_PACKET, reason="queue-not-found"
    )
    return world


@harmless
def express_lost_in_a_crash() -> World:
    """Express packets of a failed session are gone with the process that had them."""
    world = ready()
    world.send("express", world.queue("express", 2), lost=(1, 2))
    world.close("path-lost")
    world.alpha.start()
    world.open()
    world.deliver("express", 1)
    return world


@harmless
def a_copy_was_asked_for_by_a_commit_that_never_returned() -> World:
    """The next start gives the packet's number to one whose sender wants no copy."""
    world = ready()
    world.alpha.write("journal_asked", cls=TX, **place(TX), number=1, place=0, count=PER_PACKET)
    for _ in range(2):
        world.close("path-lost")
        world.alpha.start()
        world.open()
        if world.next[TX] == 1:
            world.deliver(TX, 1)
    return world


@harmless
def express_gone_before_the_next_session() -> World:
    """The process ends before a session follows the one that failed; the next start has nothing express to send."""
    world = ready()
    world.send("express", world.queue("express", 2), lost=(1, 2))
    world.close("ack-timeout")
    world.alpha.start()
    world.open()
    world.clock.tick(100_000 * MS)
    world.close()
    return world


@harmless
def freed_before_the_session_failed() -> World:
    """Packets that were acknowledged or removed need no resend when their session fails and the next one goes on."""
    world = ready()
    for cls in CLASS_STREAMS:
        world.deliver(cls, 2)
    numbers = world.queue(TX, 2)
    world.send(TX, numbers, lost=tuple(numbers))
    world.alpha.write("removed", cls=TX, **place(TX), first=3, last=4, count=2 * PER_PACKET, reason="expired")
    world.close("ack-timeout")
    world.open()
    for cls in CLASS_STREAMS:
        world.send(cls, world.queue(cls, 1))
    return world


@harmless
def acked_just_in_time() -> World:
    """An ack may be as late as the idle delay and what a busy machine adds to it."""
    world = ready()
    arrived = world.send("express", world.queue("express", 1))
    world.clock.tick(640 * MS)
    world.ack(arrived, store=False)
    return world


@harmless
def given_up_while_it_was_on_its_way() -> World:
    """Packet 2 expires after it was sent; 3, which passes over it, is not committed yet when a copy of 2 arrives."""
    world = ready()
    numbers = world.queue(TX, 3)
    world.send(TX, numbers[:2], lost=(2,))
    world.commit(TX, numbers[:1])
    world.alpha.write("removed", cls=TX, **place(TX), first=2, last=2, count=PER_PACKET, reason="expired")
    world.send(TX, numbers[2:], previous=1)
    world.beta.write("packet_received", duplicate=False, **late_copy(world, 2))
    world.beta.write("rejected", cls=TX, **place(TX), number=2, reason="duplicate")
    world.commit(TX, numbers[2:])
    return world


@harmless
def refused_and_given_up() -> World:
    """There is no room for packet 2, it is sent again and expires, and that copy comes late; 1 and 3 are committed."""
    world = ready()
    numbers = world.queue(TX, 3)
    world.send(TX, numbers[:2])
    world.beta.write("rejected", cls=TX, **place(TX), number=2, reason="hold-full")
    world.send(TX, numbers[1:2], lost=(2,))
    world.alpha.write("removed", cls=TX, **place(TX), first=2, last=2, count=PER_PACKET, reason="expired")
    world.send(TX, numbers[2:], previous=1)
    world.beta.write("packet_received", duplicate=False, **late_copy(world, 2))
    world.beta.write("rejected", cls=TX, **place(TX), number=2, reason="duplicate")
    world.commit(TX, numbers).update(count=2 * PER_PACKET)
    world.hand(TX, numbers[::2])
    return world


@harmless
def sent_again_as_the_one_before_it_is_gone() -> World:
    """Beta refused 2, so alpha sends 3 again when it can: the ack of its first sending begins no wait."""
    world = ready()
    settle(world)
    numbers = world.queue(TX, 3)
    arrived = world.send(TX, numbers[:1])
    world.commit(TX, numbers[:1])
    world.ack(arrived)
    arrived = world.send(TX, numbers[1:])
    world.beta.write("rejected", cls=TX, **place(TX), number=2, reason="queue-full")
    world.alpha.write("removed", cls=TX, **place(TX), first=2, last=2, count=PER_PACKET, reason="queue-full")
    world.order_ack(1)
    world.ack(arrived, store=False)
    world.clock.tick(10_000 * MS)
    arrived = world.send(TX, numbers[2:], previous=1)
    world.commit(TX, numbers[2:])
    world.ack(arrived)
    world.order_ack(3)
    world.hand(TX, numbers[::2])
    return world


@harmless
def taken_over_by_an_open_session() -> World:
    """Two sessions are open; when the one that carries the stream fails, the other begins with the first attempt."""
    world = ready()
    settle(world)
    failing, other = world.session, world.open()
    world.session = failing
    numbers = world.queue(TX, 1)
    world.send(TX, numbers, lost=(1,))
    world.clock.tick(30 * MS)
    scheduled(world, 1, 30 * MS)
    world.close("ack-timeout")
    world.session, world.packets = other, 0
    arrived = world.send(TX, numbers)
    world.ack(arrived, store=False)
    world.clock.tick(30 * MS)
    scheduled(world, 1, 30 * MS)
    world.commit(TX, numbers)
    world.order_ack(1)
    world.hand(TX, numbers)
    return world


@harmless
def given_to_a_session_that_let_nothing_out() -> World:
    """A session takes a packet, which begins its wait, and ends as idle before the packet leaves: the wait goes on."""
    world = ready()
    settle(world)
    others = world.queue("recoverable", 1)
    arrived = world.send("recoverable", others)
    world.commit("recoverable", others)
    world.ack(arrived)
    world.clock.tick(300_000 * MS)
    numbers = world.queue(TX, 1)
    world.clock.tick(20 * MS)
    world.close("idle")
    world.open()
    world.clock.tick(5 * MS)
    arrived = world.send(TX, numbers)
    world.ack(arrived, store=False)
    world.clock.tick(10 * MS)
    scheduled(world, 1, 30 * MS)
    world.commit(TX, numbers)
    world.order_ack(1)
    world.hand(TX, numbers)
    return world


@harmless
def refused_for_ever() -> World:
    """Packets 2 and 3 are refused by a full queue: the stream goes on past them, and its acks speak of them, too."""
    world = ready()
    numbers = world.queue(TX, 5)
    arrived = world.send(TX, numbers[:3])
    world.commit(TX, numbers[:1])
    for number in (2, 3):
        world.beta.write("rejected", cls=TX, **place(TX), number=number, reason="queue-full")
    world.alpha.write("removed", cls=TX, **place(TX), first=2, last=3, count=2 * PER_PACKET, reason="queue-full")
    world.order_ack(3)
    arrived += world.send(TX, numbers[3:])
    world.commit(TX, numbers[3:])
    world.ack(arrived)
    world.clock.tick(100_000 * MS)
    world.order_ack(5)
    return world


def second_comes_first(*reasons: str) -> tuple[World, range]:
    """Packet 2 comes twice and 1 does not; the reasons for which beta rejects a copy of 2."""
    world = ready()
    numbers = world.queue(TX, 2)
    world.send(TX, numbers, lost=(1,))
    world.send(TX, numbers[1:])
    for reason in reasons:
        world.beta.write("rejected", cls=TX, **place(TX), number=2, reason=reason)
    return world, numbers


def first_comes_then(world: World, numbers: range, reason: str) -> World:
    """Packet 1 comes, and beta rejects 2, whose turn it is, for a reason."""
    world.send(TX, numbers[:1])
    world.beta.write("rejected", cls=TX, **place(TX), number=2, reason=reason)
    world.commit(TX, numbers[:1])
    return world


@harmless
def refused_when_its_turn_came() -> World:
    """Packet 2 is held, a copy of it is a duplicate; when 1 is there, 2 is refused: alpha may not send that."""
    return first_comes_then(*second_comes_first("duplicate"), "access-denied")


@harmless
def refused_in_a_crowd_and_when_its_turn_came() -> World:
    """The same, but for its copy there was no room."""
    return first_comes_then(*second_comes_first("hold-full"), "too-large")


@harmless
def let_go_after_a_bad_copy() -> World:
    """Packet 2 is held, a relay has changed a copy of it, and it is let go as 1 does not come."""
    return second_comes_first("bad-seal", "held-back")[0]


@harmless
def refused_before_its_copy() -> World:
    """Packet 2 is held; 1 and a copy of 2 come in one run: 2 is refused as 1 is there, and its copy as a duplicate."""
    world = ready()
    numbers = world.queue(TX, 2)
    world.send(TX, numbers, lost=(1,))
    world.send(TX, numbers)
    for reason in ("queue-full", "duplicate"):
        world.beta.write("rejected", cls=TX, **place(TX), number=2, reason=reason)
    world.commit(TX, numbers[:1])
    return world


@harmless
def given_up_when_its_end_was_stored() -> World:
    """Packets 1 to 3 are one message, of which 2 was lost and 3 is on beta's disk; it expires as a whole."""
    world = ready()
    numbers = world.queue("recoverable", 3)
    arrived = world.send("recoverable", numbers[:1])
    world.commit("recoverable", numbers[:1])
    world.ack(arrived)
    world.send("recoverable", numbers[1:], lost=(2,))
    world.commit("recoverable", numbers[2:])
    said = {"session": world.session, "ranges": [[3, 3]]}
    for kind, trigger in (("ack", "gap"), ("store_ack", "request")):
        world.beta.write(f"{kind}_sent", cumulative=1, trigger=trigger, pending=1, **said)
        world.alpha.write(f"{kind}_received", **said)
    gone = {"first": 1, "last": 3, "count": 3 * PER_PACKET, "reason": "expired"}
    world.alpha.write("removed", cls="recoverable", **place("recoverable"), **gone)
    return world


@harmless
def held_and_given_up() -> World:
    """Packet 3 waits at beta for 2, which is lost; both expire, and 4 says that 1 goes before it."""
    world = ready()
    numbers = world.queue(TX, 4)
    world.send(TX, numbers[:3], lost=(2,))
    world.commit(TX, numbers[:1])
    world.alpha.write("removed", cls=TX, **place(TX), first=2, last=3, count=2 * PER_PACKET, reason="expired")
    world.send(TX, numbers[3:], previous=1)
    world.commit(TX, numbers[1:]).update(count=PER_PACKET)
    world.hand(TX, numbers[::3])
    return world


def late_copy(world: World, number: int) -> dict[str, Any]:
    """What alpha sent as that number."""
    sent = world.alpha.all("packet_sent", number=number)[-1]
    kept = ("session", "packet", "class", "size", "origin", "stream", "sequence", "number", "counts", "previous")
    return {"cls" if name == "class" else name: sent[name] for name in kept}


@harmless
def stored_at_last() -> World:
    """The store ack of a recoverable packet says nothing of the next one, which beta never gets."""
    world = ready()
    arrived = world.send("recoverable", world.queue("recoverable", 2), lost=(2,))
    world.commit("recoverable", range(1, 2))
    world.ack(arrived)
    return world


@harmless
def pending_at_the_end() -> World:
    """Packets that still wait are no violation, whatever became of their session."""
    world = ready()
    world.send(TX, world.queue(TX, 3), lost=(2, 3))
    world.commit(TX, range(1, 2))
    world.close("path-lost")
    return world


@harmless
def recovered_ranges() -> World:
    """Beta dies between a recoverable commit and its record; its duplicate filter knows 1, 3 and 4."""
    world = ready()
    numbers = world.queue("recoverable", 4)
    world.send("recoverable", numbers, lost=(2,))
    recover(world, [[1, 1], [3, 4]])
    arrived = world.send("recoverable", numbers)
    for number in (1, 3, 4):
        world.beta.write("rejected", cls="recoverable", **place("recoverable"), number=number, reason="duplicate")
    world.commit("recoverable", range(2, 3))
    world.ack(arrived)
    return world


@harmless
def rejection_remembered_by_the_next_start() -> World:
    """Beta rejects packet 1 and dies. Its next start takes 2, and no order ack may cover 1 until alpha knows."""
    world = ready()
    arrived = world.send(TX, world.queue(TX, 1))
    world.beta.write("rejected", cls=TX, **place(TX), number=1, reason="queue-full")
    world.ack(arrived)
    world.beta.start()
    world.beta.write("position_recovered", cls=TX, **place(TX), number=1)
    world.alpha.write("session_closed", session=world.session, peer=BETA, peer_name="b", reason="superseded", unacked=0)
    world.open()
    world.queue(TX, 1)
    arrived = world.send(TX, range(1, 3))
    world.beta.write("rejected", cls=TX, **place(TX), number=1, reason="duplicate")
    world.commit(TX, range(2, 3))
    world.ack(arrived)
    world.clock.tick(12_000 * MS)
    world.alpha.write("removed", cls=TX, **place(TX), first=1, last=1, count=PER_PACKET, reason="queue-full")
    world.order_ack(2)
    return world


@harmless
def no_threshold() -> World:
    """Beta counts no packets for its acks, and 150 arrive before one leaves."""
    world = ready()
    for record in (*world.alpha.all("session_opened"), *world.beta.all("session_opened")):
        record.update(window=200, ack_threshold=0, ack_share="", store_ack_threshold=100)
    for record in (world.alpha.records[0], world.beta.records[0]):
        record.update(max_unacked_packet=200, ack_threshold=0)
    world.ack(world.send("express", world.queue("express", 150)), store=False)
    return world


@harmless
def expired_between_attempts() -> World:
    """A packet that went out again expires; the next packet's first resend is attempt 1 again."""
    world = ready()
    settle(world)
    numbers = world.queue(TX, 1)
    world.send(TX, numbers, lost=(1,))
    world.clock.tick(30 * MS)
    scheduled(world, 1, 30 * MS)
    world.alpha.write("removed", cls=TX, **place(TX), first=1, last=1, count=PER_PACKET, reason="expired")
    world.send(TX, world.queue(TX, 1), lost=(2,))
    world.clock.tick(30 * MS)
    scheduled(world, 1, 30 * MS, number=2)
    return world


@harmless
def tiers_as_they_should_be() -> World:
    """Ten attempts over four tiers, then progress and the first tier again."""
    world = ready()
    settle(world)
    arrived = world.send(TX, world.queue(TX, 2))
    world.ack(arrived, store=False)
    for attempt, wait in enumerate((30, 30, 30, 300, 300, 300, 900, 900, 900, 5000), start=1):
        world.clock.tick(wait * MS)
        scheduled(world, attempt, wait * MS)
    world.commit(TX, range(1, 2))
    world.order_ack(1)
    world.clock.tick(30 * MS)
    scheduled(world, 1, 30 * MS, number=2)
    return world


@harmless
def held_back_for_longer_than_its_tier() -> World:
    """Beta has no room: what has arrived there waits at alpha to go out again, and no tier runs out for it."""
    world = ready()
    settle(world)
    numbers = world.queue(TX, 1)
    arrived = world.send(TX, numbers)
    world.beta.write("rejected", cls=TX, **place(TX), number=1, reason="held-back")
    world.ack(arrived, store=False)
    world.alpha.write("hold_received", cls=TX, **place(TX), stop=True, reason="queue-full")
    world.clock.tick(10_000 * MS)
    world.alpha.write("hold_received", cls=TX, **place(TX), stop=False)
    arrived = world.send(TX, numbers)
    world.commit(TX, numbers)
    world.ack(arrived)
    world.order_ack(1)
    world.hand(TX, numbers)
    return world


@harmless
def given_up_although_an_ack_of_it_came() -> World:
    """Beta had no room and said so; that it had taken this packet before came later, and alpha did not count it."""
    world = ready()
    numbers = world.queue("recoverable", 1)
    arrived = world.send("recoverable", numbers)
    world.commit("recoverable", numbers)
    where = place("recoverable")
    world.alpha.write("hold_received", cls="recoverable", **where, stop=True, reason="queue-full")
    world.ack(arrived)
    world.alpha.write("removed", cls="recoverable", **where, first=1, last=1, count=PER_PACKET, reason="expired")
    world.hand("recoverable", numbers)
    return world


@harmless
def sent_again_after_an_idle_end() -> World:
    """Beta refused 1 and 2, and the session ended as idle: the next one carries them again, and no tier does."""
    world = ready()
    settle(world)
    world.alpha.records[0].update(seq_resend_13_ns=5_000 * MS)
    numbers = world.queue(TX, 2)
    arrived = world.send(TX, numbers)
    for number in numbers:
        world.beta.write("rejected", cls=TX, **place(TX), number=number, reason="hold-full")
    world.ack(arrived, store=False)
    world.clock.tick(4_900 * MS)
    world.close("idle")
    for log in world.logs:
        log.one("session_opened").update(cleanup_interval_ns=4_900 * MS)
    world.clock.tick(1_000 * MS)
    world.open()
    arrived = world.send(TX, numbers)
    world.commit(TX, numbers)
    world.ack(arrived)
    world.order_ack(2)
    world.hand(TX, numbers)
    return world


@harmless
def purged_in_its_queue() -> World:
    """Somebody took packet 2 and a message of packet 4 out by hand, another of it expired; the rest was read."""
    world = ready()
    numbers = world.queue(TX, 5)
    arrived = world.send(TX, numbers)
    world.commit(TX, numbers)
    world.ack(arrived)
    world.order_ack(5)
    for number, first, last in ((2, 0, PER_PACKET - 1), (4, 1, 1)):
        world.beta.write(
            "purged", queue="orders", **place(TX), number=number, cls=TX, place=first, counts=[[1, last - first + 1]]
        )
    dead = {"place": 2, "counts": [[1, 1]], "receive_by_ms": 1_700_000_000_000}
    world.beta.write("expired", queue="orders", **place(TX), number=4, cls=TX, **dead)
    parts = ((1, 0, PER_PACKET - 1), (3, 0, PER_PACKET - 1), (4, 0, 0), (4, 3, PER_PACKET - 1), (5, 0, PER_PACKET - 1))
    for number, first, last in parts:
        world.beta.write(
            "handed", queue="orders", **place(TX), number=number, cls=TX, first=first, last=last, redelivered=False
        )
    return world


@harmless
def closed_in_time() -> World:
    """By the ack timeout after 100 s of silence, and by the store ack timeout after 11 s of asking."""
    world = ready()
    world.send("express", world.queue("express", 1), lost=(1,))
    world.clock.tick(100_000 * MS)
    world.close("ack-timeout")
    world.open()
    world.ack(world.send("express", range(1, 2)))
    numbers = world.queue("recoverable", 1)
    world.ack(world.send("recoverable", numbers), store=False)
    world.clock.tick(11_000 * MS)
    world.close("store-ack-timeout")
    world.open()
    arrived = world.send("recoverable", numbers)
    world.commit("recoverable", numbers)
    world.ack(arrived)
    return world


@harmless
def a_peer_that_asks_is_alive() -> World:
    """Nothing of it arrives for longer than the longest timeout, but it waits for acks itself: pings are in no log."""
    world = ready()
    world.send("express", world.queue("express", 1), lost=(1,))
    world.beta.write("packet_sent", session=world.session, packet=1, cls="express", size=30, resend=False)
    world.clock.tick(130_000 * MS)
    world.close("ack-timeout")
    world.beta.records[-1]["unacked"] = 1
    return world


@harmless
def gaps_that_are_not_told_at_once() -> World:
    """Both ends agreed that neither a gap nor a copy makes an ack due; each waits for the idle delay."""
    world = ready()
    for log in world.logs:
        log.one("session_opened").update(ack_at_once="")
    world.send("express", world.queue("express", 3), lost=(2,))
    world.clock.tick(500 * MS)
    world.beta.write("ack_sent", session=world.session, cumulative=1, ranges=[[3, 3]], trigger="delay", pending=2)
    world.beta.repeat(world.beta.one("packet_received", packet=3), duplicate=True)
    world.clock.tick(400 * MS)
    world.close("path-lost")
    return world


@harmless
def process_that_stood_still() -> World:
    """Beta sees a gap and is kept from answering by its machine: nothing comes or leaves meanwhile."""
    world = ready()
    world.send("express", world.queue("express", 3), lost=(2,))
    world.clock.tick(350 * MS)
    world.beta.write("ack_sent", session=world.session, cumulative=1, ranges=[[3, 3]], trigger="gap", pending=2)
    world.close("path-lost")
    return world


@harmless
def copy_of_the_last_moment() -> World:
    """A copy arrives just before the session ends, so that no ack of it can leave."""
    world = ready()
    world.ack(world.send("express", world.queue("express", 1)), store=False)
    world.send("express", range(1, 2), resend=True)
    world.beta.records[-1]["duplicate"] = True
    world.close()
    return world


@harmless
def stored_just_in_time() -> World:
    """A store ack may be as late as its delay and what a busy machine adds to it, counted from the commit."""
    world = ready()
    arrived = world.send("recoverable", world.queue("recoverable", 1))
    world.ack(arrived, store=False)
    world.clock.tick(900 * MS)
    world.commit("recoverable", range(1, 2))
    world.clock.tick(640 * MS)
    world.beta.write("store_ack_sent", session=world.session, cumulative=1, ranges=[], trigger="delay", pending=1)
    world.alpha.write("store_ack_received", session=world.session, ranges=[[1, 1]])
    return world


@harmless
def came_by_two_sessions() -> World:
    """A packet that is being written when it comes again by another session may be store-acked there, or not at all."""
    world = ready()
    numbers = world.queue("recoverable", 1)
    world.ack(world.send("recoverable", numbers), store=False)
    world.close("path-lost")
    world.open()
    world.ack(world.send("recoverable", numbers), store=False)
    world.commit("recoverable", numbers)
    world.clock.tick(10_000 * MS)
    world.close()
    return world


@harmless
def closed_as_idle() -> World:
    """After five minutes without a packet, or after one by the end that wants it so; the other end hears of it."""
    world = ready()
    world.deliver(TX, 1)
    world.clock.tick(300_000 * MS)
    world.close("idle")
    world.open()
    world.beta.all("session_opened")[-1].update(cleanup_interval_ns=60_000 * MS)
    world.deliver("express", 1)
    world.clock.tick(60_000 * MS)
    world.close("idle")
    return world


@harmless
def not_idle_while_something_waits() -> World:
    """A packet that an order ack freed may get no store ack, and seems to wait for one; and five minutes are not up."""
    world = ready()
    numbers = world.queue(TX, 1)
    world.ack(world.send(TX, numbers), store=False)
    world.commit(TX, numbers)
    world.beta.write("store_ack_sent", session=world.session, cumulative=1, ranges=[], trigger="request", pending=1)
    world.order_ack(1)
    for log in world.logs:
        log.one("session_opened").update(cleanup_interval_ns=400_000 * MS)
    world.clock.tick(390_000 * MS)
    world.close("local-stop")
    return world


@harmless
def closed_by_a_ping_that_nobody_answers() -> World:
    """No packet waits for an ack. An earlier ping was answered, and alpha has heard nothing since the second one."""
    world = ready()
    world.deliver(TX, 1)
    for _ in range(2):
        world.alpha.write("ping_sent", session=world.session)
        world.beta.write(
            "ack_sent", session=world.session, cumulative=world.acked, ranges=[], trigger="request", pending=0
        )
        world.alpha.write("ack_received", session=world.session, ranges=[])
        world.clock.tick(140_000 * MS)
    world.alpha.write("ping_sent", session=world.session)
    world.close("ack-timeout")
    return world


def kept_alive_by(event: str) -> World:
    """No ack comes for longer than any timeout (120 s); the last sign of life came 52 s before the end."""
    world = ready()
    world.send("express", world.queue("express", 1), lost=(1,))
    for _ in range(3):
        world.clock.tick(50_000 * MS)
        world.alpha.write(event, session=world.session)
    world.clock.tick(50_000 * MS)
    world.close("ack-timeout")
    return world


@harmless
def answers_to_probes_of_the_path_are_signs_of_life() -> World:
    return kept_alive_by("probe_answered")


@harmless
def pieces_of_large_packets_are_signs_of_life() -> World:
    """They are of packets of the peer's, which waits for nothing in the end."""
    return kept_alive_by("piece_received")


@harmless
def bytes_that_make_no_store_ack_due() -> World:
    """One below the limit is on the disk, and after an ack they count from the beginning."""
    world = ready()
    for log in world.logs:
        log.one("session_opened").update(store_ack_bytes=2_401)
    for packets in (2, 1):
        numbers = world.queue("recoverable", packets)
        arrived = world.send("recoverable", numbers)
        world.commit("recoverable", numbers)
        world.clock.tick(400 * MS)
        world.ack(arrived)
    return world


def end_stream(world: World, cls: str) -> None:
    """Alpha ends a stream of which nothing is outstanding, and beta forgets it."""
    world.alpha.write("stream_ended", cls=cls, **place(cls))
    world.beta.write("stream_forgotten", cls=cls, **place(cls))


def next_stream(world: World, deliver: Callable[[], object]) -> None:
    """What is delivered is of the next streams in the same streams."""
    before = [len(log.records) for log in world.logs]
    world.next = dict.fromkeys(CLASS_STREAMS, 1)
    deliver()
    for log, first in zip(world.logs, before, strict=True):
        for record in log.records[first:]:
            if "sequence" in record:
                record["sequence"] += 1


def retired() -> World:
    """A stream has ended with one of its messages unread, and beta is killed. It finds nothing of the stream."""
    world = ready()
    numbers = world.queue(TX, 2)
    arrived = world.send(TX, numbers)
    world.commit(TX, numbers)
    world.ack(arrived)
    world.order_ack(2)
    world.hand(TX, range(1, 2))
    world.settle(TX, range(1, 2))
    end_stream(world, TX)
    restart_beta(world)
    world.hand(TX, range(2, 3))
    return world


def restart_beta(world: World) -> None:
    """Beta is killed, and its next start calls alpha."""
    world.alpha.write("session_closed", session=world.session, peer=BETA, peer_name="b", reason="superseded", unacked=0)
    world.beta.start()
    world.open()


@harmless
def ended_before_its_messages_were_read() -> World:
    return retired()


@harmless
def numbers_used_again() -> World:
    """The next streams have the streams of those that have ended. Killed nodes tell of the next ones only."""
    world = ready()
    for cls in (TX, "recoverable"):
        world.deliver(cls, 4)
        end_stream(world, cls)
    next_stream(world, lambda: deliver_and_restart(world))
    world.open()
    return world


def deliver_and_restart(world: World) -> None:
    """Beta has two packets of each durable class on its disk when it starts again."""
    for cls in (TX, "recoverable"):
        world.deliver(cls, 2)
    world.close()
    for log in world.logs:
        log.start()
    world.beta.write("position_recovered", cls=TX, **place(TX), number=2)
    world.beta.write("position_recovered", cls="recoverable", **place("recoverable"), ranges=[[1, 2]])


@harmless
def forgotten_beside_its_commit() -> World:
    """Alpha gives up what is on its way and ends the stream. Beta commits it, and forgets it with the commit after."""
    world = ready()
    settle(world)
    numbers = world.queue(TX, 1)
    arrived = world.send(TX, numbers)
    world.alpha.write("removed", cls=TX, **place(TX), first=1, last=1, count=PER_PACKET, reason="expired")
    end_stream(world, TX)
    world.commit(TX, numbers)
    world.ack(arrived)
    world.clock.tick(2000 * MS)
    next_stream(world, lambda: deliver_and_restart(world))
    return world


@harmless
def forgotten_right_after_its_commit() -> World:
    """The same, and beta is killed behind the commit that forgets the stream."""
    world = ready()
    numbers = world.queue(TX, 1)
    arrived = world.send(TX, numbers)
    world.alpha.write("removed", cls=TX, **place(TX), first=1, last=1, count=PER_PACKET, reason="expired")
    end_stream(world, TX)
    world.commit(TX, numbers)
    world.ack(arrived)
    restart_beta(world)
    next_stream(world, lambda: world.deliver(TX, 1))
    return world


@harmless
def ended_before_its_order_ack_was_due() -> World:
    """Alpha has given up what beta has committed: beta owes no order ack for it any more."""
    world = ready()
    settle(world)
    numbers = world.queue(TX, 1)
    arrived = world.send(TX, numbers)
    world.commit(TX, numbers)
    world.ack(arrived)
    world.alpha.write("removed", cls=TX, **place(TX), first=1, last=1, count=PER_PACKET, reason="expired")
    end_stream(world, TX)
    world.clock.tick(2000 * MS)
    next_stream(world, lambda: world.deliver(TX, 1))
    return world


@harmless
def forgotten_again_after_a_restart() -> World:
    """Beta is killed before the commit that forgets a stream: its next start finds it, and hears of the end again."""
    world = ready()
    world.deliver(TX, 2)
    end_stream(world, TX)
    world.alpha.write("session_closed", session=world.session, peer=BETA, peer_name="b", reason="superseded", unacked=0)
    world.beta.start()
    world.beta.write("position_recovered", cls=TX, **place(TX), number=2)
    world.open()
    world.beta.write("stream_forgotten", cls=TX, **place(TX))
    next_stream(world, lambda: world.deliver(TX, 1))
    return world


@harmless
def lanes_of_an_earlier_life() -> World:
    """Alpha is killed. Its next life has express streams in the streams of the first, whose end beta never heard."""
    world = ready()
    world.deliver("express", 2)
    world.close()
    world.alpha.start()
    world.open()
    next_stream(world, lambda: world.deliver("express", 1))
    return world


@harmless
def ended_with_nothing_on_the_disk() -> World:
    """Alpha dies before it has committed the end of a stream that never had a message: the next one has its number."""
    world = ready()
    world.alpha.write("stream_ended", cls="recoverable", **place(TX))
    world.close()
    world.alpha.start()
    world.open()
    world.deliver(TX, 1)
    return world
