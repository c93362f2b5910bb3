"""What the rules of a simulation look at: a correct record with restarts, and a fault for each way to break one."""

from collections.abc import Callable

from tests.tools.replay.builder import BETA, CLASS_STREAMS, PER_PACKET, SEQUENCE, World, place
from tests.tools.replay.faults import ready, settle

TX, KEPT, FAST = "transactional", "recoverable", "express"
STREAM, KEPT_STREAM, FAST_STREAM = (CLASS_STREAMS[cls] for cls in (TX, KEPT, FAST))
LOCAL_STREAM = 4
# (check, stream, sequence, number), the last three -1 where they say nothing.
Expected = set[tuple[str, int, int, int]]
Fault = Callable[[World], Expected]
RULE_FAULTS: dict[str, Fault] = {}


def fault(plant: Fault) -> Fault:
    RULE_FAULTS[plant.__name__] = plant
    return plant


def restarted() -> World:
    """All classes; both nodes are killed, say at their next start what is on their disks, go on, and stop."""
    world = ready()
    for cls in CLASS_STREAMS:
        world.deliver(cls, 4)
    keep_local(world)
    world.queue(TX, 1)
    left, kept = world.queue(TX, 2), world.queue(KEPT, 1)
    world.alpha.write("removed", cls=TX, **place(TX), first=5, last=5, count=PER_PACKET, reason="expired")
    # Beta is killed between the commit of 6, and of 5 of the other stream, and their records.
    world.send(TX, left[:1], previous=4)
    world.send(TX, left[1:])
    world.send(KEPT, kept)
    world.beta.start()
    world.beta.write("position_recovered", **place(TX), number=6, cls=TX)
    world.beta.write("position_recovered", **place(KEPT), ranges=[[1, 5]], cls=KEPT)
    for cls, number in ((TX, 6), (KEPT, 5)):
        world.hand(cls, range(number, number + 1))
    world.alpha.write("session_closed", session=world.session, peer=BETA, peer_name="b", reason="superseded", unacked=3)
    world.alpha.start()
    world.queued(TX, left[0], left[-1], recovered=True)
    world.queued(KEPT, 5, 5, recovered=True)
    world.open()
    arrived = world.send(TX, left[:1], previous=4)
    arrived += world.send(TX, left[1:])
    arrived += world.send(KEPT, kept)
    world.commit(TX, left[1:])
    world.ack(arrived)
    world.order_ack(left[-1])
    world.close()
    for log in world.logs:
        log.write("node_stopped")
    return world


def keep_local(world: World) -> None:
    """Alpha puts a message into a queue of its own."""
    here = {**place(TX), "stream": LOCAL_STREAM, "first": 1, "last": 1, "count": 1, "queue": "here"}
    world.alpha.write("queued", cls=TX, peer_name="", **here)
    world.alpha.write("committed", cls=TX, **here)


@fault
def sent_but_never_queued(world: World) -> Expected:
    """No record says that a recoverable packet was queued, though it is sent and committed."""
    world.alpha.one("queued", cls=KEPT).update(first=2)
    return {("queue", KEPT_STREAM, SEQUENCE, 1)}


@fault
def sent_by_another_node(world: World) -> Expected:
    """Beta sends what alpha had sent, as if it came from alpha; no node does that."""
    sent = world.alpha.all("packet_sent", cls=KEPT)[-1]
    whose = {name: world.beta.records[-1][name] for name in ("node", "incarnation")}
    world.beta.repeat(world.beta.all("packet_received")[-1], **{**sent, **whose, "packet": 1})
    return {("queue", KEPT_STREAM, SEQUENCE, sent["number"])}


@fault
def sent_in_vain_and_never_queued(world: World) -> Expected:
    """The same with a packet that does not arrive."""
    world.send(FAST, range(9, 10), lost=(9,))
    for log in world.logs:
        log.drop("session_closed", session=world.session)
        log.drop("node_stopped")
    return {("queue", FAST_STREAM, SEQUENCE, 9)}


@fault
def committed_from_nowhere(world: World) -> Expected:
    """Beta commits a packet that alpha never had; and has forgotten it after its restart."""
    world.beta.repeat(world.beta.one("committed", cls=KEPT), first=9, last=9)
    return {("queue", KEPT_STREAM, SEQUENCE, 9), ("not_recovered", KEPT_STREAM, SEQUENCE, 9)}


