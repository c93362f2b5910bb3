"""The observations of the applications of a simulated world, and whether they agree with the promises.

Written apart from the world and from the product: it knows messages by stream and number, nothing of packets. The rules
are those of section "What is promised" in docs/proof.md:

- queue: a message that is handed out was sent, byte for byte;
- prefix: a transactional stream is handed out in order, without repetition and without a gap among accepted messages;
- total queue: in the end everything accepted was handed out or is a dead letter;
- in time: a message with a time to be received is handed out before it, or is a dead letter;
- refusals: a refused message is a dead letter, for a reason that the plan knows, and never handed out; only an express
  message may have been accepted by an earlier process there, and its dead letter says so;
- poison: a message that kills its reader is handed out as often as it may be tried again, and then a dead letter, and
  no other message becomes one for that;
- unknown outcomes: a batch whose commit never returned is there as a whole or not at all, and never twice;
- journal: a copy in a journal is of a message that was sent and, in the journal of its queue, handed out; there is one
  of each, and where a journal has no limit, there is one of each message that its reader acknowledged or that arrived;
- hand-over: a redelivered message was not durably acknowledged, and is marked; a reader that keeps its position in
  the store gets every message exactly once.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from enum import IntEnum
from hashlib import blake2b
from typing import NamedTuple

from triack.base.reasons import DeadReason, RejectReason

HEAD_BYTES = 14
"""Three digits, a colon, eight digits, a colon and a space: no body is shorter."""


READ = "read"
SENT = "sent"


class Fate(IntEnum):
    """A sender's knowledge of a message."""

    UNKNOWN = 0
    ACCEPTED = 1


class Part(NamedTuple):
    """Messages of one stream: numbers ``first`` up to, but not including, ``end``."""

    stream: int
    first: int
    end: int


@dataclass(slots=True)
class Batch:
    """Messages that were submitted to one commit: all of them, or none."""

    parts: list[Part]
    fate: Fate = Fate.UNKNOWN


@dataclass(slots=True)
class StreamHistory:
    """One stream.

    Attributes:
        expires: whether its messages may become dead letters, as one of their times ended.
        refusals: for which reasons its destination may refuse them.
        suspected: for which reasons they may be dead letters as a relay lies about them; they may have arrived, too.
        relayed: whether relays pass them on, so that receipts say what the next hop has.
        kills: how often each of these did, as far as its machine can know.
        acknowledged: numbers whose acknowledgement is on disk; ``done`` is the greatest.
        returned: numbers that the reader gave back and that were not redelivered yet.
        refused: those of them that were refused, and never reached their queue.
        excused: why not everything has to arrive; empty if it must.
        undone: numbers that were accepted in a state which the sender's machine has lost.
        read_by_ms: by number, when they have to be received, where that is limited.
        is_strict: whether repetition can be judged, which it cannot on a machine that was taken back.
        journals: which journals, ``READ`` or ``SENT``, must have all messages that belong there.
        copied: by kind of journal, the numbers found there.
        knows_kills: whether ``kills`` is complete, which it is not after a loss of power.
    """

    name: str
    ordered: bool
    durable: bool
    expires: bool
    refusals: frozenset[str] = frozenset()
    suspected: frozenset[str] = frozenset()
    forbidden: bool = False
    relayed: bool = False
    poison: frozenset[int] = frozenset()
    kills: Counter[int] = field(default_factory=Counter)
    fates: dict[int, Fate] = field(default_factory=dict)
    handed: dict[int, int] = field(default_factory=dict)
    newest: int = -1
    acknowledged: set[int] = field(default_factory=set)
    done: int = -1
    returned: set[int] = field(default_factory=set)
    buried: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    excused: str = ""
    undone: set[int] = field(default_factory=set)
    hands_back: bool = False
    read_by_ms: dict[int, int] = field(default_factory=dict)
    is_strict: bool = True
    knows_kills: bool = True
    journals: frozenset[str] = frozenset()
    copied: defaultdict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    sizes: dict[int, int] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Whether all that is accepted has to be handed out."""
        return not (self.expires or self.refusals or self.suspected or self.excused or self.hands_back)

    def is_late(self, number: int, at_ms: int) -> bool:
        """Whether a message should have been received before that time, by the reader's wall clock."""
        return 0 < self.read_by_ms.get(number, 0) <= at_ms


