"""The words of the table of causes: facts, which records establish, and causes, which say what a record needs.

A fact is a set of packets of one stream at one node. The sides of a stream keep those that they need anyway; a ``Book``
(``engine.py``) keeps the others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from triack.tools.replay.checks.findings import Record
from triack.tools.replay.log.messages import last_of
from triack.tools.replay.log.ranges import Span

HERE: Final = "before, at the same node"
NOW: Final = "before or now, at the same node"
ANYWHERE: Final = "at any node"
NEVER: Final = "not before, at the same node"


class Some(NamedTuple):
    """Some of the records of an event.

    Attributes:
        event: which.
        fields: by field, the values of which it has one; None stands for a field that is not there.
        but: the same, of records that are not meant.
        at: of which nodes: ``origin``, ``other``, or all.
        to_origin: whether it must be told to the origin itself.
    """

    event: str
    fields: Mapping[str, Collection[object]] = {}
    but: Mapping[str, Collection[object]] = {}
    at: str = ""
    to_origin: bool = False

    def has(self, record: Record) -> bool:
        """Whether a record of the event is one of these."""
        if self.at and (record["node"] == record["origin"]) != (self.at == "origin"):
            return False
        if self.to_origin and record["peer"] != record["origin"]:
            return False
        for name, values in self.fields.items():
            if record.get(name) not in values:
                return False
        return not self.but or not any(record.get(name) in values for name, values in self.but.items())


class Fact(NamedTuple):
    """Something that is true of packets at a node.

    Attributes:
        words: what, for the page of checks.
        by: the records that establish it.
        side: which side of a stream keeps it: ``receivers``, ``relays`` or ``senders``; empty: a book does.
        kept: the names of what that side keeps for a sequence.
        up_to: whether a record says it of all packets up to its own.
        passes: whether it is true at the moment of its record alone.
        messages: whether that side keeps messages, not packets.
    """

    words: str
    by: tuple[Some, ...]
    side: str = ""
    kept: tuple[str, ...] = ()
    up_to: bool = False
    passes: bool = False
    messages: bool = False


class Cause(NamedTuple):
    """What a record needs.

    Attributes:
        says: the records.
        needs: facts, of which one must be true of each of its packets.
        where: ``HERE``, ``NOW`` or ``ANYWHERE``; with ``NEVER`` none may be true.
        check: the check that is broken otherwise.
        evidence: what a violation says.
        of_one: whether it is enough if one of its packets has it, as of a large message that ends by one of its parts.
    """

    says: Some
    needs: tuple[Fact, ...]
    where: str
    check: str
    evidence: str
    of_one: bool = False


def spans_of(record: Record) -> list[Span]:
    """The packets that a record is about."""
    if "ranges" in record:
        return [(first, last) for first, last in record["ranges"]]
    if "first" in record:
        return [(record["first"], record["last"])]
    return [(record["number"], last_of(record) if "counts" in record else record["number"])]
