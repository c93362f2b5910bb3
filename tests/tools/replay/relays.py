"""Logs of three nodes: alpha sends to beta through the relay rho; and a lie for each promise of a relay."""

from collections.abc import Callable
from typing import Any

from tests.tools.replay.builder import (
    AGREED,
    ALPHA,
    BETA,
    CLASS_STREAMS,
    MS,
    PER_PACKET,
    SEQUENCE,
    Log,
    Record,
    World,
    place,
)
from tests.tools.replay.faults import Expected

RHO = "c0" * 16
TX, KEPT, FAST = "transactional", "recoverable", "express"
Lie = Callable[["Relayed"], Expected]
HONEST: dict[str, Callable[[], World]] = {}
RELAY_FAULTS: dict[str, Lie] = {}


class Hop:
    """A session between two neighbours, the first of which sends packets."""

    def __init__(self, sender: Log, receiver: Log, session: str, window: int = 64) -> None:
        self.sender = sender
        self.receiver = receiver
        self.session = session
        self.packets = 0
        self.acked = 0
        for log, peer, role in ((sender, receiver, "initiator"), (receiver, sender, "acceptor")):
            log.write(
                "session_opened", session=session, peer=peer.node, peer_name=peer.name, role=role,
                address="udp://127.0.0.1:7801", window=window, idle_ack_delay_ns=500 * MS, ack_threshold=32, **AGREED,
            )  # fmt: skip

    def send(self, cls: str, numbers: range, hops: int, *, previous: int | None = None) -> list[int]:
        """Send packets that a relay passes on; all arrive. Return the session's numbers."""
        sent = []
        for number in numbers:
            self.packets += 1
            fields = {
                "session": self.session, "packet": self.packets, "cls": cls, "size": 1200, **place(cls),
                "number": number, "previous": previous if previous is not None else number - 1 if cls == TX else 0,
                "count": PER_PACKET, "hops": hops,
            }  # fmt: skip
            self.sender.write("packet_sent", resend=False, **fields)
            self.receiver.write("packet_received", duplicate=False, **fields)
            sent.append(self.packets)
        return sent

    def ack(self, packets: list[int]) -> None:
        """Acknowledge packets of the session, which follow each other, by session ack and store ack."""
        self.acked += len(packets)
        for kind in ("ack", "store_ack"):
            self.receiver.write(
                f"{kind}_sent", session=self.session, cumulative=packets[-1], ranges=[], trigger="request",
                pending=len(packets),
            )  # fmt: skip
            self.sender.write(f"{kind}_received", session=self.session, ranges=[[packets[0], packets[-1]]])

    def close(self, reason: str = "drained") -> None:
        self.sender.write(
            "session_closed", session=self.session, peer=self.receiver.node, peer_name=self.receiver.name,
            reason=reason, unacked=self.packets - self.acked,
        )  # fmt: skip
        self.receiver.write(
            "session_closed", session=self.session, peer=self.sender.node, peer_name=self.sender.name, reason=reason,
            unacked=0,
        )  # fmt: skip


