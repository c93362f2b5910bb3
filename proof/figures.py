"""Measured promises: not whether they hold on many seeds, but how fast and how cheaply, one question at a time.

Each experiment builds a world of two hosts, does one thing to it many times and returns figures. ``triack chaos
--figures`` runs all of them; the suite runs smaller ones.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from statistics import quantiles
from typing import Any

from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.queues.node_settings import NodeSettings
from triack.tools.sim.faults import Faults
from triack.tools.sim.host import SimHost
from triack.tools.sim.network import Network
from triack.tools.sim.world import START_NS, World

DELAY_NS = 10 * MS
OVERHEAD_BYTES = 64
QUEUE = "q"
DAY_NS = 86_400 * SECOND
AB, BA = ("a", "b"), ("b", "a")


@dataclass(slots=True)
class Pair:
    """Two hosts, ``a`` sends to ``b``, and an application at ``b`` that reads and acknowledges without delay."""

    world: World
    network: Network
    a: SimHost
    b: SimHost
    got: list[bytes]
    times_ns: list[int]

    def send(self, bodies: list[bytes], delivery: Delivery = Delivery.TRANSACTIONAL) -> None:
        """Submit messages."""
        engine = self.a.live

        def submit() -> None:
            outgoing = engine.outgoing_stream(self.b.address, QUEUE, delivery)
            for body in bodies:
                engine.submit(outgoing, body, len(body) + OVERHEAD_BYTES)

        self.a.act(submit)

    def read(self) -> None:
        """Read what has arrived."""
        engine = self.b.engine
        if engine is None:
            return
        mailbox = engine.queues.mailboxes.get(QUEUE)
        if mailbox is None or not mailbox.length:
            return

        def take() -> None:
            while (handed := engine.take(mailbox, self.world.now_ns)) is not None:
                self.got.append(handed.body)
                self.times_ns.append(self.world.now_ns)
                mailbox.acknowledge(handed)

        self.b.act(take)

    def run(self, for_ns: int, messages: int) -> bool:
        """Let time pass until this many messages were read. Returns whether they were."""

        def enough() -> bool:
            self.read()
            return len(self.got) >= messages

        return self.world.run(for_ns, enough)


@contextmanager
def pair(seed: int = 1, faults: Faults | None = None, settings: NodeSettings | None = None) -> Iterator[Pair]:
    """Two hosts that run, on a network with 20 ms of round trip."""
    world = World(seed)
    network = Network(world, faults or Faults(delay_ns=DELAY_NS))
    a, b = (SimHost(world, network, name, f"udp://{name}:1", settings=settings) for name in "ab")
    for host in (a, b):
        host.commit_ns = MS
        host.start()
    try:
        yield Pair(world, network, a, b, [], [])
    finally:
        a.disk.close()
        b.disk.close()


def numbered(count: int, size_bytes: int = 100) -> list[bytes]:
    """Messages with their numbers."""
    return [b"%08d" % number + b"." * (size_bytes - 8) for number in range(count)]


# ---- promise L3: any single packet, and any two, may vanish


def _exchange(drops: frozenset[int]) -> tuple[int, int, bool]:
    """The reference exchange: ten messages in three bursts. Returns datagrams, duration and whether all came once."""
    with pair() as two:
        sent = 0

        def alter(datagram: bytes, _sender: str, _to: str) -> bytes | None:
            nonlocal sent
            sent += 1
            return None if sent - 1 in drops else datagram

        two.network.alter = alter
        bodies = numbered(10)
        start_ns = two.world.now_ns
        for first in (0, 4, 8):
            two.send(bodies[first : first + 4])
            two.world.run(15 * MS)
            two.read()
        two.run(60 * SECOND, len(bodies))
        took_ns = two.times_ns[-1] - start_ns if two.times_ns else 0
        # A loss at the end must be repaired, too: nothing is left at the sender.
        two.world.run(60 * SECOND)
        two.read()
        engine = two.a.engine
        settled = engine is not None and not any(outgoing.busy for outgoing in engine.outbox.streams)
        return sent, took_ns, two.got == bodies and settled


def drop_any(count: int) -> dict[str, Any]:
    """Drop each choice of ``count`` datagrams of the reference exchange."""
    datagrams, calm_ns, fine = _exchange(frozenset())
    runs = [_exchange(frozenset(some)) for some in combinations(range(datagrams), count)]
    return {
        "datagrams": datagrams,
        "runs": len(runs),
        "complete": sum(run[2] for run in runs) if fine else 0,
        "longest_added_ms": max(run[1] - calm_ns for run in runs) / MS,
    }


# ---- promise L1: handshakes


BURST = 3


def handshakes(runs: int, loss: float) -> dict[str, Any]:
    """Time until both ends have a session, over a link with 30 ms of round trip that loses in bursts of 3 each way."""
    seconds = []
    for seed in range(runs):
        with pair(seed, Faults(delay_ns=15 * MS)) as two:
            two.network.alter = _bursts(two.world, loss)
            two.send(numbered(1))
            if two.world.run(60 * SECOND, lambda two=two: _is_open(two.b)):  # type: ignore[misc]
                seconds.append((two.world.now_ns - START_NS) / SECOND)
    cuts = quantiles(seconds, n=100)
    return {
        "loss": loss,
        "runs": runs,
        "open": len(seconds),
        "p50_s": round(cuts[49], 3),
        "p99_s": round(cuts[98], 3),
        "max_s": round(max(seconds), 3),
    }


def _bursts(world: World, loss: float) -> Callable[[bytes, str, str], bytes | None]:
    """Lose this share of all datagrams, three in a row each time, in each direction separately."""
    random = world.chance("bursts")
    begins = loss / (BURST * (1 - loss))
    left: dict[str, int] = {}

    def alter(datagram: bytes, sender: str, _to: str) -> bytes | None:
        if not left.get(sender) and random.random() < begins:
            left[sender] = BURST
        if left.get(sender):
            left[sender] -= 1
            return None
        return datagram

    return alter


def _is_open(host: SimHost) -> bool:
    engine = host.engine
    return engine is not None and any(conversation.is_open for conversation in engine.handshakes.conversations.values())


# ---- promise L2: transfers


def heavy_losses(loss: float, runs: int) -> dict[str, Any]:
    """A hundred messages where nearly everything is lost: one run predicts little of the next."""
    took = [transfers(loss, 100, 100, seed=seed)["virtual_s"] for seed in range(runs)]
    cuts = quantiles(took, n=10)
    return {"loss": loss, "runs": runs, "p10_s": round(cuts[0]), "p50_s": round(cuts[4]), "p90_s": round(cuts[8])}


def transfers(loss: float, messages: int, size_bytes: int, *, corrupt: bool = False, seed: int = 1) -> dict[str, Any]:
    """Move messages over a network that loses, or spoils, each datagram with this chance, both ways."""
    faults = Faults(delay_ns=DELAY_NS, loss=0.0 if corrupt else loss, corrupt=loss if corrupt else 0.0)
    with pair(seed, faults) as two:
        sent_bytes = 0

        def tap(datagram: bytes, sender: str, _to: str) -> None:
            nonlocal sent_bytes
            sent_bytes += len(datagram) if sender == two.a.address else 0

        two.network.tap = tap
        bodies = numbered(messages, size_bytes)
        start_ns = two.world.now_ns
        two.send(bodies)
        two.run(DAY_NS, messages)
        payload = messages * size_bytes
        return {
            "loss": loss,
            "kind": "corruption" if corrupt else "loss",
            "messages": messages,
            "in_order_once": two.got == bodies,
            "virtual_s": round((two.world.now_ns - start_ns) / SECOND, 1),
            "bytes_per_payload": round(sent_bytes / payload, 3),
            "allowed": round(1.3 / (1 - loss), 3),
        }


# ---- promise L4: outages


def outages(lengths_ns: list[int]) -> list[dict[str, Any]]:
    """Cut the path, both ways or one way, while messages wait; how long after the outage does the first one arrive?"""
    found = []
    for length_ns in lengths_ns:
        for name, ways in (("both", (AB, BA)), ("to b", (AB,)), ("to a", (BA,))):
            after_ns = _outage(length_ns, ways)
            found.append({"outage_s": length_ns / SECOND, "cut": name, "first_delivery_ms": after_ns / MS})
    return found


def _outage(length_ns: int, ways: tuple[tuple[str, str], ...]) -> int:
    with pair() as two:
        two.send(numbered(1))
        two.run(10 * SECOND, 1)
        hosts = {"a": two.a.address, "b": two.b.address}
        for here, there in ways:
            two.network.cut(hosts[here], hosts[there])
        two.world.run(length_ns // 2)
        two.send(numbered(1))
        two.world.run(length_ns - length_ns // 2)
        two.read()
        if len(two.got) > 1:
            return 0
        two.network.heal()
        start_ns = two.world.now_ns
        return two.world.now_ns - start_ns if two.run(600 * SECOND, 2) else -1


def blackholes(rounds: int) -> dict[str, Any]:
    """A path that is dead for 5 s and works for 2 s, again and again, one way or both, while messages keep coming.

    How long after each dead time did the next message arrive, and did all arrive once and in order?
    """
    with pair() as two:
        bodies = numbered(1 + 2 * rounds)
        hosts = {"a": two.a.address, "b": two.b.address}
        two.send(bodies[:1])
        two.run(10 * SECOND, 1)
        waits_ns: list[int] = []
        for round_ in range(rounds):
            for here, there in ((AB, BA), (AB,), (BA,))[round_ % 3]:
                two.network.cut(hosts[here], hosts[there])
            two.world.run(2_500 * MS)
            two.send(bodies[1 + 2 * round_ : 3 + 2 * round_])
            two.world.run(2_500 * MS)
            two.read()
            arrived, start_ns = len(two.got), two.world.now_ns
            two.network.heal()
            waiting = arrived < 3 + 2 * round_
            if two.run(2 * SECOND, arrived + waiting):
                waits_ns.append(two.world.now_ns - start_ns)
            two.world.run(start_ns + 2 * SECOND - two.world.now_ns)
        two.run(60 * SECOND, len(bodies))
        in_order_once, longest_ms = two.got == bodies, max(waits_ns, default=-1) / MS
        return {"rounds": rounds, "answered": len(waits_ns), "longest_ms": longest_ms, "in_order_once": in_order_once}


# ---- promise S7: duplicates at any time


def replays(ages_ns: list[int]) -> dict[str, Any]:
    """Send every datagram of an exchange again after each of these times, with a restart in between."""
    with pair() as two:
        recorded: list[tuple[bytes, str, str]] = []
        two.network.tap = lambda *sent: recorded.append(sent)
        bodies = numbered(20)
        two.send(bodies[:10])
        two.send(bodies[10:], Delivery.RECOVERABLE)
        two.run(60 * SECOND, 20)
        two.world.run(10 * SECOND)
        two.network.tap = None
        copies = 0
        for age_ns in ages_ns:
            two.world.run(age_ns)
            for again in recorded:
                two.network.send(*again)
                copies += 1
            two.world.run(10 * SECOND)
            two.read()
            two.b.end()
            two.b.start()
            two.world.run(SECOND)
            two.read()
        years = (two.world.now_ns - START_NS) / DAY_NS / 365
        return {"copies": copies, "virtual_years": round(years, 1), "duplicates": len(two.got) - len(bodies)}


def log_sizes(every_ns: int, messages: int) -> dict[str, Any]:
    """How many bytes of session log a message costs that travels alone, both nodes together."""
    with pair() as two:
        for number in range(messages):
            two.send([b"." * 100])
            two.run(every_ns, number + 1)
            two.world.run(every_ns)
            two.read()
        log_bytes = sum(len(records) for host in (two.a, two.b) for records in host.records)
        return {"messages": len(two.got), "bytes_per_message": round(log_bytes / messages, 1)}


def everything(say: Callable[[str, object], None]) -> dict[str, object]:
    """Run all experiments at full size."""
    found: dict[str, object] = {}

    def note(name: str, figures: object) -> None:
        found[name] = figures
        say(name, figures)

    note("any packet dropped", drop_any(1))
    note("any two packets dropped", drop_any(2))
    for loss in (0.3, 0.5):
        note(f"handshakes at {loss:.0%}", handshakes(1_000, loss))
    for loss in (0.02, 0.1, 0.3, 0.5):
        note(f"10 MB at {loss:.0%} loss", transfers(loss, 100_000, 100))
        note(f"10 MB at {loss:.0%} corruption", transfers(loss, 100_000, 100, corrupt=True))
    note("100 messages at 90% loss", heavy_losses(0.9, 40))
    lengths = [SECOND, 10 * SECOND, 60 * SECOND, 600 * SECOND, 3_600 * SECOND, DAY_NS, 30 * DAY_NS]
    note("outages", outages(lengths))
    for every_s in (1, 60):
        note(f"log of a message every {every_s} s", log_sizes(every_s * SECOND, 2_000))
    note("dead for 5 s of every 7 s", blackholes(1_000))
    note("replays", replays([SECOND, 3_600 * SECOND, 365 * DAY_NS, 3_285 * DAY_NS]))
    return found
