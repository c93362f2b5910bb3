"""Deadlines that an earlier start wrote down by a time of day which was set since.

Promise: a packet on its way out lives as long as its sender said, by what has passed, however the clock was set
between two starts, and what it says of itself to its receiver is moved forward with the clock. A packet in a queue is
not ended by a clock that was set forward, if it was sent by the clock before. Where a clock was set back, a packet in a
queue may end late.

What was set is kept with the first commit after it, as the rows themselves stay as they are.

A message of a node whose clock is not set lives at its receiver from its arrival on: what its sender wrote down can
only be compared with itself. A receiver that starts again counts anew.
"""

import json
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from triack.base.checks import LONGEST_LIFE_S
from triack.base.clock import UNSET_BEFORE_MS, ClockJump
from triack.base.commit import OWN_STATE, Commit, OutgoingStreamRow
from triack.base.errors import StoreDamaged
from triack.queues.packing import move_times, receive_by_of, sent_at_of

__all__ = ["ClockJumps", "head_here", "late_by_ms"]

JUMPS_MAX = 16
"""That are remembered: a machine without a battery has one with each start, and few messages outlive so many."""
_STATE = f"{OWN_STATE}clock"


def late_by_ms(sent_at_ms: int, receive_by_ms: int, now_ms: int) -> int:
    """By how much the clock of a sender is behind that is not set, while this node's is; 0 when it may be right.

    Nor is it late when no node of ours has written these times, as none lets a message live for more than a century.
    """
    is_life = 0 < receive_by_ms - sent_at_ms <= LONGEST_LIFE_S * 1_000
    return now_ms - sent_at_ms if is_life and sent_at_ms < UNSET_BEFORE_MS <= now_ms else 0


def head_here(head: bytes, now_ms: int) -> bytes:
    """The first bytes of a packet that is to be received by some time, by this node's clock."""
    by_ms = late_by_ms(sent_at_of(head), receive_by_of(head), now_ms)
    return move_times(head, by_ms) if by_ms else head


@dataclass(slots=True)
class _Jump:
    """One jump; ``ends`` has the number that each stream, by its sequence, gave next when it was found."""

    by_ms: int
    last_ms: int
    ends: dict[int, int]


class ClockJumps:
    """How the clock of one node was set between its starts."""

    __slots__ = ("_jumps", "by_ms")

    def __init__(self, jump: ClockJump | None = None) -> None:
        self._jumps: list[_Jump] = []
        self.by_ms = 0 if jump is None else jump.by_ms
        if jump is not None:
            self._jumps.append(_Jump(*jump, {}))

    def restore(self, state: Mapping[str, bytes], streams: Iterable[OutgoingStreamRow], commit: Commit) -> None:
        """Take what the store has, and let the next commit keep what is new.

        Raises:
            StoreDamaged: it cannot be read.
        """
        found = _read(state.get(_STATE, b"[]"))
        if not self._jumps:
            self._jumps = found
            return
        self._jumps[0].ends = {row.sequence: row.next_number for row in streams}
        self._jumps = [*found, *self._jumps][-JUMPS_MAX:]
        value = [[jump.by_ms, jump.last_ms, list(jump.ends.items())] for jump in self._jumps]
        commit.state[_STATE] = json.dumps(value).encode()

    def outgoing_ms(self, sequence: int, number: int) -> int:
        """By how much the clock was set since a packet of an earlier start was made."""
        return sum([jump.by_ms for jump in self._jumps if number < jump.ends.get(sequence, 0)])

    def move_outgoing(self, sequence: int, number: int, body: bytes) -> bytes:
        """The body of a packet, by the clock of today. A clock that was set back may be one that is not set at all."""
        by_ms = self.outgoing_ms(sequence, number) if self._jumps else 0
        return move_times(body, by_ms) if by_ms > 0 else body

    def move_queued(self, head: bytes) -> bytes:
        """The first bytes of a packet in a queue, by the clock of today, if it was sent by the clock before."""
        for jump in self._jumps if receive_by_of(head) else ():
            # Half way between the two clocks, as no two machines agree exactly.
            if jump.by_ms > 0 and sent_at_of(head) < jump.last_ms + jump.by_ms // 2:
                head = move_times(head, jump.by_ms)
        return head


def _read(value: bytes) -> list[_Jump]:
    try:
        return [
            _Jump(operator.index(by_ms), operator.index(last_ms), {int(sequence): int(end) for sequence, end in ends})
            for by_ms, last_ms, ends in json.loads(value)
        ]
    except (ValueError, TypeError, RecursionError) as cause:
        raise StoreDamaged("what the store has of its clock cannot be read") from cause