class Relayed(World):
    """Three nodes; all records of a hop are written one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.rho = Log("rho", RHO, self.clock)
        for log in self.logs:
            log.start()
        self.first = self.hop(self.alpha, self.rho)
        self.second = self.hop(self.rho, self.beta)

    @property
    def logs(self) -> tuple[Log, ...]:
        return (self.alpha, self.beta, self.rho) if hasattr(self, "rho") else (self.alpha, self.beta)

    def hop(self, sender: Log, receiver: Log) -> Hop:
        self.sessions += 1
        return Hop(sender, receiver, f"{self.sessions:016x}")

    def take(self, cls: str, numbers: range, **more: Any) -> Record:
        """Rho has packets in transit."""
        return self.rho.write(
            "transit_committed", cls=cls, **place(cls), first=numbers[0], last=numbers[-1], queue="orders",
            final="beta", peer_name="alpha", **more,
        )  # fmt: skip

    def free(self, cls: str, numbers: range, reason: str = "", **more: Any) -> Record:
        """Rho answers for packets no longer."""
        reason = reason or ("session-ack" if cls == FAST else "store-ack")
        if reason.endswith("-ack"):
            more = {"session": self.second.session, **more}
        return self.rho.write(
            "transit_freed", cls=cls, **place(cls), first=numbers[0], last=numbers[-1], reason=reason, **more
        )

    def bring(self, cls: str, packets: int) -> range:
        """Alpha queues packets, and rho has them."""
        numbers = self.queue(cls, packets)
        arrived = self.first.send(cls, numbers, 0)
        self.take(cls, numbers)
        self.first.ack(arrived)
        return numbers

    def pass_on(self, cls: str, numbers: range, *, previous: int | None = None) -> None:
        """Rho sends what it has to beta, which has it then."""
        arrived = self.second.send(cls, numbers, 1, previous=previous)
        self.commit(cls, numbers)
        self.second.ack(arrived)
        self.free(cls, numbers)

    def order_ack(self, number: int) -> None:
        """Beta's order ack goes back over rho."""
        self.beta.write("order_ack_sent", **place(TX), number=number, peer=RHO)
        self.word("order-ack", number)
        self.alpha.write("order_ack_received", **place(TX), number=number)

    def word(self, kind: str, number: int, peer: str = ALPHA, cls: str = TX) -> Record:
        return self.rho.write("control_relayed", kind=kind, **place(cls), number=number, peer=peer)

    def deliver(self, cls: str, packets: int) -> None:
        """The whole way of new packets, with nothing going wrong."""
        numbers = self.bring(cls, packets)
        self.pass_on(cls, numbers)
        if cls == TX:
            self.order_ack(numbers[-1])
        self.hand(cls, numbers)
        if cls != FAST:
            self.settle(cls, numbers)

    def restart_rho(self) -> None:
        """Rho dies, and starts again; its sessions are over."""
        for log, hop, peer, unacked in (
            (self.alpha, self.first, RHO, self.first.packets - self.first.acked),
            (self.beta, self.second, RHO, 0),
        ):
            log.write(
                "session_closed", session=hop.session, peer=peer, peer_name="rho", reason="path-lost", unacked=unacked
            )
        self.rho.start()

    def reopen(self) -> None:
        self.first = self.hop(self.alpha, self.rho)
        self.second = self.hop(self.rho, self.beta)

    def close_all(self) -> None:
        for hop in (self.first, self.second):
            hop.close()


def lie(tell: Lie) -> Lie:
    RELAY_FAULTS[tell.__name__] = tell
    return tell


def honest(build: Callable[[], World]) -> Callable[[], World]:
    HONEST[build.__name__] = build
    return build


def ended(world: Relayed) -> Relayed:
    """All sessions close, and all nodes stop."""
    world.close_all()
    for log in world.logs:
        log.write("node_stopped")
    return world


@honest
def through_relay() -> Relayed:
    """All classes go through; rho dies with packets of both durable classes in transit, and has them again."""
    world = Relayed()
    for cls in CLASS_STREAMS:
        world.deliver(cls, 4)
    left = {cls: world.bring(cls, 2) for cls in (TX, KEPT)}
    world.restart_rho()
    for cls, numbers in left.items():
        world.take(cls, numbers, recovered=True)
    world.reopen()
    for cls, numbers in left.items():
        world.pass_on(cls, numbers)
    world.order_ack(6)
    for cls, numbers in reversed(left.items()):  # the higher priority first
        world.hand(cls, numbers)
        world.settle(cls, numbers)
    return ended(world)


