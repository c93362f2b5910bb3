"""Corrects stored deadlines if the wall clock was set since an earlier start.

Promise: an outgoing packet lives as long as its sender said, by elapsed time, however the clock was set between two
starts. Its times for the receiver are moved forward with the clock. If the clock was set forward, a packet in a queue
that was sent by the clock before does not expire early. If it was set back, a packet in a queue may expire late.

A jump is stored with the first commit after it; the rows themselves stay as they are.

If a sender's clock is not set, a message of it lives at its receiver from its arrival on: its times can only be
compared with each other. A receiver that restarts counts anew.

The same holds for reported ages of messages. No age is below 0, or counts from a clock that was not set.
"""

import json
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from triack.base.checks import LONGEST_LIFE_S
from triack.base.clock import UNSET_BEFORE_MS, ClockJump
from triack.base.commit import OWN_STATE, Commit, OutgoingStreamRow
from triack.base.errors import StoreDamaged
from triack.queues.body_head import move_times, receive_by_of, sent_at_of

JUMPS_MAX = 16
"""Jumps remembered: a machine without a battery has one with each start, and few messages outlive this number."""
_STATE = f"{OWN_STATE}clock"


def late_by_ms(sent_at_ms: int, receive_by_ms: int, now_ms: int) -> int:
    """By how much a sender's unset clock is behind, while this node's is set; 0 when it may be right.

    It is 0, too, for times that no correct node writes, as none lets a message live for more than a century.
    ``receive_by_ms`` is 0 if it lives for any time.
    """
    is_life = not receive_by_ms or 0 < receive_by_ms - sent_at_ms <= LONGEST_LIFE_S * 1_000
    return now_ms - sent_at_ms if is_life and sent_at_ms < UNSET_BEFORE_MS <= now_ms else 0


def head_here(head: bytes, now_ms: int) -> bytes:
    """The first bytes of a packet, with its times by this node's clock."""
    by_ms = late_by_ms(sent_at_of(head), receive_by_of(head), now_ms)
    return move_times(head, by_ms) if by_ms else head


@dataclass(slots=True)
class _Jump:
    """One jump; ``ends`` has the next number of each stream, by its sequence, when the jump was found."""

    by_ms: int
    last_ms: int
    ends: dict[int, int]


class ClockJumps:
    """How the clock of one node was set between its starts."""

    def __init__(self, jump: ClockJump | None = None) -> None:
        self._jumps: list[_Jump] = []
        self.by_ms = 0 if jump is None else jump.by_ms
        if jump is not None:
            self._jumps.append(_Jump(*jump, {}))

    def restore(self, state: Mapping[str, bytes], streams: Iterable[OutgoingStreamRow], commit: Commit) -> None:
        """Restore the jumps from the store, and store a new one with the next commit. Raises StoreDamaged."""
        found = _read(state.get(_STATE, b"[]"))
        if not self._jumps:
            self._jumps = found
            return
        self._jumps[0].ends = {row.sequence: row.next_number for row in streams}
        self._jumps = [*found, *self._jumps][-JUMPS_MAX:]
        value = [[jump.by_ms, jump.last_ms, list(jump.ends.items())] for jump in self._jumps]
        commit.state[_STATE] = json.dumps(value).encode()

    @property
    def any(self) -> bool:
        """Whether it was set, as far as is known."""
        return bool(self._jumps)

    def outgoing_ms(self, sequence: int, number: int) -> int:
        """By how much the clock was moved since a packet of an earlier start was made."""
        return sum([jump.by_ms for jump in self._jumps if number < jump.ends.get(sequence, 0)])

    def move_outgoing(self, sequence: int, number: int, body: bytes) -> bytes:
        """The body of a packet by today's clock, if that was set forward: one set back may be an unset clock."""
        by_ms = self.outgoing_ms(sequence, number) if self.any else 0
        return move_times(body, by_ms) if by_ms > 0 else body

    def move_queued(self, head: bytes) -> bytes:
        """The first bytes of a packet in a queue, by today's clock, if it was sent by the clock before."""
        by_ms = self._moved_ms(sent_at_of(head)) if self.any else 0
        return move_times(head, by_ms) if by_ms else head

    def date_queued(self, sent_at_ms: int, now_ms: int) -> int:
        """When a message in a queue, which may be received at any time, was sent, by today's clock."""
        sent_at_ms += self._moved_ms(sent_at_ms)
        return sent_at_ms + late_by_ms(sent_at_ms, 0, now_ms)

    def _moved_ms(self, sent_at_ms: int) -> int:
        """By how much the clock was set forward since it showed that time, as a sender's clock did.

        A clock that is set back may have been wrong before: only earlier moves forward are taken back.
        """
        moved_ms = 0
        for jump in self._jumps:
            # Half way between the two clocks, as no two machines agree exactly.
            if jump.by_ms < 0 or sent_at_ms + moved_ms < jump.last_ms + jump.by_ms // 2:
                moved_ms = max(0, moved_ms + jump.by_ms)
        return moved_ms

    def own_sent_ms(self, sequence: int, number: int, head: bytes, now_ms: int) -> int:
        """When a packet of an earlier start of this node was made, by today's clock; now if that is not known."""
        return _past_ms(head, self.outgoing_ms(sequence, number), now_ms)

    def age_ms(self, head: bytes, now_ms: int) -> int:
        """How long ago a packet of another node was sent, by its first bytes; 0 if the clocks cannot tell."""
        return now_ms - _past_ms(head, self._moved_ms(sent_at_of(head)) if self.any else 0, now_ms)


def _past_ms(head: bytes, by_ms: int, now_ms: int) -> int:
    """When a packet was sent, by a clock that was moved since then; now if that clock was not set, or is ahead."""
    at_ms = sent_at_of(head) + by_ms
    return now_ms if at_ms > now_ms or at_ms < UNSET_BEFORE_MS <= now_ms else at_ms


def _read(value: bytes) -> list[_Jump]:
    try:
        return [
            _Jump(operator.index(by_ms), operator.index(last_ms), {int(sequence): int(end) for sequence, end in ends})
            for by_ms, last_ms, ends in json.loads(value)
        ]
    except (ValueError, TypeError, RecursionError) as cause:
        raise StoreDamaged("what the store has of its clock cannot be read") from cause
