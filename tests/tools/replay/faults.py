"""One world for each promise that can be broken: a correct record with one planted fault."""

from collections.abc import Callable

from tests.tools.replay.builder import (
    AGREED,
    BETA,
    CLASS_STREAMS,
    MS,
    PER_PACKET,
    SEQUENCE,
    Log,
    World,
    fit,
    place,
    scheduled,
)

TX = "transactional"
# What a fault must be found as: (check, stream, sequence, number), the last three -1 where they say nothing.
Expected = set[tuple[str, int, int, int]]
Fault = Callable[[World], Expected]
FAULTS: dict[str, Fault] = {}

STREAM = CLASS_STREAMS[TX]


def fault(plant: Fault) -> Fault:
    FAULTS[plant.__name__] = plant
    return plant


def ready() -> World:
    """Both nodes run and have a session."""
    world = World()
    world.alpha.start()
    world.beta.start()
    world.open()
    return world


def settle(world: World) -> None:
    """Both nodes said at their start that order acks and resends are due within seconds."""
    for log in world.logs:
        log.records[0].update(
            max_unacked_packet=64, idle_ack_delay_ns=500 * MS, ack_threshold=32, ack_timeout_min_ns=2000 * MS,
            seq_max_ack_delay_ns=1000 * MS, seq_resend_13_ns=30 * MS, seq_resend_46_ns=300 * MS,
            seq_resend_79_ns=900 * MS, seq_resend_10_ns=5000 * MS,
        )  # fmt: skip


def opened(log: Log, session: str, peer: str) -> None:
    """A node opens a session with one whose log nobody has."""
    log.write(
        "session_opened", session=session, peer=peer, peer_name="b", role="initiator", address="udp://127.0.0.1:7809",
        window=64, idle_ack_delay_ns=500 * MS, ack_threshold=32, **AGREED,
    )  # fmt: skip


def recover(world: World, ranges: list[list[int]]) -> None:
    """Beta dies, starts on what its duplicate filter knew of the recoverable stream, and opens a new session."""
    world.beta.start()
    world.beta.write("position_recovered", cls="recoverable", **place("recoverable"), ranges=ranges)
    world.alpha.write("session_closed", session=world.session, peer=BETA, peer_name="b", reason="superseded", unacked=4)
    world.open()


@fault
def commit_out_of_order(world: World) -> Expected:
    """Beta commits 3 before 2; that is disorder, and a gap when it happens."""
    numbers = world.queue(TX, 3)
    arrived = world.send(TX, numbers)
    for number in (1, 3, 2):
        world.commit(TX, range(number, number + 1))
    world.ack(arrived)
    return {("order", STREAM, SEQUENCE, 2), ("gaps", STREAM, SEQUENCE, 3)}


@fault
def handed_out_of_order(world: World) -> Expected:
    """Beta hands packet 2 out before packet 1."""
    numbers = world.queue(TX, 2)
    world.ack(world.send(TX, numbers), store=False)
    world.commit(TX, numbers)
    for number in (2, 1):
        world.hand(TX, range(number, number + 1))
    return {("order", STREAM, SEQUENCE, 1)}


@fault
def hole_in_a_commit(world: World) -> Expected:
    """Beta goes on with 3 although 2 is queued and was never removed."""
    numbers = world.queue(TX, 3)
    world.ack(world.send(TX, numbers), store=False)
    world.commit(TX, numbers[:1])
    world.commit(TX, numbers[2:])
    return {("gaps", STREAM, SEQUENCE, 3)}


@fault
def hole_behind_a_removal(world: World) -> Expected:
    """Alpha removes 2 and 3; beta leaves out 4 as well, and then acknowledges it."""
    numbers = world.queue(TX, 5)
    world.ack(world.send(TX, numbers), store=False)
    world.alpha.write("removed", cls=TX, **place(TX), first=2, last=3, count=2 * PER_PACKET, reason="expired")
    world.commit(TX, numbers[:1])
    world.commit(TX, numbers[4:])
    world.order_ack(5)
    return {("gaps", STREAM, SEQUENCE, 5), ("lost", STREAM, SEQUENCE, 4)}