@honest
def transit_and_its_record_apart() -> Relayed:
    """Rho dies between the commit of what it took and its record, and between a record of what it freed and its commit.

    It has both again; beta knows the one that it had.
    """
    world = Relayed()
    first = world.bring(KEPT, 1)
    world.pass_on(KEPT, first)
    second = world.queue(KEPT, 1)
    world.first.send(KEPT, second, 0)
    world.restart_rho()
    world.take(KEPT, range(1, 3), recovered=True)
    world.reopen()
    world.first.ack(world.first.send(KEPT, second, 0))
    world.rho.write("rejected", cls=KEPT, **place(KEPT), number=2, reason="duplicate")
    arrived = world.second.send(KEPT, range(1, 3), 1)
    world.beta.write("rejected", cls=KEPT, **place(KEPT), number=1, reason="duplicate")
    world.commit(KEPT, second)
    world.second.ack(arrived)
    world.free(KEPT, range(1, 3))
    return ended(world)


@honest
def rejected_behind_a_relay() -> Relayed:
    """Beta has no such queue; the recoverable packet is a dead letter at rho, the transactional one at alpha."""
    world = Relayed()
    for cls in (KEPT, TX):
        numbers = world.bring(cls, 1)
        arrived = world.second.send(cls, numbers, 1)
        world.beta.write("rejected", cls=cls, **place(cls), number=1, reason="queue-not-found")
        world.second.ack(arrived)
        world.free(cls, numbers, "rejected")
        world.word("reject", 1, cls=cls)
    world.alpha.write(
        "removed", cls=TX, **place(TX), first=1, last=1, count=PER_PACKET, reason="queue-not-found",
    )  # fmt: skip
    return ended(world)


@honest
def refused_at_the_door() -> Relayed:
    """Rho knows no way: alpha has dead letters."""
    world = Relayed()
    for cls in (TX, KEPT):
        numbers = world.queue(cls, 2)
        arrived = world.first.send(cls, numbers, 0)
        world.rho.write(
            "route_refused", cls=cls, **place(cls), first=1, last=2, final="beta", reason="no-route",
        )  # fmt: skip
        world.alpha.write(
            "removed", cls=cls, **place(cls), first=1, last=2, count=2 * PER_PACKET, reason="no-route",
        )  # fmt: skip
        world.first.ack(arrived)
    return ended(world)


@honest
def let_go_and_brought_again() -> Relayed:
    """Beta holds a packet for too long and lets it go; rho drops it, and alpha brings it once more."""
    world = Relayed()
    numbers = world.bring(TX, 1)
    arrived = world.second.send(TX, numbers, 1)
    world.beta.write("rejected", cls=TX, **place(TX), number=1, reason="held-back")
    world.second.ack(arrived)
    world.free(TX, numbers, "let-go")
    again = world.first.send(TX, numbers, 0)
    world.take(TX, numbers)
    world.first.ack(again)
    world.pass_on(TX, numbers)
    world.order_ack(1)
    return ended(world)


@honest
def expired_in_transit() -> Relayed:
    """A recoverable packet expires at rho, and is a dead letter there; the next one goes on."""
    world = Relayed()
    numbers = world.bring(KEPT, 2)
    world.free(KEPT, numbers[:1], "expired")
    arrived = world.second.send(KEPT, numbers[1:], 1, previous=0)
    world.commit(KEPT, numbers[1:])
    world.second.ack(arrived)
    world.free(KEPT, numbers[1:])
    return ended(world)


@honest
def waiting_at_a_relay() -> Relayed:
    """Rho says that packets wait there: alpha sends nothing again, and keeps the session, however long it takes."""
    world = Relayed()
    world.alpha.records[0].update(seq_resend_13_ns=1_000 * MS)
    numbers = world.bring(TX, 2)
    where = {"cls": TX, **place(TX), "here": 2, "waits": True}
    world.rho.write("onward_sent", **where, peer=ALPHA, session=world.first.session)
    world.alpha.write("onward_received", **where, session=world.first.session)
    world.second.close()
    world.clock.tick(400_000 * MS)
    world.second = world.hop(world.rho, world.beta)
    world.pass_on(TX, numbers)
    world.order_ack(2)
    return ended(world)


