"""Permissions to send to queues in a simulated world: withdrawn, given back, and watched.

When a host forbids a peer a queue, nothing of that peer enters the queue from a second later on, until it is allowed
again: messages are refused meanwhile, and accepted afterwards.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from triack.base.reasons import RejectReason
from triack.base.units import SECOND
from triack.tools.chaos.history import History
from triack.tools.chaos.host import Host
from triack.tools.chaos.plan import Fault, Plan
from triack.tools.replay.log.files import parse_records
from triack.tools.sim.world import World

FORBIDDEN_NS = 1 * SECOND
"""This long after a queue is forbidden, earlier messages are in it, and no more enter: as after a revocation."""


@dataclass(slots=True)
class Spell:
    """A time in which a stream is forbidden; ``end_ns`` is 0 while it lasts."""

    stream: int
    begin_ns: int
    end_ns: int = 0


class Rights:
    """The permissions that all hosts give each other."""

    def __init__(self, plan: Plan, hosts: list[Host], world: World, tell: Callable[[int, int], None]) -> None:
        self.violations: list[tuple[str, str]] = []
        self._plan = plan
        self._hosts = hosts
        self._world = world
        self._tell = tell
        self._spells: list[Spell] = []
        self._sent: list[int] = []

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Receiver and sender of each stream that is forbidden for good."""
        return sorted({(stream.receiver, stream.sender) for stream in self._plan.streams if stream.forbidden})

    def of(self, host: int, other: int) -> tuple[str, ...]:
        """The queues of a host to which another may send now; all when nothing is forbidden."""
        streams = [
            (index, stream)
            for index, stream in enumerate(self._plan.streams)
            if (stream.receiver, stream.sender) == (host, other)
        ]
        allowed = tuple(
            stream.queue for index, stream in streams if not stream.forbidden and self._spell(index) is None
        )
        return ("*",) if len(allowed) == len(streams) else allowed

    def _spell(self, stream: int) -> Spell | None:
        return next((spell for spell in self._spells if spell.stream == stream and not spell.end_ns), None)

    def forbid(self, fault: Fault) -> None:
        """Forbid a stream for a while, unless it is forbidden already."""
        if self._spell(fault.after) is None:
            spell = Spell(fault.after, self._world.now_ns)
            self._spells.append(spell)
            self._tell(fault.host, fault.other)
            self._world.at(fault.for_ns, lambda: self._end(spell))

    def _end(self, spell: Spell) -> None:
        if not spell.end_ns:
            spell.end_ns = self._world.now_ns
            stream = self._plan.streams[spell.stream]
            self._tell(stream.receiver, stream.sender)

    def heal(self, history: History) -> None:
        """Streams that were forbidden for a while are allowed; earlier messages may have been refused."""
        self._sent = [max(seen.fates, default=-1) for seen in history.streams]
        for spell in self._spells:
            self._end(spell)

    def judge(self, history: History, late: set[int]) -> None:
        """Nothing entered a forbidden queue; and the last message was not refused, as it was allowed again."""
        for spell in self._spells:
            if self._plan.streams[spell.stream].receiver not in late:
                self._judge(spell)
        for index in sorted({spell.stream for spell in self._spells}):
            seen = history.streams[index]
            last = max(seen.fates, default=-1)
            if (
                self._sent[index] < last
                and last in seen.refused
                and seen.refusals == {RejectReason.ACCESS_DENIED}
                and not seen.excused
            ):
                self._found(index, f"{last} was refused, and its sender may send there again")

    def _judge(self, spell: Spell) -> None:
        stream = self._plan.streams[spell.stream]
        host, other = self._hosts[stream.receiver], self._hosts[stream.sender]
        origin = next((str(record["node"]) for record in records_of(other)), "")
        for record in records_of(host):
            is_there = record["event"] == "committed" and (record["origin"], record["queue"]) == (origin, stream.queue)
            if is_there and spell.begin_ns + FORBIDDEN_NS < record["at_ns"] < spell.end_ns:
                self._found(spell.stream, f"number {record['first']} came while its sender might not send there")

    def _found(self, stream: int, sentence: str) -> None:
        self.violations.append(("permission", f"stream {stream} ({self._plan.streams[stream].describe()}): {sentence}"))


def records_of(host: Host) -> Iterator[dict[str, Any]]:
    """The session log of a host, of all its processes."""
    for records in host.records:
        yield from parse_records(bytes(records))
