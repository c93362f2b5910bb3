"""What stories of two nodes have in common: steps of their tables beside the methods of `World`."""

from collections.abc import Callable
from typing import Any

from tests.tools.replay.builder import (
    BETA,
    CLASS_STREAMS,
    MS,
    PER_PACKET,
    World,
    place,
    scheduled,
    write_closed,
    write_opened,
)
from triack.tools.replay.checks.journal_check import SENT_JOURNAL

TX = "transactional"
ARRIVED, RECEIVED = 0x0002, 0x4000


def tiers(world: World) -> None:
    """Both nodes said at their start that order acks and resends are due within seconds."""
    for log in world.logs:
        log.records[0].update(
            max_unacked_packet=64, idle_ack_delay_ns=500 * MS, ack_threshold=32, ack_timeout_min_ns=2000 * MS,
            seq_max_ack_delay_ns=1000 * MS, seq_resend_13_ns=30 * MS, seq_resend_46_ns=300 * MS,
            seq_resend_79_ns=900 * MS, seq_resend_10_ns=5000 * MS,
        )  # fmt: skip


def attempt(world: World, count: int, wait_ms: int, number: int = 1) -> None:
    """Alpha sends again, as the tier of that attempt says."""
    scheduled(world, count, wait_ms * MS, number)


def go_to(world: World, session: int) -> None:
    """What follows is in that session of the two nodes, which has had no packets."""
    world.session, world.packets = f"{session:016x}", 0


def reject(world: World, cls: str, number: int, reason: str) -> None:
    world.beta.write("rejected", cls=cls, **place(cls), number=number, reason=reason)


def remove(world: World, cls: str, numbers: range, reason: str) -> None:
    count = PER_PACKET * len(numbers)
    where = {"first": numbers[0], "last": numbers[-1], "count": count, "reason": reason}
    world.alpha.write("removed", cls=cls, **place(cls), **where)


def opened(world: World, session: str, peer: str) -> None:
    """Alpha opens a session with a node whose log nobody has."""
    write_opened(world.alpha, session, peer, "b", "initiator")


def recover(world: World, ranges: list[list[int]]) -> None:
    """Beta dies, starts on what its duplicate filter knew of the recoverable stream, and opens a new session."""
    world.beta.start()
    world.beta.write("position_recovered", cls="recoverable", **place("recoverable"), ranges=ranges)
    superseded(world, 4)
    world.open()


def superseded(world: World, unacked: int = 0) -> None:
    """Alpha hears of a new session, and ends the old one."""
    write_closed(world.alpha, world.session, BETA, "b", "superseded", unacked)


def restart_beta(world: World) -> None:
    """Beta is killed, and its next start calls alpha."""
    superseded(world)
    world.beta.start()
    world.open()


def agree(world: World, **terms: Any) -> None:
    """Both ends of the session have this in force, too."""
    for log in world.logs:
        log.one("session_opened").update(**terms)


def following(world: World, *windows: int) -> None:
    """Alpha's window has been these."""
    for window in windows:
        world.alpha.write("window_changed", session=world.session, window=window)


def read_four(world: World) -> None:
    """Beta has six packets, of which readers have got four."""
    numbers = world.queue(TX, 6)
    arrived = world.send(TX, numbers)
    world.commit(TX, numbers)
    world.ack(arrived)
    world.order_ack(6)
    world.hand(TX, range(1, 5))


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


def ask_copy(world: World, number: int) -> None:
    """The messages of alpha's next packet ask for copies."""
    world.alpha.write("journal_asked", cls=TX, **place(TX), number=number, place=0, count=PER_PACKET)


def copy(world: World, number: int, *, sent: bool = False, kept: bool = True) -> None:
    """A node copies the messages of a packet: alpha those that it has sent, beta those that were read."""
    log, queue = (world.alpha, SENT_JOURNAL) if sent else (world.beta, "orders")
    said: dict[str, Any] = {**place(TX), "number": number, "place": 0, "counts": [[1, PER_PACKET]], "kept": kept}
    log.write("journaled", cls=TX, queue=queue, **said)


def settle_journaled(world: World, numbers: range) -> None:
    """A reader is done with whole packets of a journaled queue."""
    world.settle(TX, numbers)
    for record in world.beta.all("settled"):
        record["journaled"] = True


def arrive(world: World, count: int = 1) -> range:
    """Packets arrive, and are read."""
    numbers = world.queue(TX, count)
    world.ack(world.send(TX, numbers))
    world.commit(TX, numbers)
    world.order_ack(numbers[-1])
    world.hand(TX, numbers)
    return numbers


def ask_admin(world: World, number: int, acks: int = 15) -> None:
    """The messages of alpha's next packet ask for administration messages."""
    world.alpha.write("admin_ack_asked", cls=TX, **place(TX), number=number, place=0, count=PER_PACKET, acks=acks)


def tell(world: World, number: int, message_class: int) -> None:
    said = {"number": number, "place": 0, "count": PER_PACKET, "message_class": message_class}
    world.beta.write("admin_ack_queued", cls=TX, **place(TX), **said)


def read_and_tell(world: World, *told: int, acks: int = 15) -> None:
    """One packet that asks, arrives, is read and settled; beta tells of it as said."""
    ask_admin(world, 1, acks)
    numbers = world.queue(TX, 1)
    arrived = world.send(TX, numbers)
    for message_class in told:
        if message_class == ARRIVED:
            tell(world, 1, ARRIVED)
    world.commit(TX, numbers)
    world.ack(arrived)
    world.hand(TX, numbers)
    for message_class in told:
        if message_class != ARRIVED:
            tell(world, 1, message_class)
    world.settle(TX, numbers)
    # Another commit of the same kind: the first one has returned.
    world.deliver(TX, 1)