@honest
def a_changed_copy_of_a_stream_that_has_ended() -> Relayed:
    """Rho sends a packet again that beta has delivered, and has changed it: beta says that first."""
    world = Relayed()
    world.deliver(TX, 1)
    world.alpha.write("stream_ended", cls=TX, **place(TX))
    world.beta.write("stream_forgotten", cls=TX, **place(TX))
    arrived = world.second.send(TX, range(1, 2), 1)
    world.beta.write("rejected", cls=TX, **place(TX), number=1, reason="bad-seal")
    world.second.ack(arrived)
    return ended(world)


def one_of_two_ended() -> tuple[Relayed, range]:
    """Rho has two packets, and beta one. Alpha has let the other expire, and ended the stream. Returns that one."""
    world = Relayed()
    numbers = world.bring(TX, 2)
    world.pass_on(TX, numbers[:1])
    world.order_ack(1)
    world.alpha.write("removed", cls=TX, **place(TX), first=2, last=2, count=10, reason="expired")
    world.alpha.write("stream_ended", cls=TX, **place(TX))
    return world, numbers[1:]


@honest
def a_changed_copy_that_came_too_late() -> Relayed:
    """Rho has changed what beta does not wait for any more. A store ack may cover it: rho has the answer."""
    world, late = one_of_two_ended()
    world.beta.write("stream_forgotten", cls=TX, **place(TX))
    arrived = world.second.send(TX, late, 1)
    world.beta.write("rejected", cls=TX, **place(TX), number=2, reason="bad-seal")
    world.second.ack(arrived)
    world.free(TX, late, "rejected")
    return ended(world)


@honest
def packets_that_go_with_the_end_of_their_stream() -> Relayed:
    """Rho lets go of what the origin answers for no longer."""
    world, late = one_of_two_ended()
    world.free(TX, late, "stale-sequence")
    world.beta.write("stream_forgotten", cls=TX, **place(TX))
    return ended(world)


@honest
def an_order_ack_that_has_no_neighbour() -> Relayed:
    """The relay that brought a packet is gone, and the order ack leaves when the stream comes by another way."""
    world = Relayed()
    for log in world.logs:
        log.records[0].update(seq_max_ack_delay_ns=1_000 * MS)
    direct = world.hop(world.alpha, world.beta)
    numbers = world.bring(TX, 1)
    arrived = world.second.send(TX, numbers, 1)
    world.commit(TX, numbers)
    world.second.ack(arrived)
    world.free(TX, numbers)
    world.second.close("peer-closed")
    world.clock.tick(5_000 * MS)
    world.alpha.write("rerouted", cls=TX, **place(TX), peer_name="beta")
    again = direct.send(TX, numbers, 0)
    world.beta.write("rejected", cls=TX, **place(TX), number=1, reason="duplicate")
    direct.ack(again)
    world.beta.write("order_ack_sent", **place(TX), number=1, peer=ALPHA)
    world.alpha.write("order_ack_received", **place(TX), number=1)
    direct.close()
    world.second = world.hop(world.rho, world.beta)
    return ended(world)


@honest
def a_packet_that_still_leaves_by_the_way_that_its_stream_has_left() -> Relayed:
    """Its session had taken it before; the tiers begin with what goes by the new one, which cannot be called yet."""
    world = Relayed()
    world.alpha.records[0].update(seq_resend_13_ns=300 * MS)
    world.deliver(TX, 1)
    numbers = world.queue(TX, 1)
    world.alpha.write("rerouted", cls=TX, **place(TX), peer_name="beta")
    arrived = world.first.send(TX, numbers, 0)
    world.take(TX, numbers)
    world.first.ack(arrived)
    world.clock.tick(5_000 * MS)
    world.pass_on(TX, numbers)
    world.order_ack(numbers[-1])
    world.hand(TX, numbers)
    world.settle(TX, numbers)
    return ended(world)


