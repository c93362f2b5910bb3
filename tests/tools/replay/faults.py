"""One world for each promise that can be broken: a correct record with one planted fault."""

from collections.abc import Callable

from tests.tools.replay.builder import CLASS_STREAMS, SEQUENCE, World, fit, ready
from tests.tools.replay.telling import Expected, told

TX, KEPT = "transactional", "recoverable"
STREAM, KEPT_STREAM = CLASS_STREAMS[TX], CLASS_STREAMS[KEPT]
Fault = Callable[[World], Expected]
FAULTS: dict[str, Fault] = {one.name: one.plant for one in told("faults.txt")}
RULE_FAULTS: dict[str, Fault] = {one.name: one.plant for one in told("rule_faults.txt")}
"""What the rules of a simulation look at: faults of the record ``restarted``."""


def fault(plant: Fault) -> Fault:
    FAULTS[plant.__name__] = plant
    return plant


def rule_fault(plant: Fault) -> Fault:
    RULE_FAULTS[plant.__name__] = plant
    return plant


def faulty(name: str) -> World:
    """Two nodes with a session, and this fault in what they recorded."""
    world = ready()
    FAULTS[name](world)
    return world


def restarted() -> World:
    """All classes; both nodes are killed, say at their next start what is on their disks, go on, and stop."""
    from tests.tools.replay.harmless import HARMLESS

    return HARMLESS["restarted"]()


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
def records_missing(world: World) -> Expected:
    """Records 5 and 6 of alpha are not there."""
    world.deliver("express", 8)
    world.alpha.number()
    gone = world.alpha.records[4:6]
    world.alpha.records = [record for record in world.alpha.records if record not in gone]
    # Packets 2 and 3 were in them, so their acks look like acks for nothing.
    numbers = {("log_gap", -1, -1, 7)}
    return numbers | {("ack_unreceived", -1, -1, record["packet"]) for record in gone}


@rule_fault
def sent_by_another_node(world: World) -> Expected:
    """Beta sends what alpha had sent, as if it came from alpha; no node does that."""
    sent = world.alpha.all("packet_sent", cls=KEPT)[-1]
    whose = {name: world.beta.records[-1][name] for name in ("node", "incarnation")}
    world.beta.repeat(world.beta.all("packet_received")[-1], **{**sent, **whose, "packet": 1})
    return {("queue", KEPT_STREAM, SEQUENCE, sent["number"])}


@rule_fault
def goes_on_after_its_end(world: World) -> Expected:
    """A packet arrives in a session that is over."""
    world.beta.repeat(world.beta.one("session_closed"), **{**world.beta.all("packet_received")[-1], "duplicate": True})
    return {("silent_end", -1, -1, -1)}


@rule_fault
def sends_after_its_end(world: World) -> Expected:
    """A packet leaves in a session that is over."""
    sent = world.alpha.all("packet_sent")[-1]
    world.alpha.repeat(world.alpha.all("session_closed")[-1], **{**sent, "resend": True})
    return {("silent_end", -1, -1, -1)}


@rule_fault
def opened_again(world: World) -> Expected:
    """A replayed connect opens a session that is over; it closes again, but is the same one."""
    first, *_ = world.alpha.all("session_closed")
    world.alpha.repeat(first, reason="peer-closed")
    world.alpha.repeat(first, **world.alpha.one("session_opened"))
    return {("silent_end", -1, -1, -1)}


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
