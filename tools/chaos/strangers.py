"""Strangers to the hosts of a simulated world: their datagrams, and whether they get more than they should.

They see all datagrams, and know every public key. With keys, a stranger may get a request to prove its address, and the
answer to a copy of a connect, which only its first sender can read: never a datagram of a session, and never more than
three times the bytes that it sent. But if one has relayed a connect as its own and another the accept that answers it,
they are the path between two hosts, as any router is: then a session may use the address to which that accept was sent
(decision 17).
"""

from collections import Counter
from collections.abc import Callable
from random import Random

from triack.base.datagram import Header, Kind, read_header
from triack.base.peers import Directory
from triack.tools.chaos.host import Host
from triack.tools.chaos.plan import Fault
from triack.tools.sim.network import Network
from triack.tools.sim.residents import draw_key
from triack.tools.sim.world import World
from triack.transport.noise import KEY_BYTES
from triack.transport.secure import SecureChannels

CAPTURED_MAX = 256
"""Datagrams that are kept for later: each a kilobyte, some of every kind."""
JUNK_MAX_BYTES = 1_400
OVERTAKE_CHANCE = 0.3
"""Of each datagram for this host: some of a window are overtaken, and others are not."""
AMPLIFICATION = 3
"""Bytes that may go to an address for each that came from it, as long as no host has proved to be there (promise L6).
"""


class Strangers:
    """All of them."""

    def __init__(self, world: World, network: Network, hosts: list[Host]) -> None:
        self.violations: list[tuple[str, str]] = []
        self._world = world
        self._network = network
        self._hosts = hosts
        self._random: Random = world.chance("strangers")
        self._captured: list[bytes] = []
        self._sent: Counter[str] = Counter()
        self._got: Counter[str] = Counter()
        self._overtaken: dict[str, tuple[str, int]] = {}
        self._accepts: dict[bytes, str] = {}
        self._relays: set[str] = set()
        network.tap = self._see

    # ---- attacks

    def attack(self, fault: Fault) -> None:
        """Begin the attack of a plan."""
        victim = self._hosts[fault.host]
        address = f"{victim.address.partition(':')[0]}://stranger-{len(self._sent)}:1"
        self._sent[address] += 0
        if fault.kind == "overtake":
            self._overtaken[victim.address] = address, self._world.now_ns + fault.for_ns
            return
        makers: dict[str, Callable[[], bytes]] = {"junk": self._junk, "replay": self._replay}
        make = makers.get(fault.kind) or self._forger(victim)
        for _ in range(fault.after):
            self._world.at(self._random.randrange(fault.for_ns), lambda: self.throw(make(), address, victim.address))

    def throw(self, datagram: bytes, address: str, to: str) -> None:
        """Send something from an address of theirs."""
        if datagram:
            self._sent[address] += len(datagram)
            if datagram in self._accepts:
                self._relays.add(self._accepts[datagram])
            self._network.send(datagram, address, to)

    def _junk(self) -> bytes:
        random = self._random
        junk = random.randbytes(random.randrange(JUNK_MAX_BYTES))
        if random.random() < 1 / 2:
            return junk
        return Header(random.choice(list(Kind)), random.getrandbits(64), random.getrandbits(64)).encode() + junk

    def _replay(self) -> bytes:
        return self._random.choice(self._captured) if self._captured else b""

    def _forger(self, victim: Host) -> "_Forger":
        return _Forger(victim, draw_key(self._world, f"stranger {len(self._sent)}"), self._random)

    # ---- observation

    def _see(self, datagram: bytes, sender: str, to: str) -> None:
        if to in self._sent:
            self._judge(datagram, sender, to)
        if sender in self._sent:
            return
        if len(self._captured) < CAPTURED_MAX:
            self._captured.append(datagram)
        else:
            self._captured[self._random.randrange(CAPTURED_MAX)] = datagram
        address, until_ns = self._overtaken.get(to, ("", 0))
        if self._world.now_ns < until_ns and self._random.random() < OVERTAKE_CHANCE:
            # It is sent first, so that it arrives first unless it is delayed for longer.
            self.throw(datagram, address, to)

    def _judge(self, datagram: bytes, sender: str, to: str) -> None:
        kind = read_header(datagram).kind
        has_session = kind is Kind.DATA and self._has_session(sender, to)
        if has_session and to in self._relays:
            return
        self._got[to] += len(datagram)
        if kind is Kind.ACCEPT:
            self._accepts[datagram] = to
        if has_session:
            self.violations.append(("path", f"{sender} has a session at the address of a stranger"))
        if self._got[to] > AMPLIFICATION * self._sent[to]:
            self.violations.append(("amplification", f"{sender} sent a stranger {self._got[to]} bytes"))

    def _has_session(self, sender: str, to: str) -> bool:
        """Whether a host believes an address to be a peer's; one that has only sent a connect gets a goodbye, too."""
        engines = [host.engine for host in self._hosts if host.address == sender]
        return any(one.known is not None for engine in engines if engine for one in engine.handshakes.index.at(to))


class _Forger:
    """Makes connects with an untrusted key, for a stranger who knows the public key of the host."""

    def __init__(self, victim: Host, key: bytes, random: Random) -> None:
        self._random = random
        directory = Directory([victim.peer])
        scheme = victim.address.partition(":")[0]
        self._channel = SecureChannels((key,), directory, entropy=random.randbytes).dial(victim.name, scheme)
        self._made = 0

    def __call__(self) -> bytes:
        self._made += 1
        hello = self._random.randbytes(KEY_BYTES)
        return self._channel.seal(Kind.CONNECT, self._random.getrandbits(63), self._made, hello, 0)