def free_on_a_word(world: Relayed, hop: Hop) -> dict[str, Any]:
    """Rho frees two packets on beta's word, which comes by a session. Return what the word says."""
    numbers = world.bring(KEPT, 2)
    arrived = world.second.send(KEPT, numbers, 1)
    world.commit(KEPT, numbers)
    world.second.ack(arrived)
    said = {"cls": KEPT, **place(KEPT), "ranges": [[1, 2]], "is_async": False}
    world.rho.write("onward_ack_received", **said, session=hop.session)
    world.free(KEPT, numbers, "onward-ack", sync=True)
    return said


@honest
def over_synchronous_links() -> Relayed:
    """Rho's link is synchronous, too: it frees the packet on beta's word, and tells alpha then."""
    world = Relayed()
    where = free_on_a_word(world, world.second)
    world.rho.write("onward_ack_sent", **where, peer=ALPHA)
    world.alpha.write("onward_ack_received", **where, session=world.first.session)
    return ended(world)


@honest
def two_sessions_of_a_synchronous_link() -> Relayed:
    """Both ends have called: packets go by the session of rho, and beta's word about them comes by its own."""
    world = Relayed()
    other = world.hop(world.beta, world.rho)
    free_on_a_word(world, other)
    other.close()
    return ended(world)


@honest
def a_link_that_is_behind() -> Relayed:
    """Rho's link is asynchronous for a while, as its oldest packet has waited for too long."""
    world = Relayed()
    numbers = world.bring(KEPT, 1)
    world.clock.tick(1_000 * MS)
    said = {"peer_name": "beta", "awaited": 1}
    bounds = {"downgrade_after_ns": 900 * MS, "grace_ns": 500 * MS}
    world.rho.write("link_downgraded", **said, oldest_ns=901 * MS, **bounds)
    world.pass_on(KEPT, numbers)
    world.rho.write("link_upgraded", **said | {"awaited": 0}, oldest_ns=0, upgrade_below_ns=450 * MS)
    return ended(world)


def at(check: str, cls: str, *numbers: int) -> Expected:
    """What must be found, of packets of a class."""
    return {(check, CLASS_STREAMS[cls], SEQUENCE, number) for number in numbers}


@lie
def transit_lost_at_a_restart(world: Relayed) -> Expected:
    """Rho dies with a recoverable packet, which alpha has forgotten, and does not have it again."""
    world.bring(KEPT, 1)
    world.restart_rho()
    world.reopen()
    world.deliver(KEPT, 1)
    world.close_all()
    return at("transit_forgotten", KEPT, 1) | at("lost", KEPT, 1)


@lie
def one_of_three_in_transit_not_found(world: Relayed) -> Expected:
    """Of three transactional packets rho finds two again; the third was not order-acked, and is not lost."""
    world.bring(TX, 3)
    world.restart_rho()
    world.take(TX, range(1, 3), recovered=True)
    world.reopen()
    world.pass_on(TX, range(1, 3))
    return at("transit_forgotten", TX, 3)


@lie
def transit_freed_by_a_session_ack(world: Relayed) -> Expected:
    """Rho forgets a recoverable packet as it has arrived, and not as it is on the disk."""
    numbers = world.bring(KEPT, 1)
    world.second.send(KEPT, numbers, 1)
    world.free(KEPT, numbers, "session-ack")
    return at("freed_too_early", KEPT, 1) | at("lost", KEPT, 1)


@lie
def transit_freed_before_its_store_ack(world: Relayed) -> Expected:
    """Rho claims a store ack that never came."""
    numbers = world.bring(TX, 2)
    world.second.send(TX, numbers, 1)
    world.free(TX, numbers)
    return at("freed_too_early", TX, 1, 2)


