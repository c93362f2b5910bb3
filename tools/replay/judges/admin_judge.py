"""What administration messages promise: a sender hears what it asked for, once, and nothing that did not happen.

Each node's records are kept by themselves, ``Asking`` of what the origin's applications asked for and of what any node
told them. What only both show together is judged at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar, Final

from triack.tools.replay.causes.table import ARRIVED_CLASS as ARRIVED
from triack.tools.replay.causes.table import ON_THE_WAY
from triack.tools.replay.causes.table import RECEIVED_CLASS as RECEIVED
from triack.tools.replay.checks.findings import LaneReporter, Output, Record, given, of_origin, settled
from triack.tools.replay.checks.incoming_check import Incoming, Receiver
from triack.tools.replay.checks.side import by_event
from triack.tools.replay.log.messages import part
from triack.tools.replay.log.ranges import RangeSet
from triack.tools.replay.log.schema import EXPRESS

POSITIVE_ARRIVAL: Final = 1
POSITIVE_RECEIVE: Final = 2
NEGATIVE_ARRIVAL: Final = 4
NEGATIVE_RECEIVE: Final = 8
"""The flags of ``triack.Acks``."""
ENDED_AT_QUEUE: Final = 0xC000
"""The first of the message classes that say that a message ended in its queue."""
CLASSES: Final = ON_THE_WAY | {ARRIVED, RECEIVED, *range(ENDED_AT_QUEUE, 0xC005)}
"""All of [MS-MQMQ] 2.2.18.1.6 that say what happened to a message."""

Packet = tuple[int, int]
"""A sequence, and a number in it."""
Asked = Mapping[Packet, list[tuple[int, int, int, int]]]
"""What the origin's applications want to know, by packet: the start, place, messages and flags."""


def flag_of(message_class: int) -> int:
    """The flag that asks for a message class."""
    if message_class in (ARRIVED, RECEIVED):
        return POSITIVE_ARRIVAL if message_class == ARRIVED else POSITIVE_RECEIVE
    return NEGATIVE_RECEIVE if message_class >= ENDED_AT_QUEUE else NEGATIVE_ARRIVAL


