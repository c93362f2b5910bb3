"""Worlds with one fault in when acks leave, in how long an end waits, or in a window that follows its path."""

from tests.tools.replay.builder import ALPHA, CLASS_STREAMS, MS, SEQUENCE, World, place
from tests.tools.replay.faults import STREAM, TX, Expected, Fault, settle

ACK_FAULTS: dict[str, Fault] = {}
KEPT = "recoverable"
KEPT_STREAM = CLASS_STREAMS[KEPT]


def fault(plant: Fault) -> Fault:
    ACK_FAULTS[plant.__name__] = plant
    return plant


def agree(world: World, **terms: object) -> None:
    """Both ends of the session have this in force, too."""
    for log in world.logs:
        log.one("session_opened").update(**terms)


@fault
def gap_told_late(world: World) -> Expected:
    """Packet 2 of 3 is lost, and beta says so only after its idle delay."""
    world.send("express", world.queue("express", 3), lost=(2,))
    world.clock.tick(450 * MS)
    world.beta.write("ack_sent", session=world.session, cumulative=1, ranges=[[3, 3]], trigger="delay", pending=2)
    return {("at_once", -1, -1, 1)}


@fault
def hole_filled_and_told_late(world: World) -> Expected:
    """The packet that was missing comes, out of order as well; its ack waits for company."""
    world.send("express", world.queue("express", 3), lost=(2,))
    world.beta.write("ack_sent", session=world.session, cumulative=1, ranges=[[3, 3]], trigger="gap", pending=2)
    world.beta.write("packet_received", duplicate=False, **sent(world, 2))
    world.clock.tick(450 * MS)
    world.beta.write("ack_sent", session=world.session, cumulative=3, ranges=[], trigger="piggyback", pending=1)
    return {("at_once", -1, -1, 2)}


@fault
def copies_never_answered(world: World) -> Expected:
    """Alpha, whose ack was lost, sends again; beta says nothing while it runs on."""
    world.ack(world.send("express", world.queue("express", 1)), store=False)
    world.send("express", range(1, 2), resend=True)
    world.beta.all("packet_received")[-1]["duplicate"] = True
    world.clock.tick(450 * MS)
    world.beta.write("dropped", reason="too-short", count=1)
    return {("at_once", -1, -1, 1)}


@fault
def acks_for_no_reason(world: World) -> Expected:
    """Beta gives a gap, a copy and so many bytes as the reasons of acks, and there was nothing of the kind."""
    agree(world, ack_bytes=9_000)
    for trigger in ("gap", "duplicate", "bytes"):
        arrived = world.send("express", world.queue("express", 1))
        world.ack(arrived, store=False)
        world.beta.all("ack_sent")[-1].update(trigger=trigger)
    return {("claims", -1, -1, -1)}


@fault
def ack_at_once_that_was_not_agreed(world: World) -> Expected:
    """Both ends agreed that a gap makes nothing due, and beta says that it did."""
    agree(world, ack_at_once="duplicate request")
    world.send("express", world.queue("express", 3), lost=(2,))
    world.beta.write("ack_sent", session=world.session, cumulative=1, ranges=[[3, 3]], trigger="gap", pending=2)
    return {("claims", -1, -1, -1)}


@fault
def other_reasons_at_the_other_end(world: World) -> Expected:
    """Beta does not answer gaps at once, where alpha thinks that it does."""
    world.beta.one("session_opened").update(ack_at_once="duplicate request")
    return {("policy", -1, -1, -1)}


@fault
def too_many_bytes(world: World) -> Expected:
    """So many bytes make an ack due, and beta lets 450 ms pass."""
    agree(world, ack_bytes=2_400)
    arrived = world.send("express", world.queue("express", 2))
    world.clock.tick(450 * MS)
    world.ack(arrived, store=False)
    return {("half_window", -1, -1, 1)}