@lie
def recoverable_transit_let_go(world: Relayed) -> Expected:
    """Beta has no room, and rho drops a packet that alpha does not have any more."""
    numbers = world.bring(KEPT, 1)
    world.second.send(KEPT, numbers, 1)
    world.free(KEPT, numbers, "let-go")
    return at("freed_too_early", KEPT, 1)


@lie
def recoverable_transit_dropped_at_an_end(world: Relayed) -> Expected:
    """Alpha has ended a stream of which a packet waits at rho, which alone has it."""
    numbers = world.bring(KEPT, 1)
    world.free(KEPT, numbers, "stale-sequence")
    return at("freed_too_early", KEPT, 1)


@lie
def transit_freed_by_another_session(world: Relayed) -> Expected:
    """The store ack is of the session with alpha, which carried nothing from rho."""
    numbers = world.bring(TX, 1)
    world.free(TX, numbers, session=world.first.session)
    return at("transit_unsent", TX, 1)


@lie
def more_transit_freed_than_sent(world: Relayed) -> Expected:
    """Rho sends one of two packets, and forgets both on its store ack."""
    numbers = world.bring(KEPT, 2)
    arrived = world.second.send(KEPT, numbers[:1], 1, previous=0)
    world.commit(KEPT, numbers[:1])
    world.second.ack(arrived)
    world.free(KEPT, numbers)
    return at("transit_unsent", KEPT, 2) | at("lost", KEPT, 2)


@lie
def beyond_the_hop_limit(world: Relayed) -> Expected:
    """A packet that has passed 29 relays goes on."""
    numbers = world.queue(TX, 1)
    world.first.send(TX, numbers, 29)
    world.take(TX, numbers)
    world.second.send(TX, numbers, 30)
    return at("hop_limit", TX, 1) | at("hops_step", TX, 1)


@lie
def far_beyond_the_hop_limit(world: Relayed) -> Expected:
    """Rho makes the count of an express packet up."""
    numbers = world.bring(FAST, 1)
    world.second.send(FAST, numbers, 200)
    return at("hop_limit", FAST, 1) | at("hops_step", FAST, 1)


@lie
def hop_count_not_raised(world: Relayed) -> Expected:
    numbers = world.bring(TX, 2)
    world.second.send(TX, numbers, 0)
    return at("hops_step", TX, 1, 2)


@lie
def hop_count_begins_with_one(world: Relayed) -> Expected:
    """Alpha claims that its packet has passed a relay already."""
    numbers = world.queue(KEPT, 1)
    world.first.send(KEPT, numbers, 1)
    return at("hops_step", KEPT, 1)


@lie
def order_ack_out_of_thin_air(world: Relayed) -> Expected:
    """Rho says that beta has what it never got; alpha forgets it."""
    numbers = world.bring(TX, 1)
    world.word("order-ack", numbers[-1])
    world.alpha.write("order_ack_received", **place(TX), number=1)
    return at("order_ack_made_up", TX, 1) | at("ack_from_nowhere", TX, 1) | at("lost", TX, 1)


@lie
def order_ack_raised_on_its_way(world: Relayed) -> Expected:
    """Beta has one of two packets; rho says that it has both."""
    numbers = world.bring(TX, 2)
    world.pass_on(TX, numbers[:1])
    world.beta.write("order_ack_sent", **place(TX), number=1, peer=RHO)
    world.word("order-ack", 2)
    world.alpha.write("order_ack_received", **place(TX), number=2)
    return at("order_ack_made_up", TX, 2) | at("ack_from_nowhere", TX, 2)


@lie
def order_ack_without_proof(world: Relayed) -> Expected:
    """Rho says in secret that beta has what it never got; alpha, which has sealed it, does not believe that."""
    world.bring(TX, 1)
    world.alpha.write("word_refused", kind="order-ack", **place(TX), number=1, peer=RHO)
    return at("order_ack_made_up", TX, 1)