@fault
def committed_twice(world: World) -> Expected:
    """Beta commits a recoverable packet again."""
    world.deliver("recoverable", 4)
    world.commit("recoverable", range(2, 3))
    return {("duplicates_delivered", CLASS_STREAMS["recoverable"], SEQUENCE, 2)}


@fault
def handed_behind_a_marked_one(world: World) -> Expected:
    """Packet 2 was handed out before, says its mark; then packet 1 comes as if it were new."""
    numbers = world.queue(TX, 2)
    world.ack(world.send(TX, numbers), store=False)
    world.commit(TX, numbers)
    for number in (2, 1):
        world.hand(TX, range(number, number + 1))
    world.beta.one("handed", number=2).update(redelivered=True)
    return {("order", STREAM, SEQUENCE, 1)}


@fault
def urgent_messages_left_waiting(world: World) -> Expected:
    """Beta hands out two transactional packets, of priority 0, one after the other while a recoverable one waits."""
    waiting, low = world.queue("recoverable", 1), world.queue(TX, 3)
    for cls, numbers in (("recoverable", waiting), (TX, low)):
        world.ack(world.send(cls, numbers), store=False)
        world.commit(cls, numbers)
    world.hand(TX, low)
    world.hand("recoverable", waiting)
    return {("priority_order", CLASS_STREAMS["recoverable"], SEQUENCE, 1)}


@fault
def a_higher_priority_than_the_default_left_waiting(world: World) -> Expected:
    """An express packet of priority 7 waits while recoverable ones of priority 3 are handed out."""
    urgent, low = world.queue("express", 1), world.queue("recoverable", 3)
    for cls, numbers in (("express", urgent), ("recoverable", low)):
        world.ack(world.send(cls, numbers), store=False)
        world.commit(cls, numbers)
    world.hand("recoverable", low)
    world.hand("express", urgent)
    for event in ("queued", "committed", "handed"):
        for log in world.logs:
            for record in log.all(event, cls="express"):
                record["priority"] = 7
    return {("priority_order", CLASS_STREAMS["express"], SEQUENCE, 1)}


@fault
def another_priority_on_the_way(world: World) -> Expected:
    """Alpha queues packets of priority 7, and beta takes them with that of their class."""
    world.deliver("recoverable", 2)
    world.alpha.one("queued", cls="recoverable").update(priority=7)
    return {("claims", CLASS_STREAMS["recoverable"], SEQUENCE, -1)}


@fault
def handed_again_at_once(world: World) -> Expected:
    """Beta hands the last messages out again without a mark; in a transactional stream that is disorder as well."""
    world.deliver(TX, 2)
    world.hand(TX, range(2, 3))
    return {("duplicates_delivered", STREAM, SEQUENCE, 2), ("order", STREAM, SEQUENCE, 2)}


@fault
def handed_out_of_two_queues(world: World) -> Expected:
    """A packet has one queue; its messages are no other ones when they come out of another."""
    world.deliver("recoverable", 2)
    world.beta.repeat(world.beta.one("handed", number=2), queue="others")
    return {("duplicates_delivered", CLASS_STREAMS["recoverable"], SEQUENCE, 2)}


@fault
def handed_twice(world: World) -> Expected:
    """Beta hands a recoverable packet out again without saying so; the marked one is fine."""
    world.deliver("recoverable", 4)
    world.hand("recoverable", range(2, 3))
    world.beta.repeat(world.beta.one("handed", number=3), redelivered=True)
    return {("duplicates_delivered", CLASS_STREAMS["recoverable"], SEQUENCE, 2)}


@fault
def lost_transactional(world: World) -> Expected:
    """Alpha gets an order ack for what beta never committed; that beta sends it is a fault of its own."""
    numbers = world.queue(TX, 2)
    world.ack(world.send(TX, numbers), store=False)
    world.commit(TX, numbers[:1])
    world.order_ack(2)
    return {("lost", STREAM, SEQUENCE, 2), ("order_ack_before_commit", STREAM, SEQUENCE, 2)}