@fault
def quiet_for_too_long(world: World) -> Expected:
    """An ack is due 20 ms after the last packet; beta waits for 300 ms, though less than its idle delay."""
    agree(world, ack_idle_ns=20 * MS)
    arrived = world.send("express", world.queue("express", 1))
    world.clock.tick(300 * MS)
    world.ack(arrived, store=False)
    return {("idle_delay", -1, -1, 1)}


@fault
def store_ack_late(world: World) -> Expected:
    """Beta has packets on its disk for 700 ms before it says so; half a second was agreed."""
    arrived = world.send(KEPT, world.queue(KEPT, 2))
    world.commit(KEPT, range(1, 3))
    world.clock.tick(700 * MS)
    world.ack(arrived)
    return {("store_ack_late", KEPT_STREAM, SEQUENCE, 1)}


@fault
def store_ack_threshold_ignored(world: World) -> Expected:
    """With 32 packets on the disk a store ack is due at once; beta waits for 300 ms."""
    arrived = world.send(KEPT, world.queue(KEPT, 33))
    world.commit(KEPT, range(1, 34))
    world.clock.tick(300 * MS)
    world.ack(arrived)
    return {("store_ack_late", KEPT_STREAM, SEQUENCE, 1)}


@fault
def store_ack_bytes_ignored(world: World) -> Expected:
    """So many bytes on the disk make a store ack due, the last in the second commit; beta lets 300 ms pass."""
    agree(world, store_ack_bytes=3_600)
    for packets in (2, 1):
        numbers = world.queue(KEPT, packets)
        world.send(KEPT, numbers)
        world.commit(KEPT, numbers)
    world.clock.tick(300 * MS)
    world.ack([1, 2, 3])
    return {("store_ack_late", KEPT_STREAM, SEQUENCE, 1)}


@fault
def store_ack_bytes_hidden_by_the_end(world: World) -> Expected:
    """A packet that fills a session's limit alone; beta says nothing of it until the session is over."""
    agree(world, store_ack_bytes=1_200)
    arrived = world.send(TX, world.queue(TX, 1))
    world.commit(TX, range(1, 2))
    world.ack(arrived, store=False)
    world.order_ack(1)
    world.clock.tick(300 * MS)
    world.close()
    return {("store_ack_late", CLASS_STREAMS[TX], SEQUENCE, 1)}


@fault
def store_ack_never(world: World) -> Expected:
    """Beta never says that it has a packet on its disk: one that the session's end hides, one that nothing does."""
    for _ in range(2):
        arrived = world.send(TX, world.queue(TX, 1))
        world.commit(TX, range(world.next[TX] - 1, world.next[TX]))
        world.ack(arrived, store=False)
        world.order_ack(world.next[TX] - 1)
        world.clock.tick(700 * MS)
        world.close()
        world.open()
    return {("store_ack_late", CLASS_STREAMS[TX], SEQUENCE, number) for number in (1, 2)}


@fault
def waits_for_a_store_ack_too_long(world: World) -> Expected:
    """Beta acknowledges and does not store; alpha asks for 125 s, though it gives up after 120."""
    arrived = world.send(KEPT, world.queue(KEPT, 1))
    world.ack(arrived, store=False)
    world.clock.tick(125_000 * MS)
    world.commit(KEPT, range(1, 2))
    world.ack(arrived)
    world.beta.all("ack_sent")[-1].update(pending=0)
    world.alpha.all("ack_received")[-1].update(ranges=[])
    return {("store_silence", -1, -1, -1)}


@fault
def closed_as_idle_too_early(world: World) -> Expected:
    """Alpha closes as idle a second after the last packet; its interval is five minutes, and so is beta's."""
    world.deliver("express", 1)
    world.clock.tick(1_000 * MS)
    world.close("idle")
    return {("idle_close", -1, -1, -1)}


@fault
def open_though_idle(world: World) -> Expected:
    """Nothing happens for 301 s, and the session is open still: one goes on, one is closed by hand, one is left."""
    for end in ("goes on", "closes", "stays"):
        world.deliver("express", 1)
        world.clock.tick(301_000 * MS)
        if end == "goes on":
            world.deliver("express", 1)
        if end != "stays":
            world.close("drained")
            world.open()
    world.beta.write("dropped", reason="too-short", count=1)
    return {("idle_open", -1, -1, -1)}