@lie
def order_ack_raised_without_proof(world: Relayed) -> Expected:
    """Beta has one of two sealed packets; rho says in secret that it has both."""
    numbers = world.bring(TX, 2)
    world.pass_on(TX, numbers[:1])
    world.order_ack(1)
    world.alpha.write("word_refused", kind="order-ack", **place(TX), number=2, peer=RHO)
    return at("order_ack_made_up", TX, 2)


@lie
def end_passed_before_the_last_packet(world: Relayed) -> Expected:
    """Alpha's stream has ended; rho has a packet of it, and tells beta."""
    numbers = world.bring(KEPT, 2)
    world.pass_on(KEPT, numbers[:1])
    world.alpha.write("stream_ended", cls=KEPT, **place(KEPT))
    world.word("end", 2, BETA, KEPT)
    return at("end_overtakes", KEPT, 2)


@lie
def end_passed_while_nothing_is_acknowledged(world: Relayed) -> Expected:
    """Rho has sent both packets, and beta has not said that it has them."""
    numbers = world.bring(KEPT, 2)
    world.second.send(KEPT, numbers, 1)
    world.alpha.write("stream_ended", cls=KEPT, **place(KEPT))
    world.word("end", 2, BETA, KEPT)
    return at("end_overtakes", KEPT, 1, 2)


@lie
def rejection_passed_to_the_destination(world: Relayed) -> Expected:
    """Rho refuses a packet, and tells the neighbour that it would have gone to."""
    world.bring(TX, 1)
    world.free(TX, range(1, 2), "rejected")
    world.word("reject", 1, BETA)
    return at("word_astray", TX, 1)


@lie
def order_ack_passed_to_a_stranger(world: Relayed) -> Expected:
    """Rho has a session with alpha, and tells the order ack to beta, which gave it."""
    numbers = world.bring(TX, 1)
    world.pass_on(TX, numbers)
    world.beta.write("order_ack_sent", **place(TX), number=1, peer=RHO)
    world.word("order-ack", 1, BETA)
    return at("word_astray", TX, 1)


@lie
def unordered_previous_passed_through(world: Relayed) -> Expected:
    """Alpha has forgotten packet 1, which rho still has; beta would take it for given up."""
    first = world.bring(KEPT, 1)
    second = world.queue(KEPT, 1)
    arrived = world.first.send(KEPT, second, 0, previous=1)
    world.take(KEPT, second)
    world.first.ack(arrived)
    world.second.send(KEPT, second, 1, previous=first[-1])
    return at("previous_raised", KEPT, 2)


@lie
def ordered_previous_computed_by_the_relay(world: Relayed) -> Expected:
    """Rho says that packet 3 follows 1, as it has no packet 2; alpha never said so."""
    numbers = world.bring(TX, 3)
    world.second.send(TX, numbers[:1], 1)
    world.second.send(TX, numbers[2:], 1, previous=1)
    return at("previous_raised", TX, 3)


@lie
def sent_on_and_never_taken(world: Relayed) -> Expected:
    """Rho passes a packet on that it never had on its disk."""
    numbers = world.queue(TX, 1)
    world.first.send(TX, numbers, 0)
    world.second.send(TX, numbers, 1)
    return at("queue", TX, 1)


@lie
def a_copy_that_went_round_as_duplicate(world: Relayed) -> Expected:
    """Beta brings back what rho has from alpha, and rho says that it has it: each would free the other's copy."""
    numbers = world.bring(TX, 1)
    back = world.hop(world.beta, world.rho)
    back.send(TX, numbers, 3)
    world.rho.write("rejected", cls=TX, **place(TX), number=1, reason="duplicate")
    return at("rejected", TX, 1)


@lie
def store_ack_before_the_relay_has_it(world: Relayed) -> Expected:
    """Alpha forgets a packet that rho has in its memory."""
    numbers = world.queue(KEPT, 1)
    world.first.ack(world.first.send(KEPT, numbers, 0))
    return at("store_ack_before_commit", KEPT, 1) | at("lost", KEPT, 1)


