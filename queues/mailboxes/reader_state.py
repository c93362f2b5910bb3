"""State of one reader of a queue: which messages are handed out, acknowledged, failed, waiting.

Each message of a queue has a *place*: places count up from 1 in the order of the queue, and no place is used twice. So
the state is a few ranges of numbers, however many messages there are. A queue has one such state, which all of its
consumers share.

    AHEAD --handed out--> OUT --acknowledged--> DONE
                          OUT --given back--> RETURNED --handed out--> OUT

A queue is read level by level (``priority_queue``), so the state says how far each was read. A message is AHEAD when
its place is its level's ``next`` or later, and it is not DONE. An AHEAD or RETURNED message also becomes DONE when it
is purged, and when it has expired.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable
from functools import partial

from triack.base.ranges import NumberSet
from triack.queues.mailboxes.lookup import Lookup
from triack.queues.mailboxes.progress import Progress, Setbacks
from triack.queues.mailboxes.queued_packet import QueuedPacket, bits_of, indices_of
from triack.queues.mailboxes.returned import Returned
from triack.queues.mailboxes.run import NO_FAILURES, Run


class ReaderLine:
    """What one reader did with one level of a queue.

    Attributes:
        next: the place after the last message that was handed out; while a run is open, the place where it began.
        apart: places from ``next`` on of messages that had to wait, or whose reader died, before a restart; ascending.
    """

    __slots__ = ("apart", "next", "returned")

    def __init__(self, setbacks: Setbacks) -> None:
        self.next = 1
        self.returned = Returned(setbacks)
        self.apart: list[int] = []


class ReaderState:
    """The state of one reader.

    Attributes:
        lines: what it did with each level, by priority; each is made at its first use.
        begun: partly acknowledged packets, by their first places: bit i is set when message i is acknowledged.
        chosen: messages that were handed out before their turn and are not done, as bits by first places of packets.
        excluded: messages of a journaled queue that are done without a reader's acknowledgement, as bits by first
            places.
        lookup: the index of ids and correlation ids; None until an application asks for a message by one.
        told: the places of large messages whose senders know that they are stored.
    """

    __slots__ = ("_last_done", "begun", "chosen", "done", "excluded", "lines", "lookup", "setbacks", "told")

    def __init__(self) -> None:
        self.done = NumberSet()
        self._last_done = 0  # the last of them
        self.setbacks = Setbacks()
        self.lines = defaultdict[int, ReaderLine](partial(ReaderLine, self.setbacks))
        self.begun: dict[int, int] = {}
        self.chosen: dict[int, int] = {}
        self.told: set[int] = set()
        self.excluded: dict[int, int] = {}
        self.lookup: Lookup | None = None

    def returned_to(self, packet: QueuedPacket) -> Returned:
        """The messages that came back to the level of a packet."""
        return self.lines[packet.priority].returned

    @property
    def returned(self) -> list[tuple[int, QueuedPacket]]:
        """Place and packet of each message that came back, in no order."""
        return [message for line in self.lines.values() for message in line.returned.messages]

    def keep_returned(self, keeps: Callable[[QueuedPacket, int], bool]) -> None:
        """Keep only returned messages for which ``keeps`` is true, given packet and place."""
        for line in self.lines.values():
            line.returned.keep(keeps)

    def resume_ms(self, now_ms: int) -> int | None:
        """When the next wait ends, or None."""
        ends = (line.returned.resume_ms(now_ms) for line in self.lines.values())
        return min((end_ms for end_ms in ends if end_ms is not None), default=None)

    def begin(self, done: NumberSet) -> None:
        """Begin behind messages that are done."""
        self.done = done
        self.lines[0].next = done.cumulative + 1
        self._last_done = done.highest

    def restore(self, packet: QueuedPacket, progress: Progress) -> None:
        """Restore what an earlier process did with a packet, which has its place already."""
        first_place, its = packet.first_place, progress.setbacks
        self.acknowledge(packet, progress.acked & bits_of(range(packet.count)))
        if progress.excluded:
            self.excluded[first_place] = progress.excluded
        if not self.is_done(packet):
            self.setbacks.add_part(first_place, its)
            if progress.told:
                self.told.add(first_place)
            apart = sorted(its.waits.keys() | its.deaths.keys())
            self.lines[packet.priority].apart += [first_place + index for index in apart if index < packet.count]

    @property
    def is_plain(self) -> bool:
        """Whether no message has failed, has to wait, or was chosen."""
        setbacks = self.setbacks
        return not (setbacks.failures or setbacks.waits or setbacks.deaths or self.chosen)

    def next_place(self, line: ReaderLine) -> int:
        """From this place on nothing of a level was handed out or done, if no message was chosen."""
        return max(line.next, self._last_done + 1)

    def progress_of(self, packet: QueuedPacket) -> Progress:
        """The progress of a partly done packet, which must survive a restart."""
        told, excluded = packet.first_place in self.told, self.excluded.get(packet.first_place, 0)
        return Progress(self.acked(packet), self.setbacks.part(packet.places), told=told, excluded=excluded)

    # ---- handing out

    def next_waiting(self, packet: QueuedPacket) -> tuple[int, int]:
        """The next waiting neighbours in a packet: the index of the first, and the index after the last.

        This process has not handed them out. A message that had to wait before a restart, or whose reader died, is
        handed out alone.
        """
        place, count, line = packet.first_place, packet.count, self.lines[packet.priority]
        apart = line.apart
        first = line.next - place if line.next > place else 0
        acked = self.begun.get(place, 0)
        if self.chosen:
            acked |= self.chosen.get(place, 0)
        if not acked:
            if place <= self._last_done and place in self.done:
                return count, count  # the last messages were acknowledged before their turn
            if not apart:
                return first, count
        rest = acked >> first
        while rest & 1:
            first, rest = first + 1, rest >> 1
        end = first + (rest & -rest).bit_length() - 1 if rest else count
        del apart[: bisect_left(apart, place + first)]
        if apart[:1] == [place + first]:
            end = min(end, first + 1)
        elif apart:
            end = min(end, apart[0] - place)
        return first, end

    def run_of(self, packet: QueuedPacket, first: int, end: int, *, redelivered: bool, apart: bool = False) -> Run:
        """A run of neighbouring messages in a packet, which says how often each has failed."""
        failures, place = self.setbacks.failures, packet.first_place
        if failures:
            failures = {index: failures[place + index] for index in range(first, end) if place + index in failures}
        run = Run(packet, first, end, self.setbacks, failures or NO_FAILURES, redelivered=redelivered, apart=apart)
        if self.chosen:
            run.chosen = bool(self.chosen.get(place, 0) >> first & 1)
        return run

    def returned_run(self, line: ReaderLine, now_ms: int) -> Run | None:
        """The first message that came back to a level; None while it, and everything younger, waits."""
        if (found := line.returned.pop(now_ms)) is None:
            return None
        packet, index = found
        return self.run_of(packet, index, index + 1, redelivered=True, apart=True)

    def ahead(self, packet: QueuedPacket) -> list[int]:
        """The indices of a packet's messages that were never handed out, and are not done."""
        first = max(self.lines[packet.priority].next - packet.first_place, 0)
        gone = self.acked(packet) | self.chosen.get(packet.first_place, 0)
        return indices_of(bits_of(range(first, packet.count)) & ~gone)

    def choose(self, packet: QueuedPacket, index: int) -> bool:
        """Hand out a message before its turn. Returns whether it was AHEAD."""
        place, bit = packet.first_place, 1 << index
        if place + index < self.lines[packet.priority].next or (self.acked(packet) | self.chosen.get(place, 0)) & bit:
            return False
        self.chosen[place] = self.chosen.get(place, 0) | bit
        return True

    # ---- done

    def acknowledge(self, packet: QueuedPacket, bits: int) -> int:
        """Messages of a packet are done, message i if bit i is set. Returns those that were not done before."""
        place, begun = packet.first_place, self.begun
        before = begun.get(place, 0)
        if not before and place <= self._last_done and place in self.done:
            return 0
        acked = before | bits
        if self.chosen and place in self.chosen:
            left = self.chosen[place] & ~acked
            if left:
                self.chosen[place] = left
            else:
                del self.chosen[place]
        if acked + 1 == 1 << packet.count:
            if before:
                del begun[place]
            if self.told:
                self.told.discard(place)
            last = place + packet.count - 1
            self.done.add_run(place, last)
            self._last_done = last if last > self._last_done else self._last_done
        elif acked:
            begun[place] = acked
        return acked ^ before

    def is_done(self, packet: QueuedPacket) -> bool:
        """Whether every message of a packet is acknowledged."""
        return packet.first_place in self.done

    def acked(self, packet: QueuedPacket) -> int:
        """Which messages of a packet are acknowledged: bit i is set when message i is."""
        return bits_of(range(packet.count)) if self.is_done(packet) else self.begun.get(packet.first_place, 0)