class Asking(LaneReporter):
    """What one node says about administration messages of one stream.

    Attributes:
        asked: at the origin: see ``Asked``.
        told: what the node told them, by packet and message class: which messages, and the record of the last.
        now: the same messages, of those that were told of in this start; and which start that is.
    """

    def __init__(self, node: str, origin: str, stream: int, out: Output) -> None:
        super().__init__(origin, stream, out)
        self.node = node
        self.asked: dict[Packet, list[tuple[int, int, int, int]]] = {}
        self.told: dict[tuple[int, int, int], tuple[RangeSet, Record]] = {}
        self.now: tuple[int, dict[tuple[int, int, int], RangeSet]] = 0, {}

    def _on_admin_ack_asked(self, record: Record) -> None:
        """Messages of a packet that is about to be queued ask for administration messages."""
        if record["node"] != self._origin:
            self._at(record, "claims", "asked for another node's messages", number=record["number"])
            return
        row = record["incarnation"], record["place"], record["count"], record["acks"]
        rows = self.asked.setdefault((record["sequence"], record["number"]), [])
        # The commit of an earlier start did not happen if the number is used again.
        rows[:] = [it for it in rows if it[0] == row[0]]
        if any(it[1] < row[1] + row[2] and row[1] < it[1] + it[2] for it in rows):
            evidence = "asked twice to be told of the same messages"
            self._at(record, "claims", evidence, number=record["number"])
        rows.append(row)

    def _on_queued(self, record: Record) -> None:
        """Packets were queued: what an earlier start was about to put into them never left it."""
        if record.get("recovered"):
            return
        for number in range(record["first"], record["last"] + 1) if self.asked else ():
            rows = self.asked.get((record["sequence"], number))
            if rows is not None:
                rows[:] = [it for it in rows if it[0] == record["incarnation"]]

    def _on_transit_committed(self, record: Record) -> None:
        """The node, a relay, has taken packets: of this copy it may tell what it told of one that came before."""
        sequence, first, last = record["sequence"], record["first"], record["last"]
        for key in [key for key in self.now[1] if key[0] == sequence and first <= key[1] <= last]:
            del self.now[1][key]

    def handle_told(self, record: Record, receiver: Receiver) -> None:
        """The node tells the origin what happened to messages of a packet."""
        sequence, number, message_class = record["sequence"], record["number"], record["message_class"]
        first, last = record["place"], record["place"] + record["count"] - 1
        if message_class not in CLASSES or record["count"] < 1:
            evidence = f"told class {message_class:#06x} of {record['count']} messages"
            self._at(record, "claims", evidence, number=number)
            return
        key = sequence, number, message_class
        if self.now[0] != record["incarnation"]:
            self.now = record["incarnation"], {}
        before, _ = self.told.get(key, (RangeSet(), record))
        again, now = list(before.overlap(first, last)), self.now[1].setdefault(key, RangeSet())
        # Answers about express messages are in memory, as these are: the next copy gets answers, too.
        lasts = record["class"] != EXPRESS
        if now.overlap(first, last) or (lasts and again and _is_sure(receiver, number, again, message_class)):
            evidence = f"told {message_class:#06x} of message {again[0][0]} of a packet again"
            self._at(record, "admin_ack_twice", evidence, number=number)
        before.add(first, last)
        now.add(first, last)
        self.told[key] = before, {name: record[name] for name in ("node", "incarnation", "n", "wall_ns", "class")}

    # ---- the whole stream

    def judge_told(self, asked: Asked) -> None:
        """Find answers for which no message asked."""
        for (sequence, number, message_class), (places, record) in self.told.items():
            flag, wanted = flag_of(message_class), RangeSet()
            for _, place, count, acks in asked.get((sequence, number), ()):
                if acks & flag:
                    wanted.add(place, place + count - 1)
            if any(wanted.missing(*span) for span in places):
                evidence = f"told {message_class:#06x}, for which no message of the packet asked"
                dues = of_origin(self._origin, record)
                self._at(record, "admin_ack_made_up", evidence, *dues, sequence=sequence, number=number)

    def judge_untold(
        self, incoming: Incoming, asked: Asked, record: Record, given_up: Callable[[int], RangeSet]
    ) -> None:
        """Find what the node did with messages and did not tell of."""
        for (sequence, number), rows in asked.items():
            receiver = incoming.sequences.get(sequence)
            if receiver is None or not _is_here(self.node == self._origin, receiver, number):
                continue
            if number in given_up(sequence) and number not in receiver.out.any:
                continue  # no reader got it: a commit may have passed over it
            for _, place, count, acks in rows:
                for message in range(place, place + count):
                    for evidence in self._untold(receiver, (sequence, number, message), acks):
                        dues = given(self.node), settled(self.node)
                        self._at(record, "admin_ack_missing", evidence, *dues, sequence=sequence, number=number)

    def _untold(self, receiver: Receiver, message: tuple[int, int, int], acks: int) -> Iterator[str]:
        sequence, number, place = message

        def is_told(message_class: int) -> bool:
            places = self.told.get((sequence, number, message_class))
            return places is not None and bool(places[0].overlap(place, place))

        # Of a large message, the commit after that of its last packet tells: it may not have come to that. A packet
        # before this one that is not here may be a piece of it, too.
        is_large = number > 1 and not receiver.counts.get(number - 1)
        if acks & POSITIVE_ARRIVAL and not is_large and not is_told(ARRIVED):
            yield f"message {place} of the packet is in its queue, which its sender asked for"
        both = POSITIVE_RECEIVE | NEGATIVE_RECEIVE
        here = part(number, place, place, None)
        # What was moved elsewhere is no more in its queue, and no answer tells of it.
        is_over = not receiver.out.removed.overlap(*here) and receiver.settling.is_sure(here)
        if acks & both == both and is_over and not any(map(is_told, (RECEIVED, *range(ENDED_AT_QUEUE, 0xC005)))):
            yield f"message {place} of the packet is settled, and its sender asked how"

    SEES: ClassVar[dict[str, Callable[[Asking, Record], None]]] = by_event(vars())


def _is_sure(receiver: Receiver, number: int, places: list[tuple[int, int]], message_class: int) -> bool:
    """Whether the commit of an earlier start, which had told of these messages, is known to have returned."""
    if message_class == ARRIVED:
        # The answer about a large message is in a commit after that of its last packet.
        return bool(receiver.settled.overlap(number, number)) and receiver.counts.get(number - 1) != 0
    if message_class == RECEIVED or message_class >= ENDED_AT_QUEUE:
        return any(receiver.settling.done.overlap(*part(number, *span, None)) for span in places)
    return False


def _is_here(is_local: bool, receiver: Receiver, number: int) -> bool:
    """Whether a packet was put into its queue: a commit may pass over numbers that their origin has given up."""
    came = is_local or number in receiver.arrived
    return came and number in receiver.settled and number not in receiver.refused_ever