@fault
def lost_recoverable(world: World) -> Expected:
    """Alpha forgets a recoverable packet after a store ack that beta's log does not have."""
    numbers = world.queue("recoverable", 2)
    arrived = world.send("recoverable", numbers)
    world.ack(arrived, store=False)
    world.commit("recoverable", numbers[:1])
    world.alpha.write("store_ack_received", session=world.session, ranges=[[1, 2]])
    return {("lost", CLASS_STREAMS["recoverable"], SEQUENCE, 2)}


@fault
def window_exceeded(world: World) -> Expected:
    """Alpha sends a 65th packet before any of 64 is acknowledged."""
    world.send("express", world.queue("express", 65))
    return {("window", -1, -1, 65)}


@fault
def window_known_late(world: World) -> Expected:
    """The record that tells the window comes after the packet that exceeds it."""
    world.send("express", world.queue("express", 65))
    log = world.alpha
    opened = log.one("session_opened")
    log.records.remove(opened)
    log.records.append(opened)
    return {("window", -1, -1, 65)}


@fault
def acked_before_it_was_sent(world: World) -> Expected:
    """Packet 1 is acknowledged before it leaves; it takes no room in the window after that."""
    world.send("express", world.queue("express", 64))
    log = world.alpha
    ack = fit({**log.one("packet_sent"), "event": "ack_received", "ranges": [[1, 1]]})
    log.records.insert(log.records.index(log.one("packet_sent")), ack)
    world.send("express", world.queue("express", 1))
    return {("ack_unreceived", -1, -1, 1)}


@fault
def order_ack_too_early(world: World) -> Expected:
    """The order ack leaves before the commit that follows."""
    world.deliver(TX, 4)
    world.beta.move_before(world.beta.one("order_ack_sent"), world.beta.one("committed"))
    return {("order_ack_before_commit", STREAM, SEQUENCE, 4)}


@fault
def store_ack_too_early(world: World) -> Expected:
    """The store ack leaves before the commit that follows."""
    world.deliver("recoverable", 2)
    world.beta.move_before(world.beta.one("store_ack_sent"), world.beta.one("committed"))
    stream = CLASS_STREAMS["recoverable"]
    return {("store_ack_before_commit", stream, SEQUENCE, 1), ("store_ack_before_commit", stream, SEQUENCE, 2)}


@fault
def store_ack_of_a_rejected_packet(world: World) -> Expected:
    """Beta rejected a packet for lack of room, so that its store ack is a lie, and alpha loses the packet."""
    arrived = world.send("recoverable", world.queue("recoverable", 1))
    where = place("recoverable")
    world.beta.write("rejected", cls="recoverable", **where, number=1, reason="hold-full")
    world.ack(arrived)
    stream = CLASS_STREAMS["recoverable"]
    return {("store_ack_before_commit", stream, SEQUENCE, 1), ("lost", stream, SEQUENCE, 1)}


@fault
def store_ack_of_what_was_not_recovered(world: World) -> Expected:
    """Beta's filter knew 1, 3 and 4 when it started; it store-acks 2 although it never committed it."""
    numbers = world.queue("recoverable", 4)
    world.send("recoverable", numbers, lost=(2,))
    recover(world, [[1, 1], [3, 4]])
    world.ack(world.send("recoverable", numbers))
    stream = CLASS_STREAMS["recoverable"]
    return {("store_ack_before_commit", stream, SEQUENCE, 2), ("lost", stream, SEQUENCE, 2)}


