"""Breadth-first search through every state that a scope can reach.

A state is two nodes and the set of datagrams between them. The shipped engine is pure: what a node does next follows
from its own state and from the event. So the engine does each such step once, and ``nodes`` remembers it. The states of
the whole, of which there are many more, are made of numbers: two nodes, and one bit for each datagram.

Two reductions, neither of which hides anything:

- A state is left out when another one has the same nodes and more datagrams: whatever can happen to it can happen
  there.
- A datagram is removed from the network when no node can accept it, or when it brings nothing but acknowledgements
  that its session has outgrown (``Nodes._outgrown``).
"""

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter

from proof.search.datagrams import Datagrams
from proof.search.fair import run_fair
from proof.search.host import Host
from proof.search.nodes import Node, Nodes, Step
from proof.search.scope import Scope
from proof.search.trace import retrace
from triack.base.delivery import Delivery

Progress = Callable[[str, int, int], None]

_NODE_BITS = 24
_PAIR_BITS = 2 * _NODE_BITS
_NODE_MASK = (1 << _NODE_BITS) - 1
_PAIR_MASK = (1 << _PAIR_BITS) - 1


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a search."""

    scope: str
    states: int
    transitions: int
    depth: int
    complete: bool
    node_states: tuple[int, int]
    fair_runs: int
    violation: str | None
    trace: tuple[str, ...]
    seconds: float


class Search:
    """One search."""

    def __init__(self, scope: Scope, *, prune: bool = True) -> None:
        self.scope = scope
        self.datagrams = Datagrams()
        self.nodes = (Nodes(scope, 0, self.datagrams), Nodes(scope, 1, self.datagrams))
        self.pairs: dict[int, dict[int, int]] = {}
        self._prune = prune
        self._states: list[int] = []
        self._parents = array("Q")
        self._ways = array("Q")
        self._transitions = 0
        self._violation: str | None = None
        self._trace: list[str] = []

    def run(self, limit: int, *, fair_runs: int = 0, progress: Progress | None = None) -> SearchResult:
        """Try everything, or stop after ``limit`` states; then let ``fair_runs`` of them, spread evenly, continue."""
        began = perf_counter()
        depth, complete = self._search(limit, progress)
        tried = 0 if self._violation else self._run_fair(fair_runs)
        return SearchResult(
            scope=self.scope.name,
            states=len(self._states),
            transitions=self._transitions,
            depth=depth,
            complete=complete,
            node_states=(len(self.nodes[0].known), len(self.nodes[1].known)),
            fair_runs=tried,
            violation=self._violation,
            trace=tuple(self._trace),
            seconds=perf_counter() - began,
        )

    # ---- breadth first

    def _search(self, limit: int, progress: Progress | None) -> tuple[int, bool]:
        self._begin()
        first, depth = 0, 0
        while first < len(self._states) and self._violation is None:
            end = len(self._states)
            for index in range(first, end):
                if not self._expand(index) or len(self._states) >= limit:
                    return depth, False
                if progress is not None and index % 10_000 == 0:
                    progress(self.scope.name, len(self._states), depth)
            first, depth = end, depth + 1
        return depth, self._violation is None

    def _begin(self) -> None:
        numbers, net = [], 0
        for side in (0, 1):
            host = Host(self.scope, side)
            for datagram in host.begin():
                net |= 1 << self.datagrams.number(datagram)
            numbers.append(self.nodes[side].number(host))
        self._add(numbers[0] | numbers[1] << _NODE_BITS, net, 0, 0)

    def _expand(self, index: int) -> bool:
        """Try everything that can happen in a state. Returns False when a promise is broken."""
        state = self._states[index]
        pair, net = state & _PAIR_MASK, state >> _PAIR_BITS
        if net not in self.pairs[pair]:
            return True
        for side, way, step in self._steps(pair, net):
            self._transitions += 1
            if step.broken is not None:
                self._break(index, way, step.broken)
                return False
            reached = pair & _NODE_MASK | step.node << _NODE_BITS if side else pair & ~_NODE_MASK | step.node
            if not self._add(reached, net | step.sent, index, way):
                return False
        return True

    def _steps(self, pair: int, net: int) -> Iterator[tuple[int, int, Step]]:
        for side, nodes in enumerate(self.nodes):
            number = pair >> _NODE_BITS if side else pair & _NODE_MASK
            for choice, step in nodes.own_steps(number):
                yield side, choice << 2 | side, step
            bits = net & self.datagrams.to[side] & ~nodes.known[number].idle
            while bits:
                lowest = bits & -bits
                bits ^= lowest
                datagram = lowest.bit_length() - 1
                step_ = nodes.hear(number, datagram)
                if step_ is not None:
                    yield side, datagram << 2 | 2 | side, step_

    def _add(self, pair: int, net: int, parent: int, way: int) -> bool:
        """Note a state, unless it is known. Returns False when a promise is broken."""
        first, second = pair & _NODE_MASK, pair >> _NODE_BITS
        if self._prune:
            net = self.nodes[0].live(first, net) | self.nodes[1].live(second, net)
        known = self.pairs.get(pair)
        if known is None:
            known = self.pairs[pair] = {}
            broken = self._compare(self.nodes[0].known[first], self.nodes[1].known[second])
            if broken is not None:
                self._break(parent, way, broken)
                return False
        elif net in known:
            return True
        elif self._prune:
            for other in known:
                if other | net == other:
                    return True
            for other in [other for other in known if other | net == net]:
                del known[other]
        known[net] = len(self._states)
        self._states.append(net << _PAIR_BITS | pair)
        self._parents.append(parent)
        self._ways.append(way)
        return True

    # ---- what two nodes promise together

    def _compare(self, first: Node, second: Node) -> str | None:
        for sender, receiver, part in ((first, second, self.scope.parts[0]), (second, first, self.scope.parts[1])):
            queued, kept = sender.queued, receiver.kept
            if part.delivery is Delivery.TRANSACTIONAL and kept != queued[: len(kept)]:
                return f"accepted {_list(kept)} of {_list(queued)}"
            lost = [body for body in sender.forgotten if body not in kept]
            if lost:
                return f"the sender has let go of {_list(lost)}, which is not on the receiver's disk"
        return None

    def _run_fair(self, most: int) -> int:
        """Stop the faults in states spread evenly over all, and check that all ends well."""
        every = max(1, len(self.pairs) // max(1, most))
        tried = 0
        for pair, nets in list(self.pairs.items())[::every] if most else ():
            tried += 1
            nodes = (self.nodes[0].known[pair & _NODE_MASK], self.nodes[1].known[pair >> _NODE_BITS])
            stuck = run_fair([node.frozen for node in nodes])
            if stuck is not None:
                index = next(iter(nets.values()))
                self._violation = stuck
                self._trace = [*retrace(self.scope, self.datagrams, self._path(index)), "from here on nothing is lost"]
                break
        return tried

    # ---- how it came to this

    def _break(self, parent: int, way: int, broken: str) -> None:
        self._violation = broken
        self._trace = retrace(self.scope, self.datagrams, [*self._path(parent), way])

    def _path(self, index: int) -> list[int]:
        ways: list[int] = []
        while index:
            ways.append(self._ways[index])
            index = self._parents[index]
        return ways[::-1]


def _list(messages: tuple[bytes, ...] | list[bytes]) -> str:
    return ", ".join(body.decode() for body in messages) or "nothing"
