"""Logs of three nodes: alpha sends to beta through the relay rho; and a lie for each promise of a relay."""

from collections.abc import Callable
from typing import Any

from tests.tools.replay.builder import AGREED, ALPHA, CLASS_STREAMS, MS, PER_PACKET, SEQUENCE, Log, Record, World, place
from tests.tools.replay.telling import Expected, told

RHO = "c0" * 16
TX, KEPT, FAST = "transactional", "recoverable", "express"
Lie = Callable[["Relayed"], Expected]


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

    def ended(self) -> None:
        """All sessions close, and all nodes stop."""
        self.close_all()
        for log in self.logs:
            log.write("node_stopped")

    def downgraded(self, oldest_ms: int, grace_ms: int = 0) -> None:
        bounds = {"downgrade_after_ns": 1_000 * MS, "grace_ns": grace_ms * MS}
        self.rho.write("link_downgraded", peer_name="beta", awaited=1, oldest_ns=oldest_ms * MS, **bounds)


HONEST: dict[str, Callable[[], World]] = {one.name: one.on(Relayed) for one in told("relays.txt")}
RELAY_FAULTS: dict[str, Lie] = {one.name: one.plant for one in told("relay_faults.txt")}
through_relay = HONEST["through_relay"]
"""All classes go through; rho dies with packets of both durable classes in transit, and has them again."""


def lie(tell: Lie) -> Lie:
    RELAY_FAULTS[tell.__name__] = tell
    return tell


def honest(build: Callable[[], World]) -> Callable[[], World]:
    HONEST[build.__name__] = build
    return build


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
    world.ended()
    return world


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
    world.ended()
    return world


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
def two_sessions_of_a_synchronous_link() -> Relayed:
    """Both ends have called: packets go by the session of rho, and beta's word about them comes by its own."""
    world = Relayed()
    other = world.hop(world.beta, world.rho)
    free_on_a_word(world, other)
    other.close()
    world.ended()
    return world


def at(check: str, cls: str, *numbers: int) -> Expected:
    """What must be found, of packets of a class."""
    return {(check, CLASS_STREAMS[cls], SEQUENCE, number) for number in numbers}