@lie
def told_before_the_store_ack(world: Relayed) -> Expected:
    """Rho says that a packet is stored behind it as soon as it has sent it."""
    numbers = world.bring(KEPT, 1)
    world.second.send(KEPT, numbers, 1)
    where = {"cls": KEPT, **place(KEPT), "ranges": [[1, 1]], "is_async": False}
    world.rho.write("onward_ack_sent", **where, peer=ALPHA)
    return at("onward_early", KEPT, 1)


@lie
def told_on_the_store_ack_of_a_synchronous_link(world: Relayed) -> Expected:
    """Rho's own link is synchronous: that beta has the packet is not enough."""
    numbers = world.bring(TX, 2)
    arrived = world.second.send(TX, numbers, 1)
    world.commit(TX, numbers)
    world.second.ack(arrived)
    world.free(TX, numbers, sync=True)
    where = {"cls": TX, **place(TX), "ranges": [[1, 2]], "is_async": False}
    world.rho.write("onward_ack_sent", **where, peer=ALPHA)
    return at("onward_early", TX, 1, 2)


@lie
def freed_by_the_store_ack_of_a_synchronous_link(world: Relayed) -> Expected:
    """Rho forgets a recoverable packet that beta has not passed on."""
    numbers = world.bring(KEPT, 1)
    arrived = world.second.send(KEPT, numbers, 1)
    world.commit(KEPT, numbers)
    world.second.ack(arrived)
    world.free(KEPT, numbers, sync=True)
    return at("freed_too_early", KEPT, 1)


@lie
def freed_by_a_word_that_had_not_come(world: Relayed) -> Expected:
    """Beta has passed nothing on."""
    numbers = world.bring(KEPT, 1)
    arrived = world.second.send(KEPT, numbers, 1)
    world.commit(KEPT, numbers)
    world.second.ack(arrived)
    world.free(KEPT, numbers, "onward-ack", sync=True)
    return at("freed_too_early", KEPT, 1)


def downgraded(world: Relayed, oldest_ns: int, grace_ns: int = 0) -> None:
    """Rho's link to beta is downgraded."""
    bounds = {"downgrade_after_ns": 1_000 * MS, "grace_ns": grace_ns}
    world.rho.write("link_downgraded", peer_name="beta", awaited=1, oldest_ns=oldest_ns, **bounds)


@lie
def downgraded_when_young(world: Relayed) -> Expected:
    """The oldest packet has waited for just as long as it may."""
    downgraded(world, 1_000 * MS)
    return {("downgrade_rule", -1, -1, -1)}


@lie
def downgraded_in_the_grace(world: Relayed) -> Expected:
    """Rho has just started."""
    downgraded(world, 1_001 * MS, grace_ns=3_600_000 * MS)
    return {("downgrade_rule", -1, -1, -1)}


@lie
def upgraded_when_old(world: Relayed) -> Expected:
    """The oldest packet has waited for as long as makes the link asynchronous."""
    downgraded(world, 1_001 * MS)
    world.rho.write("link_upgraded", peer_name="beta", awaited=1, oldest_ns=500 * MS, upgrade_below_ns=500 * MS)
    return {("downgrade_rule", -1, -1, -1)}


@lie
def downgraded_twice(world: Relayed) -> Expected:
    """The link was asynchronous already."""
    downgraded(world, 1_001 * MS)
    downgraded(world, 1_002 * MS)
    return {("downgrade_rule", -1, -1, -1)}


@lie
def passed_on_what_never_came(world: Relayed) -> Expected:
    """Beta says that it has passed on a packet that rho has never had."""
    numbers = world.bring(KEPT, 1)
    world.pass_on(KEPT, numbers)
    where = {"cls": KEPT, **place(KEPT), "ranges": [[1, 3]], "is_async": False}
    world.rho.write("onward_ack_received", **where, session=world.second.session)
    return at("claims", KEPT, 2)