class History:
    """All streams of a world."""

    def __init__(self, streams: list[StreamHistory]) -> None:
        self.streams = streams
        self.violations: list[tuple[str, str]] = []
        self._batches: list[Batch] = []
        self._claims: list[tuple[int, int, str]] = []

    def _found(self, rule: str, stream: int, sentence: str) -> None:
        self.violations.append((rule, f"stream {self.streams[stream].name}: {sentence}"))

    # ---- the sender

    def submitted(self, parts: list[Part]) -> Batch:
        """A batch was given to a node; its outcome is unknown."""
        batch = Batch(parts)
        self._batches.append(batch)
        for part in parts:
            self.streams[part.stream].fates.update(dict.fromkeys(range(part.first, part.end), Fate.UNKNOWN))
        return batch

    def sized(self, stream: int, number: int, size_bytes: int) -> None:
        """A message that is submitted has a body of that length."""
        self.streams[stream].sizes[number] = size_bytes

    def limited(self, stream: int, number: int, read_by_ms: int) -> None:
        """A message that is submitted has to be received by that time, by the wall clock."""
        self.streams[stream].read_by_ms[number] = read_by_ms

    def accepted(self, batch: Batch) -> None:
        """The node said that the batch is safe."""
        batch.fate = Fate.ACCEPTED
        for part in batch.parts:
            self.streams[part.stream].fates.update(dict.fromkeys(range(part.first, part.end), Fate.ACCEPTED))

    def claimed(self, stream: int, number: int, stage: str) -> None:
        """A receipt said that a message has reached a stage at its destination."""
        self._claims.append((stream, number, stage))

    # ---- the reader

    def handed(
        self, stream: int, number: int, body: bytes, *, redelivered: bool, reader: int | None, at_ms: int = 0
    ) -> None:
        """A message was handed out."""
        if stream >= len(self.streams) or number not in self.streams[stream].fates:
            self.violations.append(("queue", f"stream {stream}: {number} was handed out but never sent"))
            return
        seen = self.streams[stream]
        if body != body_of(stream, number, seen.sizes.get(number, len(body))):
            self._found("queue", stream, f"{number} was altered on its way")
        if seen.is_late(number, at_ms):
            self._found("in-time", stream, f"{number} was handed out {at_ms - seen.read_by_ms[number]} ms too late")
        if seen.forbidden:
            self._found("permission", stream, f"{number} was handed out, and its sender may not send there")
        if number in seen.acknowledged and seen.durable:
            self._found("hand-over", stream, f"{number} comes again after its acknowledgement was on disk")
        if seen.suspected and number in seen.buried:
            # The relay has kept its packets back until its origin had given it up.
            seen.handed[number] = seen.handed.get(number, 0) + 1
            return
        if seen.ordered and reader is not None:
            self._check_position(stream, number, reader)
        elif number in seen.handed and seen.durable and not redelivered and seen.is_strict:
            self._found("hand-over", stream, f"{number} comes again without a word")
        # A message that was given back and has expired meanwhile is not redelivered.
        seen.returned = {other for other in seen.returned if not seen.is_late(other, at_ms)}
        if seen.ordered and seen.returned and number > min(seen.returned):
            self._found("hand-over", stream, f"{number} comes before {min(seen.returned)}, which was given back")
        seen.returned.discard(number)
        if seen.ordered and number > seen.newest:
            self._check_gap(stream, number)
        elif seen.ordered and number not in seen.handed and seen.is_strict:
            self._found("prefix", stream, f"{number} comes after {seen.newest}")
        seen.handed[number] = seen.handed.get(number, 0) + 1
        seen.newest = max(seen.newest, number)

    def _check_position(self, stream: int, number: int, position: int) -> None:
        seen = self.streams[stream]
        if number <= position:
            self._found("exactly-once", stream, f"{number} comes again though the store says that {position} is done")
        if position < seen.done:
            self._found("exactly-once", stream, f"the store has forgotten that {seen.done} is done; it says {position}")

    def _check_gap(self, stream: int, number: int) -> None:
        seen = self.streams[stream]
        if not seen.is_whole or not seen.is_strict:
            return
        for skipped in range(seen.newest + 1, number):
            if seen.fates.get(skipped) is Fate.ACCEPTED and skipped not in seen.undone:
                self._found("prefix", stream, f"{number} comes before {skipped}, which was accepted")

    def killed(self, stream: int, number: int, further_tries: int) -> None:
        """A message has ended the process that handled it. Its machine tries it again this often."""
        seen = self.streams[stream]
        seen.kills[number] += 1
        if seen.kills[number] > further_tries + 1:
            self._found("poison", stream, f"{number} has killed {seen.kills[number]} times, and is handed out still")

    def lost_power(self, stream: int) -> None:
        """The machine that reads a stream was without power: its notes of leases are gone."""
        seen = self.streams[stream]
        seen.kills.clear()
        seen.knows_kills = False

    def gave_back(self, stream: int, number: int) -> None:
        """The reader could not use a message: it is redelivered, before anything younger."""
        self.streams[stream].returned.add(number)

    def acknowledged(self, stream: int, numbers: list[int]) -> None:
        """A reader's acknowledgements are on disk."""
        seen = self.streams[stream]
        seen.acknowledged.update(numbers)
        seen.done = max(seen.done, *numbers)

    def buried(self, stream: int, number: int, body: bytes, reason: str = "", *, maybe_delivered: bool = True) -> None:
        """A message was found in the dead-letter queue of its sender, or of its reader."""
        if stream >= len(self.streams) or number not in self.streams[stream].fates:
            self.violations.append(("queue", f"stream {stream}: {number} is a dead letter but was never sent"))
            return
        seen = self.streams[stream]
        if not self._is_copy(stream, number, body):
            self._found("queue", stream, f"{number} was altered on its way to the dead letters")
        if reason in seen.suspected:
            if not maybe_delivered:
                self._found("refusals", stream, f"{number} was refused ({reason}), and a relay may have said so")
        elif reason in seen.refusals:
            if not maybe_delivered:
                seen.refused.add(number)
            elif seen.durable:
                self._found("refusals", stream, f"{number} was refused ({reason}), and called perhaps delivered")
        elif seen.hands_back and reason == DeadReason.SESSION_LOST:
            if not maybe_delivered:
                self._found("total-queue", stream, f"{number} was lost with a session, and called not delivered")
        elif number in seen.poison and reason == DeadReason.READER_DIED:
            if seen.knows_kills and not seen.kills[number]:
                self._found("poison", stream, f"{number} is said to have killed, and was never handed out")
        elif not (
            seen.excused or self._may_expire(seen, number, reason) or (maybe_delivered and _may_be_late(seen, reason))
        ):
            self._found("total-queue", stream, f"{number} became a dead letter without a reason, as {reason}")
        seen.buried.add(number)

    def _is_copy(self, stream: int, number: int, body: bytes) -> bool:
        """Whether these are the bytes of a message; of a large one, those that identify it."""
        size_bytes = self.streams[stream].sizes.get(number, len(body))
        return body in (body_of(stream, number, size_bytes), body_of(stream, number, 0))

    def copied(self, stream: int, number: int, body: bytes, kind: str, *, redelivered: bool) -> None:
        """A message was found in a journal."""
        if stream >= len(self.streams) or number not in self.streams[stream].fates:
            self.violations.append(("journal", f"stream {stream}: {number} is in a journal but was never sent"))
            return
        seen = self.streams[stream]
        if not self._is_copy(stream, number, body):
            self._found("journal", stream, f"{number} was altered on its way to a journal")
        if kind == READ and number not in seen.handed:
            self._found("journal", stream, f"{number} is in the journal of its queue and was never handed out")
        if number in seen.copied[kind] and not redelivered and seen.durable:
            self._found("journal", stream, f"{number} is in a journal of messages that were {kind} twice")
        seen.copied[kind].add(number)

    def _check_journals(self, index: int, seen: StreamHistory) -> None:
        if not seen.durable or seen.excused or not seen.is_strict:
            return
        wanted = {
            READ: seen.acknowledged,
            SENT: {
                number
                for number, fate in seen.fates.items()
                if fate is Fate.ACCEPTED and number not in seen.buried | seen.undone
            }
            if seen.is_whole
            else set(),
        }
        for kind in sorted(seen.journals):
            if missing := sorted(wanted[kind] - seen.copied[kind]):
                sentence = f"{len(missing)} messages that were {kind} are in no journal, the first is {missing[0]}"
                self._found("journal", index, sentence)

    @staticmethod
    def _may_expire(seen: StreamHistory, number: int, reason: str) -> bool:
        return (seen.expires and reason == DeadReason.REACH_QUEUE_TIMEOUT) or (
            number in seen.read_by_ms and reason == DeadReason.RECEIVE_TIMEOUT
        )

    def handed_out(self, stream: int) -> dict[int, int]:
        """The numbers handed out so far, for ``take_back_reader``."""
        return dict(self.streams[stream].handed)

    def accepted_up_to(self, stream: int) -> int:
        """The number after the last that was accepted, for ``take_back_sender``."""
        fates = self.streams[stream].fates
        return max((number for number, fate in fates.items() if fate is Fate.ACCEPTED), default=-1) + 1

    def take_back_reader(self, stream: int, handed: dict[int, int] | None) -> None:
        """The reader's machine was restored to an older state: everything since then is open again."""
        seen = self.streams[stream]
        seen.acknowledged.clear()
        seen.done = -1
        seen.is_strict = False
        if handed is not None:
            seen.handed = dict(handed)
            seen.newest = max(handed, default=-1)

    def take_back_sender(self, stream: int, first: int) -> None:
        """The sender's machine was restored: messages that it accepted since and had not sent are unknown."""
        seen = self.streams[stream]
        seen.undone.update(number for number in seen.fates if number >= first)

    def doubt_last(self, stream: int) -> None:
        """The sender's disk rots: damage to the last commit looks the same as a crash in it."""
        for batch in reversed(self._batches):
            parts = [part for part in batch.parts if part.stream == stream]
            if parts and batch.fate is Fate.ACCEPTED:
                self.streams[stream].undone.update(range(parts[0].first, parts[0].end))
                return

    # ---- the end

    def missing(self, stream: int) -> list[int]:
        """Numbers that were accepted and are nowhere."""
        seen = self.streams[stream]
        return [
            number
            for number, fate in seen.fates.items()
            if fate is Fate.ACCEPTED
            and number not in seen.handed
            and number not in seen.buried
            and number not in seen.undone
        ]

    def finish(self) -> None:
        """All faults have ended and everything had time to arrive: a missing message is lost."""
        for index, seen in enumerate(self.streams):
            missing = self.missing(index) if seen.durable and not seen.excused else []
            if missing:
                self._found("total-queue", index, f"lost {len(missing)} accepted messages, the first is {missing[0]}")
            self._check_journals(index, seen)
            for number in sorted(seen.refused & seen.handed.keys()):
                self._found("refusals", index, f"{number} was refused, and handed out as well")
        for batch in self._batches:
            self._check_whole(batch)
        for stream, number, stage in self._claims:
            seen = self.streams[stream]
            if seen.durable and not seen.excused and number not in seen.handed and number not in seen.buried:
                self._found("claims", stream, f"a receipt said that {number} is {stage}, and it never arrived")
            if (number in seen.refused or seen.forbidden) and not (seen.relayed and not seen.ordered):
                self._found("claims", stream, f"a receipt said that {number} is {stage}, and it was refused")

    def _check_whole(self, batch: Batch) -> None:
        """A batch of unknown outcome, all of which has to be handed out, is there as a whole or not at all."""
        parts = [part for part in batch.parts if self._is_strict(part)]
        there = [number in self.streams[part.stream].handed for part in parts for number in range(part.first, part.end)]
        if any(there) and not all(there):
            self._found("unknown-outcome", parts[0].stream, f"only a part of a batch from {parts[0].first} arrived")

    def _is_strict(self, part: Part) -> bool:
        seen = self.streams[part.stream]
        undone = any(number in seen.undone for number in range(part.first, part.end))
        return seen.durable and seen.is_whole and not undone


def body_of(stream: int, number: int, size_bytes: int) -> bytes:
    """The body of a message at a size; its first bytes identify it."""
    head = b"%03d:%08d: " % (stream, number)
    filler = blake2b(head, digest_size=32).digest()
    return (head + filler * (size_bytes // 32 + 1))[: max(size_bytes, HEAD_BYTES)]


def identify(body: bytes) -> tuple[int, int]:
    """The stream and number in a body; (-1, -1) when it has none."""
    try:
        stream, number, _ = body[:HEAD_BYTES].split(b":")
        return int(stream), int(number)
    except ValueError:
        return -1, -1


def _may_be_late(seen: StreamHistory, reason: str) -> bool:
    """Whether a relay that was away may have found a stream ended. Its origin had a copy, and that may have arrived."""
    return seen.relayed and not seen.ordered and reason == RejectReason.STALE_SEQUENCE
