"""The simulated network, which decides what happens to every datagram.

Datagram addresses (``udp:``) get all of it: loss, independent and in bursts, duplicates, also much later, other orders,
jitter and spikes of delay, flipped bits, truncation, a largest datagram, a link with a rate and a queue that overflows.
TCP connections (``tcp:``) keep order and lose nothing; loss and a full link only delay them, and a cut ends the path.

Cuts and clogs are directed. A rebound host sends from another address than the one that it listens at, as behind a
router that forgot it. So does one that speaks to an address of the other kind: it calls from a port of that kind, and
is answered there as long as its process lives. A hidden host is behind a middle box: only flows that it has begun, and
that are still known, reach it (``flows``).
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from triack.base.units import MS, SECOND
from triack.tools.sim.faults import Fates, Faults
from triack.tools.sim.flows import FlowTable
from triack.tools.sim.residents import Residents
from triack.tools.sim.world import World

RETRANSMIT_NS = 200 * MS
STREAM_PATIENCE_NS = 5 * SECOND
"""A TCP connection that was cut for this long is gone."""
REBOUND_PORT = 20_000
CALLING_PORT = 30_000

Path = tuple[str, str]


@dataclass(slots=True)
class Port:
    """A listener at an address."""

    receive: Callable[[bytes, str], None]
    path_lost: Callable[[str], None]


class Network:
    """All paths between all addresses of a world."""

    def __init__(self, world: World, faults: Faults | None = None) -> None:
        self.world = world
        self.faults = faults or Faults()
        self.residents = Residents()
        self.tap: Callable[[bytes, str, str], None] | None = None
        self.alter: Callable[[bytes, str, str], bytes | None] | None = None
        self._fates = Fates(lambda concern: world.chance(f"network {concern}"))
        self.counts = self._fates.counts
        self._ports: dict[str, Port] = {}
        self._cuts: dict[Path, int] = {}
        self._held: dict[Path, list[tuple[bytes, Path]]] = {}
        self._calls_from: dict[Path, str] = {}
        self._called_by: dict[str, str] = {}
        self._calls = 0
        self._seen_as: dict[str, str] = {}
        self._reached_at: dict[str, str] = {}
        self._rebound = 0
        self._narrow: dict[Path, int] = {}
        self._flows = FlowTable()
        self._streams: dict[Path, deque[tuple[int, bytes]]] = {}

    # ---- listeners

    def attach(self, address: str, port: Port) -> None:
        """Listen at an address, in place of an earlier listener."""
        self._ports[address] = port

    def detach(self, address: str) -> None:
        """Stop listening there; TCP peers learn it."""
        self._ports.pop(address, None)
        callers = [caller for caller, owner in self._called_by.items() if owner == address]
        for gone in (address, *callers):
            if gone.startswith("tcp:"):
                self._break_off(gone)
                for other in list(self._ports):
                    self._later(self.faults.delay_ns, other, lambda port, gone=gone: port.path_lost(gone))  # type: ignore[misc]
        for caller in callers:
            del self._called_by[caller], self._calls_from[address, _scheme(caller)]

    # ---- operators and faults

    def cut(self, sender: str, to: str) -> None:
        """Lose everything from one address to another, until ``heal``."""
        now_ns = self._cuts[sender, to] = self.world.now_ns
        if "tcp" in (_scheme(sender), _scheme(to)):
            self.world.at(STREAM_PATIENCE_NS, lambda: self._give_up(sender, to, now_ns))

    def heal(self) -> None:
        """End all cuts and clogs; held datagrams arrive, also those of TCP connections."""
        self._cuts.clear()
        for path in list(self._held):
            self.unclog(*path)

    def clog(self, sender: str, to: str) -> None:
        """Hold everything from one address to another until ``unclog``."""
        self._held.setdefault((sender, to), [])

    def unclog(self, sender: str, to: str) -> None:
        """Release held datagrams, all together."""
        for datagram, path in self._held.pop((sender, to), []):
            self._transport(datagram, *path)

    def rebind(self, address: str) -> None:
        """From now on this address appears as another one; datagrams to the earlier appearance are lost."""
        self._rebound += 1
        self._reached_at.pop(self._seen_as.get(address, ""), None)
        seen = f"{address.rpartition(':')[0]}:{REBOUND_PORT + self._rebound}"
        self._seen_as[address] = seen
        self._reached_at[seen] = address

    def hide(self, address: str, life_ns: int) -> None:
        """Put a host behind a middle box that forgets UDP flows after that time: no host can call it. 0: remove it."""
        self._flows.hide(address, life_ns)

    def narrow(self, sender: str, to: str, most_bytes: int) -> None:
        """Lose every longer datagram from one host to another, at any address, for good; 0 for none."""
        self._narrow[_host(sender), _host(to)] = most_bytes

    # ---- datagrams

    def send(self, datagram: bytes, sender: str, to: str) -> None:
        """Send a datagram."""
        if self.tap is not None:
            self.tap(datagram, sender, to)
        if self.alter is not None:
            altered = self.alter(datagram, sender, to)
            if altered is None:
                self.counts["altered"] += 1
                return
            datagram = altered
        self.counts["sent"] += 1
        to = self._reached_at.get(to, to)
        path = (sender, self._flows.home_of(self._called_by.get(to, to)))
        seen = self._seen_calling(sender, to)
        if path in self._cuts and to.startswith("udp:"):
            self.counts["cut"] += 1
        elif path in self._held or path in self._cuts:
            self._held.setdefault(path, []).append((datagram, (seen, to)))
            self.counts["held"] += 1
        else:
            self._transport(datagram, seen, to)

    def _seen_calling(self, sender: str, to: str) -> str:
        scheme = _scheme(to)
        if _scheme(sender) == scheme or sender not in self._ports:
            return sender
        caller = self._calls_from.get((sender, scheme))
        if caller is None:
            self._calls += 1
            host = sender.partition("://")[2].rpartition(":")[0]
            caller = self._calls_from[sender, scheme] = f"{scheme}://{host}:{CALLING_PORT + self._calls}"
            self._called_by[caller] = sender
        return caller

    def _transport(self, datagram: bytes, sender: str, to: str) -> None:
        if to.startswith("udp:"):
            self._carry(datagram, sender, to)
        else:
            self._stream(datagram, sender, to)

    def _carry(self, datagram: bytes, sender: str, to: str) -> None:
        seen = self._flows.handle_leaving(sender, to, self.world.now_ns) or self._seen_as.get(sender, sender)
        most_bytes = self._narrow.get((_host(sender), _host(to)), 0)
        if 0 < most_bytes < len(datagram):
            self.counts["too-large"] += 1
            return
        inside = self._flows.inside_of(to, seen, self.world.now_ns)
        if inside is None:
            self.counts["forgotten"] += 1
            return
        for delay_ns, data in self._fates.decide(self.faults, datagram, (sender, to), self.world.now_ns):
            self._later(delay_ns, inside, lambda port, data=data: port.receive(data, seen))  # type: ignore[misc]

    def _later(self, delay_ns: int, to: str, action: Callable[[Port], None]) -> None:
        self.world.at(delay_ns, lambda: self._arrive(to, action))

    def _arrive(self, to: str, action: Callable[[Port], None]) -> None:
        port = self._ports.get(self._called_by.get(to, to))
        if port is None:
            self.counts["unreachable"] += 1
        else:
            self.counts["arrived"] += 1
            action(port)

    # ---- streams

    def _stream(self, datagram: bytes, sender: str, to: str) -> None:
        """In order and without loss: a lost segment holds up everything behind it."""
        if self._called_by.get(to, to) not in self._ports:
            self._later(self.faults.delay_ns, sender, lambda port: port.path_lost(to))
            return
        path = sender, to
        stream = self._streams.setdefault(path, deque())
        now_ns = self.world.now_ns
        link_ns = self._fates.link_ns(self.faults, datagram, path, now_ns)
        stream.append((now_ns + link_ns + self._fates.delay_ns(self.faults), datagram))
        if len(stream) == 1:
            self._carry_on(path, stream)

    def _carry_on(self, path: Path, stream: deque[tuple[int, bytes]]) -> None:
        def arrive() -> None:
            if self._streams.get(path) is not stream:
                return
            _, datagram = stream.popleft()
            if stream:
                self._carry_on(path, stream)
            self._arrive(path[1], lambda port: port.receive(datagram, path[0]))

        now_ns = self.world.now_ns
        at_ns = max(stream[0][0], now_ns)
        while self._fates.is_lost(self.faults, path):
            at_ns += RETRANSMIT_NS
        self.world.at(at_ns - now_ns, arrive)

    def _break_off(self, address: str, other: str = "") -> None:
        """The TCP connections of an address, or those with one other, end with all data in them."""
        for path in list(self._streams):
            ends = {*path, *(self._called_by.get(end, end) for end in path)}
            if address in ends and (not other or other in ends):
                self.counts["broken-off"] += len(self._streams.pop(path))

    def _give_up(self, sender: str, to: str, cut_at_ns: int) -> None:
        if self._cuts.get((sender, to)) == cut_at_ns:
            self._held.pop((sender, to), None)
            self._break_off(sender, to)
            for told, other in ((sender, to), (to, sender)):
                seen = self._calls_from.get((other, _scheme(told)), other)
                self._later(0, told, lambda port, seen=seen: port.path_lost(seen))  # type: ignore[misc]
            self.world.at(STREAM_PATIENCE_NS, lambda: self._give_up(sender, to, cut_at_ns))


def _scheme(address: str) -> str:
    return address.partition(":")[0]


def _host(address: str) -> str:
    return address.partition("://")[2].rpartition(":")[0]
