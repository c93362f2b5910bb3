"""The summary that a prune leaves in the place of logs: what the judges knew at the cut (``judges/past.py``).

It is text, a JSON object a line: what it is; each node, how far it had come, and what the judges knew of it, which is
bound to the judges of this version (``LAYOUT``); and the digest of all lines before.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from triack import __version__
from triack.base.errors import ReplayError
from triack.tools.replay.checks.findings import Output
from triack.tools.replay.engines.checkpoint import freeze, revive, revive_part
from triack.tools.replay.judges.conclusion import Read
from triack.tools.replay.judges.journal import Segment
from triack.tools.replay.judges.judge import UnitJudge
from triack.tools.replay.judges.past import Past
from triack.tools.replay.log.listing import Listing
from triack.tools.replay.log.schema import Verdict

LAYOUT: Final = 9
"""The format of the states in a summary. A judge that keeps something else than before raises it, and then has to read
the layout before: logs that were removed cannot be judged again."""
STATE_BYTES_MAX: Final = 1 << 30
"""A state that unpacks to more is no state: it would fill the memory."""
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
    for node, mine in sorted(past.by_node().items()):
        start, n = past.cuts[node]
        state = base64.b64encode(zlib.compress(freeze(mine), 9)).decode()
        yield {"node": node, "name": names.get(node, ""), "incarnation": start, "n": n, "state": state}


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
            past.join(_past_in(_unpacked(part["state"])))
        return Summary(past, list(head["replaces"]), digest, head["whole"])
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError) as error:
        raise ReplayError(f"is no summary of removed logs: {error}") from error


def _past_in(state: bytes) -> Past:
    """Return what is known of a node; it is of the right kinds, and no more."""
    past = revive(state, Past, of_others=True)
    are_judges = all(isinstance(revive_part(it.state, Output()), UnitJudge) for it in past.kept)
    if not are_judges or not all(isinstance(it, Segment) for it in past.segments):
        raise ValueError("the state of a node that is none")
    return past


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