@fault
def handed_before_the_commit(world: World) -> Expected:
    """The application sees a message that is not yet on disk."""
    world.beta.move_before(world.beta.one("handed", cls=KEPT, number=1), world.beta.one("committed", cls=KEPT))
    return {("queue", KEPT_STREAM, SEQUENCE, 1)}


@fault
def express_twice(world: World) -> Expected:
    """An express packet enters the queue again although the process that knew it lives."""
    world.beta.repeat(world.beta.one("committed", cls=FAST), first=3, last=3, count=PER_PACKET)
    return {("express_twice", FAST_STREAM, SEQUENCE, 3)}


@fault
def mark_forgotten(world: World) -> Expected:
    """A message is handed out marked, and once more as if it were new."""
    first = world.beta.one("handed", cls=KEPT, number=2)
    world.beta.repeat(first)
    first.update(redelivered=True)
    return {("unmarked", KEPT_STREAM, SEQUENCE, 2)}


@fault
def another_policy_at_the_other_end(world: World) -> Expected:
    """Beta acknowledges every 33 packets, where alpha thinks that it does after 32."""
    world.beta.one("session_opened").update(ack_threshold=33, ack_share="", ack_count=33)
    return {("policy", -1, -1, -1)}


@fault
def another_share_than_the_nodes(world: World) -> Expected:
    """Both ends acknowledge every 31 packets, where alpha's node said at its start that half of its window is 32."""
    settle(world)
    for log in world.logs:
        log.one("session_opened").update(ack_threshold=31, ack_share="31/64")
    return {("policy", -1, -1, -1)}


@fault
def a_third_of_the_window_rounded_up(world: World) -> Expected:
    """A third of 64 packets is 21, of 50 it is 16; and what is no share is none."""
    for log, share, threshold in ((world.alpha, "1/3", 22), (world.beta, "1/0", 32)):
        log.one("session_opened").update(ack_threshold=threshold, ack_share=share)
    return {("policy", -1, -1, -1)}


@fault
def a_share_of_a_smaller_window_rounded_up(world: World) -> Expected:
    """Half of a window of 63 is 31 packets, and not the 32 of alpha's own window."""
    settle(world)
    for log in world.logs:
        log.one("session_opened").update(window=63, ack_threshold=32, store_ack_threshold=31)
    return {("policy", -1, -1, -1)}


@fault
def delay_beyond_half_of_the_timeout(world: World) -> Expected:
    """Alpha gives up after 600 ms, and beta holds acks back for 500."""
    world.alpha.one("session_opened").update(ack_timeout_min_ns=600_000_000)
    return {("policy", -1, -1, -1)}


@fault
def session_ack_taken_back(world: World) -> Expected:
    """An ack says less than the one before."""
    world.beta.repeat(world.beta.one("ack_sent"), cumulative=1)
    return {("ack_taken_back", -1, -1, 1)}


@fault
def store_ack_taken_back(world: World) -> Expected:
    """A store ack says less than the one before."""
    world.beta.repeat(world.beta.one("store_ack_sent"), cumulative=2)
    return {("ack_taken_back", -1, -1, 2)}


@fault
def order_ack_taken_back(world: World) -> Expected:
    """After its restart beta acknowledges less than before."""
    world.beta.one("order_ack_sent", number=7).update(number=3)
    world.alpha.one("order_ack_received", number=7).update(number=3)
    return {("ack_taken_back", STREAM, SEQUENCE, 3)}


@fault
def position_lost(world: World) -> Expected:
    """Beta committed 4 packets and finds 3 after its restart; what it hands out of the rest is from nowhere."""
    world.beta.one("position_recovered", cls=TX).update(number=3)
    return {("not_recovered", STREAM, SEQUENCE, 4), ("queue", STREAM, SEQUENCE, 6)}


@fault
def filter_lost(world: World) -> Expected:
    """Beta's duplicate filter has a hole after the restart."""
    world.beta.one("position_recovered", cls=KEPT).update(ranges=[[1, 2], [4, 5]])
    return {("not_recovered", KEPT_STREAM, SEQUENCE, 3)}


@fault
def stream_lost(world: World) -> Expected:
    """Beta does not remember a stream at all, though it hands out of it."""
    world.beta.drop("position_recovered", cls=KEPT)
    lost = {("not_recovered", KEPT_STREAM, SEQUENCE, number) for number in range(1, 5)}
    return lost | {("queue", KEPT_STREAM, SEQUENCE, 5)}