@fault
def acks_beyond_what_was_recovered(world: World) -> Expected:
    """Beta had 1 and 2 on disk when it started; it store-acks and order-acks 3, too."""
    numbers = world.queue(TX, 3)
    world.send(TX, numbers)
    world.beta.start()
    world.beta.write("position_recovered", **place(TX), number=2, cls=TX)
    world.alpha.write("session_closed", session=world.session, peer=BETA, peer_name="b", reason="superseded", unacked=3)
    world.open()
    world.ack(world.send(TX, numbers))
    world.order_ack(2)
    world.order_ack(3)
    return {(check, STREAM, SEQUENCE, 3) for check in ("store_ack_before_commit", "order_ack_before_commit", "lost")}


@fault
def acks_of_what_was_refused_for_now(world: World) -> Expected:
    """There is no room for packet 2 yet; beta store-acks and order-acks it, as if it had refused it permanently."""
    numbers = world.queue(TX, 2)
    arrived = world.send(TX, numbers)
    world.commit(TX, numbers[:1])
    world.beta.write("rejected", cls=TX, **place(TX), number=2, reason="hold-full")
    world.ack(arrived)
    world.order_ack(2)
    return {(check, STREAM, SEQUENCE, 2) for check in ("store_ack_before_commit", "order_ack_before_commit", "lost")}


@fault
def more_unacknowledged_at_the_end_than_the_window(world: World) -> Expected:
    """Alpha says so itself, of packets of which some have not left."""
    world.send(TX, world.queue(TX, 2), lost=(1, 2))
    closed = {"session": world.session, "peer": BETA, "peer_name": "b", "reason": "path-lost"}
    world.alpha.write("session_closed", **closed, unacked=65)
    return {("window", -1, -1, -1)}


@fault
def ack_for_what_was_not_sent(world: World) -> Expected:
    """Alpha receives an ack for packet 5 after it sent four."""
    world.deliver("express", 4)
    world.alpha.write("ack_received", session=world.session, ranges=[[5, 5]])
    return {("ack_unreceived", -1, -1, 5)}


@fault
def ack_of_what_did_not_arrive(world: World) -> Expected:
    """Beta acknowledges packets 2 and 4, which got lost: one by the cumulative number, one by a range."""
    world.send("express", world.queue("express", 4), lost=(2, 4))
    world.beta.write("ack_sent", session=world.session, cumulative=2, ranges=[[3, 4]], trigger="gap", pending=4)
    return {("ack_unsent", -1, -1, 2), ("ack_unsent", -1, -1, 4)}


@fault
def packet_forgotten_by_the_next_session(world: World) -> Expected:
    """Packets 1 to 3 are unacknowledged when the session fails; the next one sends 1, 3 and 4."""
    world.send(TX, world.queue(TX, 3), lost=(1, 2, 3))
    world.close("ack-timeout")
    world.open()
    world.send(TX, range(1, 2), lost=(1,))
    world.send(TX, range(3, 4), lost=(3,))
    world.send(TX, world.queue(TX, 1), lost=(4,))
    return {("close_without_full_resend", STREAM, SEQUENCE, 2)}


@fault
def session_acks_free_only_express(world: World) -> Expected:
    """Packets of all classes arrive, none reaches a disk; after a restart the next ones go out instead of them."""
    numbers = {cls: world.queue(cls, 1) for cls in CLASS_STREAMS}
    for cls in CLASS_STREAMS:
        world.ack(world.send(cls, numbers[cls]), store=False)
    world.close("store-ack-timeout")
    world.alpha.start()
    world.open()
    for cls in CLASS_STREAMS:
        world.send(cls, world.queue(cls, 1))
    return {("forgotten", CLASS_STREAMS[cls], SEQUENCE, 1) for cls in (TX, "recoverable")}


@fault
def threshold_ignored(world: World) -> Expected:
    """Beta, whose threshold is 32, acknowledges nothing while 96 packets arrive."""
    for record in (*world.alpha.all("session_opened"), *world.beta.all("session_opened")):
        record["window"] = 200
    world.ack(world.send("express", world.queue("express", 96)), store=False)
    return {("half_window", -1, -1, 1)}


