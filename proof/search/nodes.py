"""All states of one node that a search has met, and the steps between them. The engine does each step once."""

from dataclasses import dataclass, field

from proof.search.datagrams import Datagram, Datagrams
from proof.search.host import Action, Host
from proof.search.identity import digest, freeze, short, thaw
from proof.search.scope import Scope
from proof.search.witness import sentence
from triack.session.protocol.states import SessionState


@dataclass(slots=True)
class Step:
    """The effect of one event on one node."""

    node: int
    sent: int
    broken: str | None = None


@dataclass(slots=True)
class Node:
    """One state of a node."""

    frozen: bytes
    connections: tuple[int, ...]
    opened: tuple[int, ...]
    queued: tuple[bytes, ...]
    kept: tuple[bytes, ...]
    forgotten: tuple[bytes, ...]
    choices: list[Action]
    own: list[tuple[int, Step]] | None = None
    heard: dict[int, Step | None] = field(default_factory=dict)
    tried: int = 0
    idle: int = 0


class Nodes:
    """The states of one side."""

    def __init__(self, scope: Scope, side: int, datagrams: Datagrams) -> None:
        self.known: list[Node] = []
        self.steps = 0
        self._keeps = scope.keeps
        self._side = side
        self._datagrams = datagrams
        self._numbers: dict[bytes, int] = {}
        self._copies: dict[bytes, int] = {}
        # A node that came back to its previous state need not be thawed again.
        self._spare: tuple[int, Host] | None = None

    def number(self, host: Host) -> int:
        """The number of a node's state, a new one if it was never met before."""
        host.settle()
        frozen = freeze(host)
        # Most are equal to the byte, which is cheaper to check.
        copy = short(frozen)
        number = self._copies.get(copy)
        if number is None:
            number = self._numbers.setdefault(digest(host), len(self.known))
            self._copies[copy] = number
            if number == len(self.known):
                self.known.append(_look_at(host, frozen))
        return number

    # ---- steps

    def own_steps(self, number: int) -> list[tuple[int, Step]]:
        """All choices except arrivals: the choice, and its result for the node."""
        node = self.known[number]
        if node.own is None:
            taken = [(choice, self._take(number, action)) for choice, action in enumerate(node.choices)]
            node.own = [(choice, step) for choice, step in taken if step is not None]
        return node.own

    def hear(self, number: int, datagram: int) -> Step | None:
        """The result of a datagram for the node; None for no change."""
        node = self.known[number]
        if datagram not in node.heard:
            step = self._take(number, ("deliver", None), self._datagrams.known[datagram])
            node.heard[datagram] = step
            node.tried |= 1 << datagram
            if step is None:
                node.idle |= 1 << datagram
        return node.heard[datagram]

    def _take(self, number: int, action: Action, heard: Datagram | None = None) -> Step | None:
        self.steps += 1
        spare, self._spare = self._spare, None
        host: Host = spare[1] if spare is not None and spare[0] == number else thaw(self.known[number].frozen)
        try:
            sent = host.act(action, heard)
        except Exception as error:  # noqa: BLE001 - the search exists to find whatever the engine raises
            return Step(number, 0, sentence(error))
        if host.is_beyond:
            return None
        bits = 0
        for datagram in sent:
            bits |= 1 << self._datagrams.number(datagram)
        reached = self.number(host)
        if reached == number:
            self._spare = (number, host)
        return Step(reached, bits) if bits or reached != number else None

    # ---- which datagrams can still have an effect

    def live(self, number: int, net: int) -> int:
        """Of the datagrams in ``net``, those for this node that can have an effect, now or later."""
        node, datagrams = self.known[number], self._datagrams
        if self._keeps:
            return net & datagrams.to[self._side]
        live = net & datagrams.to[self._side] & datagrams.live(self._side, node.connections)
        return live & ~self._outgrown(number, live & datagrams.acks)

    def _outgrown(self, number: int, acks: int) -> int:
        """Of these acks, those that change nothing and never will: numbers in an ack only grow."""
        node = self.known[number]
        untried = acks & ~node.tried
        while untried:
            lowest = untried & -untried
            untried ^= lowest
            self.hear(number, lowest.bit_length() - 1)
        outgrown = acks & node.idle
        return outgrown and outgrown & self._datagrams.live(self._side, node.opened)


def _look_at(host: Host, frozen: bytes) -> Node:
    witness = host.witness
    return Node(
        frozen=frozen,
        connections=tuple(witness.talks),
        opened=tuple(
            connection for connection, talk in witness.talks.items() if talk.state is not SessionState.CONNECTING
        ),
        queued=tuple(witness.queued),
        kept=tuple(witness.kept),
        forgotten=host.forgotten,
        choices=host.choices(),
    )