@fault
def resends_missing_after_an_idle_end(world: World) -> Expected:
    """What beta has on its disk waits for its order ack across an idle end, until long after its tier."""
    settle(world)
    world.alpha.records[0].update(seq_resend_13_ns=5_000 * MS)
    agree(world, cleanup_interval_ns=4_900 * MS)
    numbers = world.queue(TX, 1)
    arrived = world.send(TX, numbers)
    world.commit(TX, numbers)
    world.ack(arrived)
    world.beta.write("order_ack_sent", **place(TX), number=1, peer=ALPHA)
    world.clock.tick(4_900 * MS)
    world.close("idle")
    world.clock.tick(1_000 * MS)
    world.open()
    world.order_ack(1)
    return {("resend_tiers", STREAM, SEQUENCE, 0)}


def sent(world: World, packet: int) -> dict[str, object]:
    """What alpha sent as that packet of the session."""
    record = world.alpha.one("packet_sent", packet=packet)
    kept = ("session", "packet", "class", "size", "origin", "stream", "sequence", "number", "counts", "previous")
    return {"cls" if name == "class" else name: record[name] for name in kept}


@fault
def waits_for_the_answer_to_a_ping(world: World) -> Expected:
    """Everything is acknowledged, and alpha asks; nothing comes for 125 s, though it gives up after 120."""
    world.deliver(TX, 1)
    world.alpha.write("ping_sent", session=world.session)
    world.clock.tick(125_000 * MS)
    world.close("ack-timeout")
    return {("silence", -1, -1, -1)}


@fault
def asks_and_gives_up_at_once(world: World) -> Expected:
    """The ack timeout is 2 s at least; a ping that is repeated after 1.9 does not begin it anew, nor end it."""
    world.deliver(TX, 1)
    world.alpha.write("ping_sent", session=world.session)
    world.clock.tick(1_900 * MS)
    world.alpha.write("ping_sent", session=world.session)
    world.close("ack-timeout", early=True)
    return {("ack_timeout", -1, -1, -1)}


@fault
def asks_after_its_end(world: World) -> Expected:
    """A ping leaves in a session that is over."""
    world.close("path-lost")
    world.alpha.write("ping_sent", session=world.session)
    return {("silent_end", -1, -1, -1)}


def following(world: World, *windows: int) -> None:
    """Alpha's window has been these."""
    for window in windows:
        world.alpha.write("window_changed", session=world.session, window=window)


@fault
def window_that_follows_exceeded(world: World) -> Expected:
    """Alpha's window has grown to 32 of 64, and a 33rd packet leaves."""
    following(world, 16, 32)
    world.send("express", world.queue("express", 33))
    return {("window", -1, -1, 33)}


@fault
def window_grown_too_late(world: World) -> Expected:
    """A 17th packet leaves, and the window that it needs is told after that."""
    following(world, 16)
    world.send("express", world.queue("express", 17))
    following(world, 32)
    return {("window", -1, -1, 17)}


@fault
def window_smaller_than_what_is_on_its_way(world: World) -> Expected:
    """Alpha has 20 packets on their way, and says that there are 16 at most."""
    world.send("express", world.queue("express", 20))
    following(world, 16)
    return {("window", -1, -1, -1)}


@fault
def window_beyond_what_was_agreed_on(world: World) -> Expected:
    """Alpha's window grows to 65, of 64."""
    following(world, 65)
    return {("window", -1, -1, -1)}


@fault
def window_that_changes_to_what_it_was(world: World) -> Expected:
    """Nothing has changed."""
    following(world, 16, 16)
    return {("claims", -1, -1, -1)}


@fault
def window_that_grows_after_the_end(world: World) -> Expected:
    """In a session that is over."""
    world.close("path-lost")
    following(world, 16)
    return {("silent_end", -1, -1, -1)}