@fault
def idle_delay_exceeded(world: World) -> Expected:
    """Beta acknowledges a packet after 651 ms, another one never; a third arrives just before its log ends."""
    arrived = world.send("express", world.queue("express", 1))
    world.clock.tick(651 * MS)
    world.ack(arrived, store=False)
    world.send("express", world.queue("express", 1))
    world.clock.tick(900 * MS)
    world.close("local-stop")
    world.open()
    world.send("express", range(2, 3))
    return {("idle_delay", -1, -1, 1), ("idle_delay", -1, -1, 2)}


@fault
def attempts_miscounted(world: World) -> Expected:
    """Attempt 3 follows 1, and 1 follows 3 with no reason; after a new session 1 is right."""
    world.send(TX, world.queue(TX, 1), lost=(1,))
    for attempt in (1, 3, 1):
        scheduled(world, attempt, 30 * MS)
    world.close("ack-timeout")
    world.open()
    scheduled(world, 1, 30 * MS)
    return {("resend_tiers", STREAM, SEQUENCE, 3), ("resend_tiers", STREAM, SEQUENCE, 1)}


@fault
def attempts_begun_again_by_a_session_with_another(world: World) -> Expected:
    """Alpha opens a session with gamma, and counts its attempts for beta from 1 again."""
    world.send(TX, world.queue(TX, 1), lost=(1,))
    scheduled(world, 1, 30 * MS)
    opened(world.alpha, "ee" * 8, peer="cc" * 16)
    scheduled(world, 1, 30 * MS)
    return {("resend_tiers", STREAM, SEQUENCE, 1)}


@fault
def waits_uneven(world: World) -> Expected:
    """Each attempt comes when its tier says; two of them name another wait."""
    settle(world)
    world.send(TX, world.queue(TX, 1), lost=(1,))
    for attempt, wait, named in ((1, 30, 30), (2, 30, 40), (3, 30, 30), (4, 300, 30), (5, 300, 300)):
        world.clock.tick(wait * MS)
        scheduled(world, attempt, named * MS)
    return {("resend_tiers", STREAM, SEQUENCE, attempt) for attempt in (2, 4)}


@fault
def records_missing(world: World) -> Expected:
    """Records 5 and 6 of alpha are not there."""
    world.deliver("express", 8)
    world.alpha.number()
    gone = world.alpha.records[4:6]
    world.alpha.records = [record for record in world.alpha.records if record not in gone]
    # Packets 2 and 3 were in them, so their acks look like acks for nothing.
    numbers = {("log_gap", -1, -1, 7)}
    return numbers | {("ack_unreceived", -1, -1, record["packet"]) for record in gone}


@fault
def position_recovered_too_low(world: World) -> Expected:
    """Beta committed and order-acked 4, and finds 2 after its restart."""
    world.deliver(TX, 4)
    world.beta.start()
    world.beta.write("position_recovered", **place(TX), number=2, cls=TX)
    world.beta.write("dropped", reason="too-short", count=1)
    return {("not_recovered", STREAM, SEQUENCE, number) for number in (3, 4)}


@fault
def left_in_its_queue(world: World) -> Expected:
    """Beta committed 1 to 4 and hands out all but 2."""
    numbers = world.queue(TX, 4)
    world.ack(world.send(TX, numbers))
    world.commit(TX, numbers)
    world.order_ack(4)
    for number in (1, 3, 4):
        world.hand(TX, range(number, number + 1))
    return {("not_handed", STREAM, SEQUENCE, 2)}


@fault
def handed_out_after_it_expired(world: World) -> Expected:
    """Beta says of 2 and 3 that nobody received them in time, a second too early of 3, and hands out 2 after that."""
    numbers = world.queue(TX, 4)
    world.ack(world.send(TX, numbers))
    world.commit(TX, numbers)
    world.order_ack(4)
    for number, early_ms in ((2, 0), (3, 1_000)):
        by_ms = 1_700_000_000_000 + world.clock.now_ns // MS + early_ms
        counts = [[1, PER_PACKET]]
        world.beta.write(
            "expired", queue="orders", **place(TX), number=number, cls=TX, place=0, counts=counts, receive_by_ms=by_ms
        )
    for number in (1, 2, 4):
        world.hand(TX, range(number, number + 1))
    return {("expired", STREAM, SEQUENCE, 2), ("claims", STREAM, SEQUENCE, 3)}


