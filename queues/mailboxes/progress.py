"""Progress of the messages of one packet, as the disk keeps it across restarts."""

import json
from dataclasses import dataclass, field

from triack.base.errors import StoreDamaged
from triack.queues.mailboxes.redelivery import Wait


@dataclass(slots=True)
class Setbacks:
    """Messages that were given back, or whose reader died, by a number that the owner chooses.

    ``failures`` include ``deaths``. ``waits`` has a message's current or last wait.
    """

    failures: dict[int, int] = field(default_factory=dict)
    deaths: dict[int, int] = field(default_factory=dict)
    waits: dict[int, Wait] = field(default_factory=dict)

    def count_failure(self, number: int) -> int:
        """A message was given back as failed. Returns its number of failures."""
        failures = self.failures[number] = self.failures.get(number, 0) + 1
        return failures

    def count_death(self, number: int) -> int:
        """The reader of a message died, which is a failure as well. Returns the message's number of failures."""
        self.deaths[number] = self.deaths.get(number, 0) + 1
        return self.count_failure(number)

    def wait_of(self, number: int, now_ms: int) -> Wait | None:
        """The current wait of a message, or None."""
        wait = self.waits.get(number)
        return wait if wait is not None and wait.until_ms > now_ms else None

    def part(self, numbers: range) -> "Setbacks":
        """The setbacks of some neighbouring messages, each numbered by its index among them."""
        found = Setbacks()
        if not (self.failures or self.waits):
            return found
        for index, number in enumerate(numbers):
            if number in self.failures:
                found.failures[index] = self.failures[number]
            if number in self.deaths:
                found.deaths[index] = self.deaths[number]
            if number in self.waits:
                found.waits[index] = self.waits[number]
        return found

    def add_part(self, first: int, part: "Setbacks") -> None:
        """Add what ``part`` returned for neighbouring messages; the first has this number."""
        self.failures.update({first + index: times for index, times in part.failures.items()})
        self.deaths.update({first + index: times for index, times in part.deaths.items()})
        self.waits.update({first + index: wait for index, wait in part.waits.items()})

    def forget(self, numbers: range) -> None:
        """Forget neighbouring messages that are done."""
        for number in numbers:
            self.failures.pop(number, None)
            self.deaths.pop(number, None)
            self.waits.pop(number, None)


@dataclass(slots=True)
class Progress:
    """What the store keeps of a partly done packet. Its messages are numbered by their index in it.

    Attributes:
        acked: bit i is set when message i is done.
        excluded: bit i is set when message i is done without a reader's acknowledgement: a journal has no copy of it.
        told: whether the sender of a large message, which asks for it, knows that it is stored.
        left: bit i is set when message i is done only by the notes of a process that died: no commit holds that yet.
    """

    acked: int = 0
    setbacks: Setbacks = field(default_factory=Setbacks)
    told: bool = False
    excluded: int = 0
    left: int = 0

    def encode(self) -> bytes:
        """The bytes for the disk."""
        its = self.setbacks
        more: list[object] = [int(self.told), hex(self.excluded)] if self.excluded else [1] if self.told else []
        return json.dumps([hex(self.acked), its.failures, its.deaths, its.waits, *more]).encode()

    @classmethod
    def decode(cls, progress: bytes, number: int, now_ms: int, moved_ms: int = 0) -> "Progress":
        """Read what ``encode`` wrote in an earlier process. Raises StoreDamaged, with the packet's ``number``.

        ``now_ms`` is the wall clock; ``moved_ms``: by how much it was set since then.
        """
        try:
            acked, failures, deaths, waits, *more = json.loads(progress)
            told = bool(more and more[0])
            excluded = str(more[1]) if len(more) > 1 else "0x0"
            setbacks = Setbacks(
                {int(index): times for index, times in failures.items()},
                {int(index): times for index, times in deaths.items()},
                {int(index): Wait(*wait).after_restart(now_ms, moved_ms) for index, wait in waits.items()},
            )
            return cls(int(acked, 16), setbacks, told=told, excluded=int(excluded, 16))
        except (ValueError, TypeError, AttributeError, RecursionError) as cause:
            raise StoreDamaged(f"progress of packet {number} cannot be read") from cause
