"""Logs of a topic: alpha publishes to the topic Games of beta. The topic is a naive model, message by message."""

from dataclasses import dataclass, field
from typing import Any

from tests.tools.replay.builder import MS, PER_PACKET, Record, World, place

KEPT, FAST = "recoverable", "express"
TIMEOUT_NS = 60_000 * MS
GAMES = "Games"


@dataclass
class Reader:
    """A subscription of the model: what waits for it, what it has in hand, and when each was dispatched."""

    name: str
    wants: tuple[str, ...]
    durable: bool
    limit: int
    after: int
    waiting: list[int] = field(default_factory=list)
    hand: list[int] = field(default_factory=list)

    @property
    def pending(self) -> list[int]:
        return sorted(self.waiting + self.hand)


class Topics(World):
    """Two nodes; beta has a topic."""

    def __init__(self, strategy: str = "discard_none", timeout_ns: int = TIMEOUT_NS) -> None:
        super().__init__()
        self.alpha.start()
        self.beta.start()
        self.strategy = strategy
        self.timeout_ns = timeout_ns
        self.readers: dict[str, Reader] = {}
        self.names: dict[int, str] = {}
        self.dispatched_ns: dict[int, int] = {}
        self.kept: set[int] = set()
        self.next = dict.fromkeys(self.next, 1)
        self.place = 1
        self.head = 1
        self.open()
        self.opened()

    def say(self, event: str, **fields: Any) -> Record:
        return self.beta.write(event, topic=GAMES, **fields)

    def say_now(self, event: str, **fields: Any) -> Record:
        """Write a record at the moment of the one before it."""
        before = self.beta.records[-1]
        record = self.say(event, **fields)
        record.update(at_ns=before["at_ns"], wall_ns=before["wall_ns"])
        return record

    def opened(self) -> None:
        timeout_ns = self.timeout_ns
        self.say("topic_opened", strategy=self.strategy, delivery_timeout_ns=timeout_ns, first=self.place)

    # ---- subscriptions

    def subscribe(self, name: str, *, durable: bool = False, limit: int = 3, only: str = "", **more: Any) -> Reader:
        """Begin a subscription to all names, or to one."""
        reader = Reader(name, (only,) if only else (), durable, limit, self.place - 1)
        self.readers[name] = reader
        self.subscribed(reader, **more)
        return reader

    def subscribed(self, reader: Reader, ack_wait_ns: int = 0, **more: Any) -> None:
        pattern = f"{GAMES}.{reader.wants[0]}" if reader.wants else f"{GAMES}.#"
        fields = {"subscription": reader.name, "pattern": pattern, "durable": reader.durable, "after": reader.after}
        self.say("subscribed", **fields, max_unacked=reader.limit, ack_wait_ns=ack_wait_ns, **more)

    def unsubscribe(self, reader: Reader, reason: str = "closed") -> None:
        del self.readers[reader.name]
        self.say("unsubscribed", subscription=reader.name, reason=reason)
        self.dispatch()
        self.free()

    # ---- messages

    def queued(self, cls: str, first: int, last: int, **more: Any) -> Record:
        record = super().queued(cls, first, last, **more)
        record["queue"] = f"topic:{GAMES}"
        return record

    def commit(self, cls: str, numbers: range) -> Record:
        record = super().commit(cls, numbers)
        record["queue"] = f"topic:{GAMES}"
        return record

    def publish(self, packets: int = 1, below: str = "Chess", cls: str = KEPT) -> None:
        """Packets arrive, are dispatched as far as the strategy lets them, and are deleted if nobody wants them."""
        numbers = self.queue(cls, packets)
        arrived = self.send(cls, numbers)
        self.commit(cls, numbers)
        self.placed(cls, numbers, below)
        self.ack(arrived)
        self.dispatch()
        self.free()

    def placed(self, cls: str, numbers: range, below: str, **more: Any) -> None:
        counts = [[len(numbers), PER_PACKET]]
        fields = {**place(cls), "number": numbers[0], "counts": counts, "at_place": self.place, "below": below}
        self.say_now("placed", cls=cls, **fields, **more)
        for _ in range(len(numbers) * PER_PACKET):
            self.names[self.place] = below
            self.kept.add(self.place)
            for reader in self.readers.values():
                if reader.durable and self.gets(reader, self.place):
                    reader.waiting.append(self.place)
            self.place += 1

    def gets(self, reader: Reader, at: int) -> bool:
        return reader.after < at and (not reader.wants or self.names[at] in reader.wants)

    def eligible(self, at: int) -> list[Reader]:
        return [it for it in self.readers.values() if not it.durable and self.gets(it, at)]

    def may_go(self, at: int) -> bool:
        rooms = [len(it.pending) < it.limit for it in self.eligible(at)]
        return not rooms or (all(rooms) if self.strategy == "slowest_sub_rate" else any(rooms))

    def dispatch(self) -> None:
        """The strategy lets go what it may, at one moment."""
        first, now_ns = self.head, self.clock.now_ns + MS
        counts: dict[str, int] = {}
        while self.head < self.place and self.may_go(self.head):
            for reader in self.eligible(self.head):
                reader.waiting.append(self.head)
                counts[reader.name] = counts.get(reader.name, 0) + 1
                self.dispatched_ns[self.head] = now_ns
            self.head += 1
        if self.head > first:
            self.say_dispatched(first, self.head - 1, counts)

    def say_dispatched(self, first: int, last: int, counts: dict[str, int]) -> None:
        self.say("dispatched", first=first, last=last)
        for name, count in counts.items():
            self.say_now("assigned", subscription=name, first=first, last=last, count=count)

    def discard(self) -> None:
        """Readers lose what they have not acknowledged in time."""
        now_ns, say = self.clock.now_ns + MS, self.say
        for reader in [it for it in self.readers.values() if not it.durable]:
            old = [at for at in reader.pending if now_ns - self.dispatched_ns[at] >= self.timeout_ns]
            for first, last in spans(old):
                reader.waiting = [at for at in reader.waiting if not first <= at <= last]
                reader.hand = [at for at in reader.hand if not first <= at <= last]
                fields = {"first": first, "last": last, "age_ns": now_ns - self.dispatched_ns[last]}
                say("discarded", subscription=reader.name, **fields, pending=len(reader.pending))
                say = self.say_now
        self.dispatch()
        self.free()

    def free(self) -> None:
        """Delete what nobody wants, and nobody will get."""
        wanted = {at for reader in self.readers.values() for at in reader.pending}
        gone = sorted(at for at in self.kept if at not in wanted and at < self.head)
        if gone:
            self.kept -= set(gone)
            self.say("content_freed", ranges=spans(gone), reason="all")

    # ---- readers

    def take(self, reader: Reader, count: int, *, redelivered: bool = False) -> list[int]:
        taken = sorted(reader.waiting)[:count]
        reader.waiting = sorted(reader.waiting)[count:]
        reader.hand += taken
        if taken:
            self.say("handed", subscription=reader.name, ranges=spans(taken), redelivered=redelivered)
        return taken

    def settle_all(self, reader: Reader) -> None:
        done, reader.hand = reader.hand, []
        if done:
            self.say("settled", subscription=reader.name, ranges=spans(done))
            self.dispatch()
            self.free()

    def give_back(self, reader: Reader, *, overdue: bool = False) -> None:
        back, reader.hand = reader.hand, []
        self.say("returned", subscription=reader.name, ranges=spans(back), overdue=overdue)
        reader.waiting = sorted(reader.waiting + back)

    def consume(self, reader: Reader, count: int) -> None:
        """The reader takes and acknowledges messages one by one, as long as there are any."""
        for _ in range(count):
            if self.strategy == "discard_allowed":
                self.discard()
            if not self.take(reader, 1):
                return
            self.settle_all(reader)

    def restart(self) -> None:
        self.close("path-lost")
        self.beta.start()
        self.beta.write("position_recovered", **place(KEPT), ranges=[[1, self.next[KEPT] - 1]], cls=KEPT)
        self.opened()
        for at in sorted(self.kept):
            if (at - 1) % PER_PACKET == 0 or at - 1 not in self.kept:
                self.recover(at)
        for reader in list(self.readers.values()):
            if reader.durable:
                self.subscribed(reader, recovered=True)
                reader.waiting, reader.hand = reader.pending, []
            else:
                del self.readers[reader.name]
        self.head = self.place
        self.open()
        self.free()

    def recover(self, at: int) -> None:
        """Beta finds the rest of a packet on its disk."""
        last = at
        while last + 1 in self.kept and last % PER_PACKET:
            last += 1
        fields = {**place(KEPT), "number": (at - 1) // PER_PACKET + 1, "counts": [[1, last - at + 1]]}
        self.say("placed", cls=KEPT, **fields, at_place=at, below=self.names[at], recovered=True)

    def stop(self) -> "Topics":
        """All nodes stop in good order."""
        self.close()
        for log in self.logs:
            log.write("node_stopped")
        return self


def spans(numbers: list[int]) -> list[list[int]]:
    """Numbers, ascending or not, as ranges."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found