@fault
def expired_twice(world: World) -> Expected:
    """Packet 1 expires, and again in the same life; of packet 2 a message that it does not have."""
    numbers = world.queue(TX, 2)
    world.ack(world.send(TX, numbers))
    world.commit(TX, numbers)
    world.order_ack(2)
    for number, at in ((1, 0), (1, 0), (2, 1)):
        world.beta.write(
            "expired", queue="orders", **place(TX), number=number, cls=TX, place=at, counts=[[1, PER_PACKET]],
            receive_by_ms=1_700_000_000_000,
        )  # fmt: skip
    return {("claims", STREAM, SEQUENCE, number) for number in numbers}


@fault
def one_ack_for_62(world: World) -> Expected:
    """The threshold is 32, and 62 packets come one after the other before an ack leaves."""
    world.ack(world.send("express", world.queue("express", 62)), store=False)
    return {("half_window", -1, -1, 1)}


@fault
def acked_240_ms_late(world: World) -> Expected:
    """An ack at 740 ms for a limit of 500."""
    arrived = world.send("express", world.queue("express", 1))
    world.clock.tick(739 * MS)
    world.ack(arrived, store=False)
    return {("idle_delay", -1, -1, 1)}


@fault
def tier_jumped(world: World) -> Expected:
    """Settings are in the log; attempt 2 comes after the wait of the last tier, and says that of the first."""
    settle(world)
    world.ack(world.send(TX, world.queue(TX, 1)), store=False)
    for attempt, wait in ((1, 30), (2, 5000)):
        world.clock.tick(wait * MS)
        scheduled(world, attempt, 30 * MS)
        world.ack(world.send(TX, range(1, 2)), store=False)
    return {("resend_tiers", STREAM, SEQUENCE, 2)}


@fault
def resends_missing(world: World) -> Expected:
    """A packet waits for its order ack, the session goes on and on, and no tier ever runs out."""
    settle(world)
    world.ack(world.send(TX, world.queue(TX, 1)))
    world.clock.tick(10_000 * MS)
    world.close()
    return {("resend_tiers", STREAM, SEQUENCE, 0)}


@fault
def order_ack_withheld(world: World) -> Expected:
    """The order ack of a commit leaves 2 s later, 1 s is allowed, and the session was there all the time."""
    settle(world)
    numbers = world.queue(TX, 1)
    world.ack(world.send(TX, numbers))
    world.commit(TX, numbers)
    world.clock.tick(2000 * MS)
    world.order_ack(1)
    return {("order_ack_late", STREAM, SEQUENCE, 1)}


@fault
def never_sent_again(world: World) -> Expected:
    """The session fails, the next one is open for a minute, and carries nothing of what was left."""
    world.send(TX, world.queue(TX, 2), lost=(1, 2))
    world.close("ack-timeout")
    world.open()
    world.clock.tick(60_000 * MS)
    world.close()
    return {("close_without_full_resend", STREAM, SEQUENCE, number) for number in (1, 2)}


@fault
def committed_though_nobody_sent_it(world: World) -> Expected:
    """Alpha queued 1 to 3 and sent 1 and 2; beta commits all three."""
    numbers = world.queue("recoverable", 3)
    world.ack(world.send("recoverable", numbers[:2]))
    world.commit("recoverable", numbers)
    return {("queue", CLASS_STREAMS["recoverable"], SEQUENCE, 3)}


@fault
def arrival_forged(world: World) -> Expected:
    """Beta receives a packet that alpha never sent."""
    world.deliver(TX, 2)
    world.beta.repeat(world.beta.all("packet_received")[-1], packet=3, number=3, previous=2)
    return {("wire", -1, -1, 3)}


