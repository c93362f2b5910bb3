"""The form of a node's output on the control socket: results of verbs, events, receipts, and triggers of events."""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, is_dataclass
from enum import EnumType
from fractions import Fraction
from functools import cache
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from triack.base import news
from triack.base.ack_trigger import AckTrigger
from triack.base.news import NodeEvent
from triack.node.control.client_messages import content_of, contents_of
from triack.node.control.control_frames import Answer, Header, encode
from triack.node.handles.acknowledgements import Every
from triack.node.handles.receipt import Receipt
from triack.node.handles.verbs import Reloaded
from triack.node.shell.enrolling import EnrolledPeer
from triack.node.shell.ping_answer import PingAnswer
from triack.queues.manager.browse import BrowsedMessage
from triack.queues.routes import Route
from triack.queues.streams.ack_events import AckEvent, AckKind
from triack.stats.node_stats import NodeStats
from triack.stats.stream_stats import StreamsStats

_SINGLE = "single"
"""Replaces a trigger: an event for each message."""


def describe_every(every: Every) -> dict[str, Any] | None:
    """The trigger of events; None: as the node's settings say."""
    if every is None:
        return None
    if not isinstance(every, AckTrigger):
        return {_SINGLE: True}
    # A share is a fraction of small numbers, which the nearest float identifies exactly.
    share = every.window_share
    return {**asdict(every), "window_share": None if share is None else float(Fraction(share))}


def read_every(said: dict[str, Any] | None) -> Every:
    """Read the result of ``describe_every``. Raises UsageError or TypeError: there is no such trigger."""
    if said is None:
        return None
    return "message" if said == {_SINGLE: True} else AckTrigger(**said)


def describe_events(origin: str, events: list[AckEvent]) -> dict[str, Any]:
    """Events of acknowledgements; ordinals separately, as older builds read no more than four values of an event."""
    return {
        "events": [[event.kind.value, event.first, event.last, event.reason] for event in events],
        "origin": origin,
        "ordinals": [[[run.start, run.stop] for run in event.ordinals] for event in events],
    }


def read_events(header: dict[str, Any]) -> list[AckEvent]:
    """Read the result of ``describe_events``. Older nodes send no ordinals."""
    events, origin = header["events"], header.get("origin", "")
    ordinals = header.get("ordinals") or [()] * len(events)
    return [
        AckEvent(AckKind(kind), first, last, reason, origin, [range(*run) for run in runs])
        for (kind, first, last, reason), runs in zip(events, ordinals, strict=True)
    ]


def describe_news(event: NodeEvent) -> list[Any]:
    """An event of the node."""
    return [type(event).__name__, event]


def read_news(said: list[Any]) -> NodeEvent:
    """Read the result of ``describe_news``."""
    kind, fields = said
    event: NodeEvent = read_as(vars(news)[kind], fields)
    return event


def read_as(kind: Any, said: Any) -> Any:
    """A value of a type from its JSON, which has lists for tuples, values for members of enums, objects for records."""
    read = _reader_of(kind)
    return said if read is None else read(said)


@cache
def _reader_of(kind: Any) -> Any:
    """What ``read_as`` calls; None for a type that is the same in JSON."""
    origin, make = get_origin(kind), kind
    if isinstance(kind, EnumType):
        return make
    if is_dataclass(kind):
        parts = {name: of for name, hint in get_type_hints(kind).items() if (of := _reader_of(hint)) is not None}
        return lambda it: make(**it | {name: of(it[name]) for name, of in parts.items() if name in it})
    read: Any = tuple if origin is tuple else next(filter(None, map(_reader_of, get_args(kind))), None)
    shapes: dict[Any, Any] = {
        list: lambda them: list(map(read, them)),
        dict: lambda them: {name: read(it) for name, it in them.items()},
        UnionType: lambda it: None if it is None else read(it),
    }
    return None if read is None else shapes.get(origin, read)


def describe_receipts(receipts: Iterable[Receipt]) -> list[list[Any]]:
    """Receipts by the run: the number of messages, and the ordinal and the number of the first.

    Messages to one queue are one run, so that an answer about thousands of messages is short.
    """
    runs: list[list[Any]] = []
    for receipt in receipts:
        ordinal, number = int(receipt.id.partition("-")[2]), receipt.number
        if runs and number is not None and runs[-1][1:] == [ordinal - runs[-1][0], number - runs[-1][0]]:
            runs[-1][0] += 1
        else:
            runs.append([1, ordinal, number])
    return runs


def read_receipts(origin: str, runs: list[list[Any]]) -> dict[str, list[Any]]:
    """Read the result of ``describe_receipts``: the ``ids`` and the ``numbers`` of all messages, in order."""
    ids: list[str] = []
    numbers: list[int | None] = []
    for count, ordinal, number in runs:
        ids += [f"{origin}-{ordinal + at}" for at in range(count)]
        numbers += [None] * count if number is None else range(number, number + count)
    return {"ids": ids, "numbers": numbers}


# ---- results


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """The form of a verb's result.

    Attributes:
        describe: makes header and body of the answer from the result, and from the call that keeps it under a number.
        read: makes the result from header and body. The caller reads a result that stays at the node.
    """

    describe: Callable[[Any, Callable[[Any], int]], Answer]
    read: Callable[[Header, bytes], Any] = lambda header, _content: header


def _one(name: str, kind: Any) -> Result:
    return Result(lambda it, _keep: ({name: it}, b""), lambda header, _content: read_as(kind, header[name]))


def _long(kind: Any) -> Result:
    return Result(lambda it, _keep: ({}, encode(it)), lambda _header, content: read_as(kind, json.loads(content)))


NOTHING = Result(lambda _it, _keep: ({}, b""), lambda _header, _content: None)
BROWSED = Result(
    lambda it, _keep: ({"browsed": it.describe()}, it.body),
    lambda header, content: BrowsedMessage.read(header["browsed"], content),
)
COUNT = _one("count", int)
WAS_PAUSED = _one("was_paused", bool)
MADE = _one("made", bool)
PONG = _one("pong", PingAnswer)
KEY = _one("key", str)
PEER = _one("peer", EnrolledPeer)
RELOADED = _one("reloaded", Reloaded)
ROUTES = _one("routes", list[Route])
TEXTS = _one("texts", list[str])
WAITS_FOR = _one("waits_for", str)
REMEMBERED = Result(
    lambda value, _keep: ({"known": value is not None}, value or b""),
    lambda header, content: content if header["known"] else None,
)
LENGTHS = _long(dict[str, int])
STATS = _long(NodeStats)
STREAMS = _long(StreamsStats)
MESSAGE = Result(lambda message, _keep: content_of(message))
MESSAGES = Result(lambda messages, _keep: contents_of(messages))
RECEIPT = Result(lambda it, keep: ({"receipt": keep(it), "id": it.id, "number": it.number}, b""))
RECEIPTS = Result(
    lambda them, keep: (
        {"receipt": keep(them), "ids": [it.id for it in them], "numbers": [it.number for it in them]},
        b"",
    )
)
COMMITTED = Result(
    lambda them, keep: (
        {
            "receipt": keep(them),
            "origin": them[0].id.partition("-")[0] if them else "",
            "runs": describe_receipts(them),
        },
        b"",
    )
)
WATCH = Result(lambda events, keep: ({"watch": keep(events)}, b""))
INVITATION = Result(lambda invitation, keep: ({"invitation": keep(invitation), "code": invitation.code}, b""))
PROGRESS = Result(lambda it, _keep: ({"last": it[0], "failures": it[1]}, b""))