@fault
def found_what_never_came(world: World) -> Expected:
    """Beta claims more than had arrived when it starts, and a hole of its filter is gone."""
    world.beta.one("position_recovered", cls=TX).update(number=9)
    world.beta.one("position_recovered", cls=KEPT).update(ranges=[[1, 40]])
    return {("recovered_from_nowhere", STREAM, SEQUENCE, 9), ("recovered_from_nowhere", KEPT_STREAM, SEQUENCE, 40)}


@fault
def found_at_the_first_start(world: World) -> Expected:
    """Nothing can be on the disk of a node that has never run."""
    world.beta.repeat(world.beta.records[1], event="position_recovered", number=3, **{"class": TX, **place(TX)})
    return {("recovered_from_nowhere", STREAM, SEQUENCE, number) for number in range(1, 4)}


@fault
def waits_for_twelve_seconds(world: World) -> Expected:
    """A packet waits in a session that has nothing else to do."""
    for log in world.logs:
        log.drop("node_stopped")
    world.open()
    (number,) = world.queue(TX, 1)
    world.clock.tick(12_000_000_000)
    world.send(TX, range(number, number + 1))
    return {("unsent", STREAM, SEQUENCE, number)}


@fault
def arrives_before_it_left(world: World) -> Expected:
    """Beta has a packet a second before alpha sends it; what goes back around it is in time."""
    for log in world.logs:
        log.drop("node_stopped")
    world.open()
    world.deliver(TX, 2)
    world.clock.tick(2_000_000_000)
    (number,) = world.queue(TX, 1)
    arrived = world.send(TX, range(number, number + 1))
    late = world.beta.records[-1]
    late.update(at_ns=late["at_ns"] - 1_000_000_000, wall_ns=late["wall_ns"] - 1_000_000_000)
    world.commit(TX, range(number, number + 1))
    world.ack(arrived)
    return {("clocks", -1, -1, -1)}


@fault
def sender_forgets(world: World) -> Expected:
    """Alpha comes back without a packet for which it has no order ack."""
    world.alpha.one("queued", cls=TX, recovered=True).update(first=7)
    return {("forgotten", STREAM, SEQUENCE, 6)}


@fault
def sender_forgets_without_a_store_ack(world: World) -> Expected:
    """Without its store ack a recoverable packet is still wanted after the restart."""
    world.alpha.one("store_ack_received", ranges=[[5, 8]]).update(ranges=[[5, 7]])
    return {("forgotten", KEPT_STREAM, SEQUENCE, 4)}


@fault
def end_without_a_name(world: World) -> Expected:
    """The reason of an end is none that there is."""
    world.beta.one("session_closed").update(reason="whatever")
    return {("silent_end", -1, -1, -1)}


@fault
def goes_on_after_its_end(world: World) -> Expected:
    """A packet arrives in a session that is over."""
    world.beta.repeat(world.beta.one("session_closed"), **{**world.beta.all("packet_received")[-1], "duplicate": True})
    return {("silent_end", -1, -1, -1)}


@fault
def acks_arrive_after_its_end(world: World) -> Expected:
    """A store ack arrives in a session that is over."""
    world.alpha.repeat(world.alpha.one("session_closed"), event="store_ack_received", ranges=[])
    return {("silent_end", -1, -1, -1)}


@fault
def sends_after_its_end(world: World) -> Expected:
    """A packet leaves in a session that is over."""
    sent = world.alpha.all("packet_sent")[-1]
    world.alpha.repeat(world.alpha.all("session_closed")[-1], **{**sent, "resend": True})
    return {("silent_end", -1, -1, -1)}


@fault
def opened_again(world: World) -> Expected:
    """A replayed connect opens a session that is over; it closes again, but is the same one."""
    first, *_ = world.alpha.all("session_closed")
    world.alpha.repeat(first, reason="peer-closed")
    world.alpha.repeat(first, **world.alpha.one("session_opened"))
    return {("silent_end", -1, -1, -1)}


@fault
def never_ended(world: World) -> Expected:
    """Beta stops in good order and says nothing of its session."""
    world.beta.drop("session_closed")
    return {("silent_end", -1, -1, -1)}


@fault
def resent_with_a_new_number(world: World) -> Expected:
    """What left as packet 3 leaves again as packet 4, and claims to be a resend."""
    world.alpha.repeat(world.alpha.all("packet_sent")[-1], packet=4, resend=True)
    return {("wire", -1, -1, 4)}