@fault
def closed_as_soon_as_something_was_sent(world: World) -> Expected:
    """Nothing was heard for 10 s, but nothing waited either: the first packet left just before the end."""
    settle(world)
    world.deliver("express", 1)
    world.clock.tick(10_000 * MS)
    world.send("express", world.queue("express", 1), lost=(1,))
    world.close("ack-timeout", early=True)
    return {("ack_timeout", -1, -1, -1)}


@fault
def closed_without_a_store_ack_to_wait_for(world: World) -> Expected:
    """Everything durable is store-acked."""
    settle(world)
    world.deliver(TX, 2)
    world.clock.tick(20_000 * MS)
    world.close("store-ack-timeout")
    return {("ack_timeout", -1, -1, -1)}


@fault
def store_ack_given_up_too_early(world: World) -> Expected:
    """The store ack timeout is 10 s at least."""
    settle(world)
    world.ack(world.send("recoverable", world.queue("recoverable", 1)), store=False)
    world.clock.tick(9_000 * MS)
    world.close("store-ack-timeout")
    return {("ack_timeout", -1, -1, -1)}


@fault
def waited_for_ever(world: World) -> Expected:
    """The longest ack timeout is 120 s, and the session closes after 130."""
    settle(world)
    world.send("express", world.queue("express", 1), lost=(1,))
    world.clock.tick(130_000 * MS)
    world.close("ack-timeout")
    return {("silence", -1, -1, -1)}


@fault
def closed_too_early(world: World) -> Expected:
    """The ack timeout is 2 s at least, and the session closes by it after some milliseconds."""
    settle(world)
    world.send("express", world.queue("express", 1), lost=(1,))
    world.close("ack-timeout", early=True)
    return {("ack_timeout", -1, -1, -1)}


@fault
def previous_ignored(world: World) -> Expected:
    """Packet 2 expires; 3 names it as its previous, and beta accepts it all the same."""
    numbers = world.queue(TX, 3)
    world.send(TX, numbers[:1])
    world.commit(TX, numbers[:1])
    world.alpha.write("removed", cls=TX, **place(TX), first=2, last=2, count=PER_PACKET, reason="expired")
    world.send(TX, numbers[2:])
    world.commit(TX, numbers[2:])
    return {("previous", STREAM, SEQUENCE, 3)}


@fault
def rejected_without_cause(world: World) -> Expected:
    """Beta refuses a new packet as a duplicate."""
    world.send(TX, world.queue(TX, 1))
    world.beta.write("rejected", cls=TX, **place(TX), number=1, reason="duplicate")
    return {("rejected", STREAM, SEQUENCE, 1)}


@fault
def clock_set_back(world: World) -> Expected:
    """The monotonic clock of alpha falls by a second."""
    world.deliver("express", 1)
    last = world.alpha.records[-1]
    last.update(at_ns=last["at_ns"] - 1000 * MS, wall_ns=last["wall_ns"] - 1000 * MS)
    return {("clock", -1, -1, -1)}


@fault
def began_in_the_middle(world: World) -> Expected:
    """The first record of alpha is not that of a start."""
    world.deliver("express", 1)
    del world.alpha.records[0]
    return {("node_life", -1, -1, -1)}


@fault
def counts_contradict(world: World) -> Expected:
    """Beta commits 39 messages out of packets that hold 40."""
    world.deliver(TX, 4)
    world.beta.one("committed").update(count=39)
    return {("claims", STREAM, SEQUENCE, number) for number in range(1, 5)}


def rename(world: World, tag: str) -> World:
    """Give a world ids of its own, so that many worlds fit into one replay."""
    ids = {node: f"{node[:24]}{tag:0>8}" for node in {log.node for log in world.logs}}
    for log in world.logs:
        log.name += tag
        for record in log.records:
            for name in ("node", "peer", "origin"):
                if record.get(name) in ids:
                    record[name] = ids[record[name]]
            if "session" in record:
                record["session"] = tag[-4:] + record["session"][4:]
    return world
