"""The summary that a prune leaves in the place of logs: what the judges knew at the cut (``judges/past.py``).

It is text, a JSON object a line: what it is, then its parts, each by name, then the digest of all lines before. Parts
of sessions and streams have the state of their judges, which is bound to the judges of this version: ``LAYOUT``.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Final

from triack import __version__
from triack.base.errors import ReplayError
from triack.tools.replay.checks.findings import Due, Finding, Opening, Output
from triack.tools.replay.engines.checkpoint import revive_part
from triack.tools.replay.judges.conclusion import Read
from triack.tools.replay.judges.journal import Segment
from triack.tools.replay.judges.judge import UnitJudge
from triack.tools.replay.judges.past import Kept, Past
from triack.tools.replay.log.listing import Listing
from triack.tools.replay.log.ranges import Span
from triack.tools.replay.log.schema import Verdict, Violation

LAYOUT: Final = 7
"""The format of the states in a summary. A judge that keeps something else than before raises it, and then has to read
the layout before: logs that were removed cannot be judged again."""
STATE_BYTES_MAX: Final = 1 << 30
"""A state that unpacks to more is no state: it would fill the memory."""
TOGETHER: Final = 256
"""States of one kind that are packed together: they are much alike."""
_TOLD: Final = ("records", "sent", "delivered", "pending", "lost", "duplicates_delivered")
"""The numbers of the verdict that a summary repeats for people."""


@dataclass(slots=True)
class Summary:
    """A summary: what it holds, the digests of those that are in it, its own, and numbers for people."""

    past: Past
    replaces: list[str] = field(default_factory=list)
    digest: str = ""
    told: dict[str, Any] = field(default_factory=dict)


def replay_numbers(verdict: Verdict) -> dict[str, Any]:
    """Return what a summary tells people of a verdict."""
    return {"verdict": verdict.verdict, **{name: getattr(verdict, name) for name in _TOLD}}


def encode(summary: Summary) -> bytes:
    """Return a summary as the content of a file, and note its digest."""
    head = {
        "summary": LAYOUT, "triack": __version__, "made_ms": time.time_ns() // 1_000_000, "replaces": summary.replaces,
        "whole": summary.told,
    }  # fmt: skip
    lines = [json.dumps(it, separators=(",", ":")) for it in [head, *_parts(summary.past)]]
    content = "".join(f"{line}\n" for line in lines).encode()
    summary.digest = hashlib.sha256(content).hexdigest()
    return content + f'{{"digest":"{summary.digest}"}}\n'.encode()


def _parts(past: Past) -> Iterator[dict[str, Any]]:
    names = {segment.node: segment.name for segment in past.segments if segment.name}
    for node, (start, n) in sorted(past.cuts.items()):
        yield {"part": "position", "node": node, "name": names.get(node, ""), "incarnation": start, "n": n}
    for segment in past.segments:
        yield {"part": "segment", "value": segment}
    found = past.found
    yield {"part": "times", "value": (found.begin_ns, found.end_ns)}
    yield {"part": "numbers", "value": found.numbers}
    yield {"part": "sessions", "count": len(found.openings), "state": _packed(_encode(found.openings))}
    for finding in found.findings:
        yield {"part": "finding", "value": (asdict(finding.violation), finding.dues)}
    kept = sorted(past.kept, key=lambda it: (it.unit[0], it.node, it.unit))
    for (kind, node), mine in groupby(kept, key=lambda it: (it.unit[0], it.node)):
        for some in batched(mine, TOGETHER):
            told = {"of": [it.unit[1:] for it in some], "sizes": [len(it.state) for it in some]}
            yield {"part": kind, "node": node, **told, "state": _packed(b"".join(it.state for it in some))}


def batched(kept: Iterable[Kept], most: int) -> Iterator[list[Kept]]:
    """Yield them some at a time."""
    left = iter(kept)
    while some := list(islice(left, most)):
        yield some


def _packed(state: bytes) -> str:
    return base64.b64encode(zlib.compress(state, 9)).decode()


def _encode(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def decode(content: bytes) -> Summary:
    """Return the summary in the content of a file; an error does not name the file."""
    body, _, last = content.rstrip(b"\n").rpartition(b"\n")
    digest = hashlib.sha256(body + b"\n").hexdigest()
    if not content.startswith(b'{"summary":'):
        raise ReplayError("is no summary of removed logs")
    if last != f'{{"digest":"{digest}"}}'.encode():
        raise ReplayError("was changed after it was written: its digest is not that of its content")
    try:
        head, *parts = [json.loads(line) for line in body.split(b"\n")]
        if head["summary"] != LAYOUT:
            raise ReplayError(f"is of layout {head['summary']}, and this version reads layout {LAYOUT}")
        past = Past()
        for part in parts:
            _take(past, part)
        return Summary(past, list(head["replaces"]), digest, head["whole"])
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError) as error:
        raise ReplayError(f"is no summary of removed logs: {error}") from error


def _take(past: Past, part: dict[str, Any]) -> None:
    found = past.found
    value: Any = part.get("value", ())
    match part["part"]:
        case "position":
            pass  # for people: the segments say the same
        case "segment":
            segment = Segment(*value)
            past.segments.append(segment._replace(stood=_spans(segment.stood)))
        case "times":
            found.begin_ns, found.end_ns = value
        case "numbers":
            found.numbers.update(value)
        case "sessions":
            openings = (Opening(*it) for it in json.loads(_unpacked(part["state"])))
            found.openings += [it._replace(free=_spans(it.free)) for it in openings]
        case "finding":
            found.findings.append(Finding(Violation(**value[0]), tuple(Due(*due) for due in value[1])))
        case kind:
            states, at = _unpacked(part["state"]), 0
            for name, size in zip(part["of"], part["sizes"], strict=True):
                state = states[at : at + size]
                at += size
                if not isinstance(revive_part(state, Output()), UnitJudge):
                    raise ValueError(f"the state of a {kind} that is none")  # noqa: TRY004 - of the data
                past.kept.append(Kept((kind, *name), part["node"], state))


def _spans(pairs: Iterable[Sequence[int]]) -> tuple[Span, ...]:
    return tuple((first, last) for first, last in pairs)


def _unpacked(state: str) -> bytes:
    unpacking = zlib.decompressobj()
    try:
        data = unpacking.decompress(base64.b64decode(state, validate=True), STATE_BYTES_MAX)
    except (zlib.error, binascii.Error) as error:
        raise ValueError(str(error)) from error
    if not unpacking.eof:
        raise ValueError("a state that does not end")
    return data


@dataclass(slots=True)
class Loaded:
    """The summaries of a listing together: what they hold, and digests by file; ``replaced``: those in later ones."""

    past: Past | None = None
    read: list[Read] = field(default_factory=list)
    digests: dict[str, str] = field(default_factory=dict)
    replaced: dict[str, str] = field(default_factory=dict)

    def require(self, listing: Listing) -> Loaded:
        """Return it, if all could be read."""
        for listed in listing.summaries:
            if listed.path in listing.unread:
                raise ReplayError(f"{listed.path} {listing.unread[listed.path]}")
        return self


def load_summaries(listing: Listing, contents: Callable[[list[str]], dict[str, bytes]] | None = None) -> Loaded:
    """Return what the summaries of a listing hold; the listing gets the reason why one is not read."""
    loaded, summaries = Loaded(), dict[str, Summary]()
    names = [listed.path for listed in listing.summaries if listed.path not in listing.unread]
    for path, content in (contents or read_here)(names).items():
        try:
            summaries[path] = decode(content)
        except ReplayError as error:
            listing.unread[path] = str(error)
    replaced = {digest for summary in summaries.values() for digest in summary.replaces}
    whose: dict[str, str] = {}
    for path, summary in sorted(summaries.items()):
        if summary.digest in replaced:
            # A prune that was ended early left it behind.
            loaded.replaced[path] = summary.digest
            continue
        twice = sorted({whose[node] for node in summary.past.cuts if node in whose})
        if twice:
            listing.unread[path] = f"tells of the same node as {twice[0]}: give only one of them"
            continue
        whose |= dict.fromkeys(summary.past.cuts, path)
        if loaded.past is None:
            loaded.past = Past()
        loaded.past.join(summary.past)
        loaded.digests[path] = summary.digest
        loaded.read.append(Read(path, sum(segment.records for segment in summary.past.segments)))
    return loaded


def read_here(names: list[str]) -> dict[str, bytes]:
    """Return the content of files of this machine by their names."""
    contents: dict[str, bytes] = {}
    for name in names:
        try:
            contents[name] = Path(name).read_bytes()
        except OSError as error:
            raise ReplayError(f"{name} cannot be read: {os.strerror(error.errno or 0)}") from error
    return contents