@fault
def packet_skipped(world: World) -> Expected:
    """The last packet of a session is 5 though it is the fourth."""
    for log, event in ((world.alpha, "packet_sent"), (world.beta, "packet_received")):
        log.repeat(log.all(event)[-1], packet=5)
    return {("wire", -1, -1, 5)}


@fault
def packet_reused(world: World) -> Expected:
    """A resend carries something else than the packet did."""
    world.alpha.repeat(world.alpha.one("packet_sent", cls=KEPT, packet=6), resend=True, number=4)
    return {("wire", -1, -1, 6)}


@fault
def altered_on_its_way(world: World) -> Expected:
    """What arrives is not what was sent."""
    world.beta.one("packet_received", packet=6).update(previous=0)
    return {("wire", -1, -1, 6)}


@fault
def duplicate_unmarked(world: World) -> Expected:
    """A packet arrives again and counts as new."""
    world.beta.repeat(world.beta.one("packet_received", packet=6))
    return {("wire", -1, -1, 6)}


@fault
def store_ack_of_nothing(world: World) -> Expected:
    """Beta store-acks packet 4, which never came."""
    world.beta.all("store_ack_sent")[-1].update(cumulative=4)
    return {("store_ack_unsent", -1, -1, 4)}


@fault
def ack_from_nowhere(world: World) -> Expected:
    """Alpha receives an ack of packets 5 to 8 that beta did not send."""
    world.beta.one("ack_sent", cumulative=12).update(cumulative=8)
    return {("ack_from_nowhere", -1, -1, packet) for packet in range(9, 13)}


@fault
def store_ack_from_nowhere(world: World) -> Expected:
    """Alpha receives a store ack that beta did not send."""
    world.beta.one("store_ack_sent", cumulative=12).update(cumulative=8)
    return {("ack_from_nowhere", -1, -1, packet) for packet in range(9, 13)}


@fault
def order_ack_from_nowhere(world: World) -> Expected:
    """Alpha receives an order ack that nobody sent."""
    world.beta.drop("order_ack_sent", number=7)
    return {("ack_from_nowhere", STREAM, SEQUENCE, 7)}


@fault
def datagrams_that_no_probe_has_proved(world: World) -> Expected:
    """A probe of 1,452 bytes has come to beta, and alpha sends 9,000."""
    world.beta.write("probe_received", session=world.session, size=1_452)
    world.alpha.write("path_size", session=world.session, size=1_452)
    world.alpha.write("path_size", session=world.session, size=9_000)
    return {("path_size", -1, -1, -1)}


@fault
def probed_after_its_end(world: World) -> Expected:
    """Datagrams grow in a session that is over."""
    world.beta.write("probe_received", session=world.session, size=1_452)
    world.close("path-lost")
    world.alpha.write("path_size", session=world.session, size=1_452)
    return {("silent_end", -1, -1, -1)}


@fault
def given_up_after_an_ack_that_counts(world: World) -> Expected:
    """Beta had no room for what had left; the next session carried it again, and its ack came there."""
    numbers = world.queue("recoverable", 1)
    world.send("recoverable", numbers)
    where = place("recoverable")
    world.alpha.write("hold_received", cls="recoverable", **where, stop=True, reason="queue-full")
    world.close("idle")
    world.alpha.write("hold_received", cls="recoverable", **where, stop=False)
    world.open()
    arrived = world.send("recoverable", numbers)
    world.commit("recoverable", numbers)
    world.ack(arrived)
    world.alpha.write("removed", cls="recoverable", **where, first=1, last=1, count=PER_PACKET, reason="expired")
    world.hand("recoverable", numbers)
    return {("claims", CLASS_STREAMS["recoverable"], SEQUENCE, 1)}


@fault
def given_up_twice_although_an_ack_of_it_came(world: World) -> Expected:
    """Whether that ack counted nobody knows; what is given up is not there to be given up again."""
    numbers = world.queue(KEPT, 1)
    arrived = world.send(KEPT, numbers)
    world.commit(KEPT, numbers)
    world.alpha.write("hold_received", cls=KEPT, **place(KEPT), stop=True, reason="queue-full")
    world.ack(arrived)
    for _ in range(2):
        world.alpha.write("removed", cls=KEPT, **place(KEPT), first=1, last=1, count=PER_PACKET, reason="expired")
    world.hand(KEPT, numbers)
    return {("claims", KEPT_STREAM, SEQUENCE, 1)}
