"""Histories of stores that this node learns by relays: it never meets these nodes, and cannot ask them.

An order ack that relays pass on makes this node forget messages, which the destination's store must have from then on.
What a store says (``StoreWord``) may arrive late, twice, by other ways, and in any order. So a smaller serial, or
another start, proves nothing. Each statement counts its start, and names the starts before, each with its last commit;
these never change. So two statements of one store contradict each other if they

    name two starts by the same count,
    name two ends of one start,
    or one names a commit of a start that the other says had ended before.

Statements that have no start in common prove nothing. If two contradict each other, the store was rolled back between
them, or runs twice.

Promise: no store is accused that has all that was remembered of it. What relays say is never mixed with what a node has
proved itself (``history``), and suspends no peer: the operator gets an event, and ``triack replay`` names the messages
that were lost.
"""

from collections.abc import Mapping
from struct import error as StructError

from triack.base.commit import OWN_STATE, Commit, kept_under
from triack.base.errors import ProtocolError, RollbackDetected, StoreDamaged
from triack.base.session_log import Record
from triack.ordering.wire import StoreWord, decode_store_word

NODES_MAX = 4_096
"""Nodes with a remembered statement, about 1 KB each. Further ones are ignored: a relay could invent them."""

_PREFIX = f"{OWN_STATE}told:"


class RelayedHistories:
    """What relays have told of the stores of destinations.

    ``record`` writes to the session log, ``record(event, now_ns, **fields)``.
    """

    def __init__(self, record: Record) -> None:
        self._record = record
        # By node: the latest statement.
        self._words: dict[bytes, StoreWord] = {}
        self.unwritten: dict[bytes, None] = {}
        self._accused: set[bytes] = set()
        self.detected: list[RollbackDetected] = []

    def restore(self, state: Mapping[str, bytes]) -> None:
        """Restore the statements from the store. Raises StoreDamaged."""
        for node_id, word in kept_under(state, _PREFIX):
            try:
                self._words[bytes.fromhex(node_id)] = decode_store_word(word)
            except (ProtocolError, StructError) as cause:
                raise StoreDamaged(f"what the store has of {_PREFIX}{node_id} cannot be read") from cause

    def handle_word(self, node_id: bytes, name: str, word: StoreWord, now_ns: int) -> None:
        """A destination, which this node knows by ``name``, has said something on which the next commit depends."""
        before = self._words.get(node_id)
        if not word.start or (before is None and len(self._words) >= NODES_MAX):
            return
        start = 0 if before is None else _contradiction(before, word)
        if start and node_id not in self._accused:
            self._detect(node_id, name, start, now_ns)
        if before is None or start or (word.incarnation, word.serial) > (before.incarnation, before.serial):
            self._words[node_id] = word
            self.unwritten[node_id] = None

    def _detect(self, node_id: bytes, name: str, start: int, now_ns: int) -> None:
        self._accused.add(node_id)
        said = {"peer": node_id.hex(), "peer_name": name, "rolled_back": "peer", "contradicts": start}
        self._record("rollback_detected", now_ns, **said)
        self.detected.append(
            RollbackDetected(
                f"the store of node {name} ({node_id.hex()}), to which relays lead, does not have what it has "
                "acknowledged to this node: it is an older copy, or runs twice",
                peer=node_id.hex(),
                rolled_back="peer",
            )
        )

    def write_down(self, commit: Commit) -> None:
        """Add to a commit the statements on which it depends."""
        for node_id in self.unwritten:
            commit.state[_PREFIX + node_id.hex()] = self._words[node_id].encode()
        self.unwritten.clear()


def _starts_of(word: StoreWord) -> dict[int, tuple[int, int, bool]]:
    """The starts that a statement names, by their count: id, latest known commit, and whether that is the last."""
    first = word.incarnation - len(word.earlier)
    ended = {first + at: (start, end, True) for at, (start, end) in enumerate(word.earlier)}
    return {**ended, word.incarnation: (word.start, word.serial, False)}


def _contradiction(one: StoreWord, other: StoreWord) -> int:
    """The count of the first start on which two statements disagree; 0 when they may be of one store."""
    known, said = _starts_of(one), _starts_of(other)
    for count in sorted(known.keys() & said.keys()):
        (start, serial, is_over), (its_start, its_serial, is_its_over) = known[count], said[count]
        too_late = (is_over and its_serial > serial) or (is_its_over and serial > its_serial)
        if start != its_start or too_late:
            return count
    return 0
