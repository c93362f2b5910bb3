"""Bugs to plant: does the harness find what it claims to find?

Each is a small, realistic mistake, as a change of text in one file of the package. ``run_planted`` copies the package, makes
one change in the copy and lets a campaign run on it, in a process of its own, until a seed fails. A harness that finds
nothing proves nothing; one that finds all of these has at least looked there.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import triack
from triack.base.errors import ChaosError

__all__ = ["BUGS", "Bug", "Found", "run_planted"]

SEEDS_MAX = 600
TIMEOUT_S = 900.0


class Bug(NamedTuple):
    """One mistake.

    Attributes:
        name: what it is called.
        file: where, under the package; one folder deep.
        old, new: the text that is replaced, which must occur once, and what it is replaced by.
    """

    name: str
    file: str
    old: str
    new: str


class Found(NamedTuple):
    """How a bug was found: the first seed that failed, the rule that it broke; seed -1 if none did."""

    bug: Bug
    seed: int
    rule: str
    sentence: str


BUGS = (
    Bug(
        "the order ack speaks of what is not yet committed",
        "queues/inbox.py",
        "sequence, number = stream.acked = stream.sequence.committed",
        "sequence, number = stream.acked = stream.sequence.position",
    ),
    Bug(
        "the store ack leaves before the commit returns",
        "queues/inbox.py",
        "    pending.stored.setdefault(conversation, []).append(packet)",
        "    conversation.session.handle_stored([packet])",
    ),
    Bug(
        "packets are sent before the commit that holds them",
        "queues/outbox.py",
        "            pending.started.append((lane, entries))\n            if lane.address:\n",
        "            pending.started.append((lane, entries))\n            if lane.address:\n                lane.start(entries)\n",
    ),
    Bug(
        "the window is off by one",
        "session/sending.py",
        "        return max(0, min(limit - len(self._packets), span))",
        "        return max(0, min(limit + 1 - len(self._packets), span))",
    ),
    Bug(
        "a resend tier is skipped",
        "ordering/tiers.py",
        "        if resends:\n            self.attempt += 1",
        "        if resends:\n            self.attempt += 3",
    ),
    Bug(
        "a stream's position is forgotten by a restart",
        "queues/inbox.py",
        "        for row in content.positions:\n            self._restore_stream(row, now_ns)\n",
        "",
    ),
    Bug(
        "the position is not in the commit of the messages",
        "queues/inbox.py",
        "        for stream in pending.accepted:\n            pending.commit.positions",
        "        for stream in list(pending.accepted)[1:]:\n            pending.commit.positions",
    ),
    Bug(
        "a failed write or sync is ignored",
        "store/store.py",
        '            self._failure = StoreFailed(f"{operation} store {self.path}: {_explain(cause)}")\n'
        "            raise self._failure from cause\n",
        "            if operation != 'commit':\n"
        '                raise StoreFailed(f"{operation} store {self.path}: {_explain(cause)}") from cause\n',
    ),
    Bug(
        "nothing is synced",
        "store/store.py",
        'db.pragma("synchronous", "FULL")',
        'db.pragma("synchronous", "OFF")',
    ),
    Bug(
        "the log is not synced at each commit",
        "store/store.py",
        'db.pragma("synchronous", "FULL")',
        'db.pragma("synchronous", "NORMAL")',
    ),
    Bug(
        "numbers are used again after a restart",
        "queues/outbox.py",
        "        for row in content.lanes:\n            self._add_lane(row)\n",
        "        for row in content.lanes:\n            self._add_lane(row._replace(next_number=1))\n",
    ),
    Bug(
        "transactional messages are freed by the store ack",
        "base/delivery.py",
        "Delivery.TRANSACTIONAL: Ack.ORDER",
        "Delivery.TRANSACTIONAL: Ack.STORE",
    ),
    Bug(
        "recoverable messages are freed by the session ack",
        "base/delivery.py",
        "Delivery.RECOVERABLE: Ack.STORE",
        "Delivery.RECOVERABLE: Ack.SESSION",
    ),
    Bug(
        "a gap is not noticed",
        "ordering/incoming.py",
        "            if header.previous <= number:\n                return Outcome.ACCEPTED",
        "            return Outcome.ACCEPTED",
    ),
    Bug(
        "the last packet is accepted again",
        "ordering/incoming.py",
        "            if header.number <= number:\n                return Outcome.DUPLICATE",
        "            if header.number < number:\n                return Outcome.DUPLICATE",
    ),
    Bug(
        "held packets come out without those before them",
        "ordering/incoming.py",
        "        while order and order[0][0] <= position:",
        "        while order and order[0][0] <= position + 1:",
    ),
    Bug(
        "a packet says that nothing goes before it",
        "ordering/outgoing.py",
        "        if entry.number - 1 in self.entries:\n            return entry.number - 1",
        "        if entry.number - 1 in self.entries:\n            return max(0, entry.number - 2)",
    ),
    Bug(
        "an order ack frees one packet too many",
        "ordering/outgoing.py",
        "            if candidate.number > number:\n                break",
        "            if candidate.number > number + 1:\n                break",
    ),
    Bug(
        "an ack deletes one row too many",
        "queues/outbox.py",
        "            span = (key_of(lane.lane, entries[0].number), key_of(lane.lane, entries[-1].number))\n"
        "            pending.commit.outgoing_deletes.append(span)\n\n    def _let_go",
        "            span = (key_of(lane.lane, entries[0].number), key_of(lane.lane, entries[-1].number + 1))\n"
        "            pending.commit.outgoing_deletes.append(span)\n\n    def _let_go",
    ),
    Bug(
        "acknowledging one message removes its whole packet",
        "queues/inbox.py",
        "                if packet.done:\n",
        "                if packet.acked:\n",
    ),
    Bug(
        "what was acknowledged in a packet is forgotten by a restart",
        "queues/inbox.py",
        "            if index.progress is not None:\n                packet.decode_progress(index.progress)\n",
        "",
    ),
    Bug(
        "messages come again after a restart without a word",
        "queues/inbox.py",
        "                redelivered=True,\n            )\n            if index.progress",
        "                redelivered=False,\n            )\n            if index.progress",
    ),
    Bug(
        "what was given back comes last",
        "queues/mailbox.py",
        "        if self._again:\n            _, index",
        "        if self._again and not self._ready:\n            _, index",
    ),
    Bug(
        "packets of a closed session are not sent again",
        "ordering/outgoing.py",
        "            _move(entry, EntryEvent.SEND_AGAIN)\n        self._to_send = deque(",
        "        self._to_send = deque(",
    ),
    Bug(
        "the duplicate filter is not kept",
        "queues/inbox.py",
        "stream.filter = DuplicateFilter.decode(row.filter)",
        "stream.filter = DuplicateFilter()",
    ),
    Bug(
        "expired messages just disappear",
        "queues/outbox.py",
        "            self._inbox.put_dead_letter(letter, self._node_id, ordinal, now_ms, pending)\n",
        "",
    ),
    Bug(
        "a packet that is only held is called stored",
        "queues/inbox.py",
        "        if outcome is Outcome.DUPLICATE and stream.sequence.has_accepted(header):",
        "        if outcome is Outcome.DUPLICATE:",
    ),
    Bug(
        "a packet that was passed over is called stored",
        "ordering/incoming.py",
        "        return (header.sequence, header.number) <= self.position and not passed",
        "        return (header.sequence, header.number) <= self.position",
    ),
    Bug(
        "a session ack names a packet that has not come",
        "session/session_ack.py",
        "        expected = received.highest + 1\n",
        "        expected = received.highest + 1\n        if number > expected:\n            received.add(expected)\n",
    ),
    Bug(
        "a node whose disk failed spins",
        "queues/engine.py",
        "        if self.failure is None and not self.draining:\n            deadlines +=",
        "        if not self.draining:\n            deadlines +=",
    ),
    Bug(
        "what the application keeps misses its commit",
        "queues/engine.py",
        "        self._pending.commit.state[key] = value\n",
        "        if value is None or len(self._pending.commit.state) % 2:\n            self._pending.commit.state[key] = value\n",
    ),
    Bug(
        "nobody connects again",
        "queues/link.py",
        "        self.retry_at_ns = now_ns + wait_ns // 2",
        "        self.retry_at_ns = (now_ns << self._attempts) + wait_ns // 2",
    ),
    Bug(
        "a recoverable packet that was passed over is called stored",
        "queues/inbox.py",
        "        if durable and not stream.filter.has_skipped(header):",
        "        if durable:",
    ),
    Bug(
        "what a crashed sender sends again is never called stored",
        "ordering/duplicates.py",
        "        return any(first <= header.number <= last for first, last in self._skips)",
        "        return header.number <= self._seen.cumulative",
    ),
    Bug(
        "a removal leaves no record",
        "queues/outbox.py",
        '                self._record_range("removed", lane, group[0].number, group[-1].number, now_ns, count=count, reason=said)\n',
        "",
    ),
    Bug(
        "commits are not numbered",
        "queues/history.py",
        "        self._last += 1\n",
        "",
    ),
)


def run_planted(
    *, bugs: tuple[Bug, ...] = BUGS, seeds_max: int = SEEDS_MAX, say: Callable[[Found], None] = lambda _found: None
) -> list[Found]:
    """Plant each bug in a copy of the package and look for it with a campaign.

    Args:
        bugs: which ones.
        seeds_max: seeds that may be tried for each.
        say: called with each result.

    Raises:
        ChaosError: a bug does not fit the code any more.
    """
    found = []
    for bug in bugs:
        with tempfile.TemporaryDirectory(prefix="triack-planted-") as folder:
            _plant(bug, Path(folder) / "triack")
            result = _hunt(bug, Path(folder), seeds_max)
        say(result)
        found.append(result)
    return found


def _plant(bug: Bug, target: Path) -> None:
    """Copy the package, as it is imported here, and change one place."""
    source = Path(triack.__file__).parent
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"), symlinks=False)
    path = target / bug.file
    text = path.read_text()
    if text.count(bug.old) != 1:
        raise ChaosError(f"plant {bug.name!r} in {bug.file}: its text occurs {text.count(bug.old)} times, not once")
    path.write_text(text.replace(bug.old, bug.new))


def _hunt(bug: Bug, folder: Path, seeds_max: int) -> Found:
    """Run seeds on the changed copy until one fails; a crash of the run itself counts as found, too."""
    arguments = ["chaos", "--seeds", str(seeds_max), "--jobs", "1", "--fail-fast", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "triack", *arguments],
        env=os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    try:
        figures = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError) as cause:
        raise ChaosError(f"plant {bug.name!r}: the campaign ended with {done.stderr.strip()[-300:]}") from cause
    if not figures["violations"]:
        return Found(bug, -1, "", "")
    return Found(bug, figures["failing_seeds"][0], *figures["first_violation"])
