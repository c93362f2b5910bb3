"""Logs of three nodes: alpha sends to beta through the relay rho; and a lie for each promise of a relay."""

from collections.abc import Callable
from typing import Any

from tests.tools.replay.builder import ALPHA, MS, PER_PACKET, Log, Record, World, place, write_closed, write_opened
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
        write_opened(sender, session, receiver.node, receiver.name, "initiator", window)
        write_opened(receiver, session, sender.node, sender.name, "acceptor", window)

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
        unacked = self.packets - self.acked
        write_closed(self.sender, self.session, self.receiver.node, self.receiver.name, reason, unacked)
        write_closed(self.receiver, self.session, self.sender.node, self.sender.name, reason)


class Relayed(World):
    """Three nodes; all records of a hop are written one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.rho = Log("rho", RHO, self.clock)
        for log in self.logs:
            log.start()
        self.first, self.second = self.hop(self.alpha, self.rho), self.hop(self.rho, self.beta)

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
        write_closed(self.alpha, self.first.session, RHO, "rho", "path-lost", self.first.packets - self.first.acked)
        write_closed(self.beta, self.second.session, RHO, "rho", "path-lost")
        self.rho.start()

    def call(self, name: str, sender: str, receiver: str) -> None:
        """A node opens a session with another one, which has that name from now on."""
        setattr(self, name, self.hop(getattr(self, sender), getattr(self, receiver)))

    def reopen(self) -> None:
        self.call("first", "alpha", "rho")
        self.call("second", "rho", "beta")

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
