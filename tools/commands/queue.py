"""``triack queue``: what waits in the queues of a node, and what an operator does with it.

If a process runs the node of the data directory, the command asks that process; if not, it opens the directory.
"""

import base64
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TextIO, TypeVar, get_args

import click

import triack
from triack.base.errors import QueueNotFound
from triack.base.names import TOPIC_PREFIX, composed, nearest, what_else
from triack.base.printable import counted
from triack.queues.mailboxes.system_queues import DEAD_LETTER_QUEUE
from triack.queues.node_settings import WhenFull
from triack.stats.queue_states import QueueState
from triack.tools.commands.common import (
    CommandGroup,
    FloatRange,
    existing_data_option,
    json_line,
    json_option,
    run,
    verbose_option,
    write_table,
)
from triack.tools.commands.visiting import Host, on_node, stats_of, visit
from triack.tools.operate.amounts import age_of, size_of

F = TypeVar("F", bound=Callable[..., Any])

PREVIEW_CHARACTERS = 40


@click.group(cls=CommandGroup, no_args_is_help=False)
def queue() -> None:
    """Look into the queues of a node, and steer what waits in them.

    A QUEUE is one of the node's own, such as dead-letter, or a destination for what is on its way there, as `triack
    queue list` shows it. Works while the node runs and while it does not.
    """


_queue_argument = click.argument("name", metavar="QUEUE")
_ids_option = click.option("--id", "ids", multiple=True, metavar="ID", help="Only this message; may be repeated.")
_all_option = click.option("--all", "everything", is_flag=True, help="All that wait.")
_reason_option = click.option(
    "--reason", "reasons", multiple=True, metavar="REASON", help="Only dead letters of this reason; may be repeated."
)
_older_option = click.option(
    "--older",
    "--older-than",
    "older_s",
    type=FloatRange(min=0),
    metavar="S",
    help="Only messages sent S seconds ago, or earlier.",
)
_SORTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "name": lambda row: row["queue"],
    "messages": lambda row: -row["messages"],
    "bytes": lambda row: -row["bytes"],
    "oldest": lambda row: -(row["oldest_s"] or 0),
}


def _choose_options(command: F) -> F:
    """Add the options that say which messages a command is about."""
    for option in (_older_option, _reason_option, _all_option, _ids_option):
        command = option(command)
    return command


@queue.command()
@verbose_option
@click.argument("names", metavar="QUEUE...", nargs=-1, required=True)
@on_node()
async def create(node: Host, *, names: tuple[str, ...]) -> None:
    """Make queues before their first messages arrive."""
    for name in names:
        made = await node.create_queue(name)
        click.echo(f"queue {name} {'made' if made else 'was there already'}")


@queue.command("list")
@verbose_option
@click.option("--sort", type=click.Choice(list(_SORTS)), default="name", help="Order of the rows.  [default: name]")
@click.option(
    "--older", "older_s", type=FloatRange(min=0), metavar="S", help="Only with a message of S seconds at least."
)
@click.option("--waiting", is_flag=True, help="Only those with messages.")
@json_option
@on_node(only_looks=True)
async def list_queues(node: Host, *, sort: str, older_s: float | None, waiting: bool, as_json: bool) -> None:
    """List the queues of the node. Also what is on its way to others, and what it passes on."""
    rows = _rows(await stats_of(node))
    rows = [it for it in rows if it["messages"] or not waiting]
    rows = [it for it in rows if older_s is None or (it["oldest_s"] or 0) >= older_s]
    if sort != "name":
        rows.sort(key=_SORTS[sort])
    if as_json:
        for row in rows:
            click.echo(json_line(row))
        return
    in_hand = any(it["in_hand"] for it in rows)
    write_table(
        ("QUEUE", "", "MESSAGES", *(["IN HAND"] if in_hand else []), "BYTES", "OLDEST", "STATE", "WAITS FOR"),
        [
            [
                it["queue"],
                it["kind"],
                it["messages"],
                *([it["in_hand"] or "-"] if in_hand else []),
                it["bytes"],
                age_of(it["oldest_s"]),
                it["state"],
                it["waits_for"],
            ]
            for it in rows
        ],
    )


@queue.command()
@verbose_option
@_queue_argument
@json_option
@on_node()
async def show(node: Host, *, name: str, as_json: bool) -> None:
    """Show how much waits in a queue, by priority if there are several. Of dead letters, also their reasons."""
    shown: dict[str, Any] = {"queue": name, "waiting": 0, "delayed": 0, "bytes": 0, "oldest_s": None}
    reasons: Counter[tuple[str, str]] = Counter()
    unsure: Counter[tuple[str, str]] = Counter()
    priorities: Counter[int] = Counter()
    async for message in node.browse(name):
        shown["waiting"] += 1
        shown["delayed"] += message.wait_until is not None
        shown["bytes"] += message.size
        priorities[message.priority] += 1
        shown["oldest_s"] = max(shown["oldest_s"] or 0, _seconds_since(message.sent_at))
        if message.reason is not None:
            reasons[message.reason, message.destination or "-"] += 1
            unsure[message.reason, message.destination or "-"] += message.maybe_delivered
    stats = await stats_of(node)
    here = stats.queues.get(name)
    if here is not None and (here.quota_is_set or isinstance(node, triack.Client)):
        limits = {"max_messages": here.max_messages, "max_bytes": here.max_bytes, "when_full": here.when_full}
        shown |= limits | {"quota_is_set": here.quota_is_set}
    shown["in_hands"] = 0 if here is None else max(0, here.messages - shown["waiting"])
    shown |= next((_words(it) for it in _rows(stats) if it["queue"] == name), {"state": None, "waits_for": None})
    shown["holders"] = [] if here is None else [asdict(holder) for holder in here.holders]
    if here is not None:
        shown["oldest_s"] = here.oldest_s
    dead: list[dict[str, Any]] = [
        {"reason": reason, "destination": to, "messages": times, "maybe_delivered": unsure[reason, to]}
        for (reason, to), times in reasons.most_common()
    ]
    by_priority = sorted(priorities.items(), reverse=True)
    if as_json:
        click.echo(json_line(shown | {"by_priority": dict(by_priority), "dead": dead}))
        return
    readers = f", {shown['in_hands']} in the hands of readers" if shown["in_hands"] else ""
    delayed = f", {shown['delayed']} of them until their next attempt" if shown["delayed"] else ""
    oldest = "" if shown["oldest_s"] is None else f", the oldest for {age_of(shown['oldest_s'])}"
    click.echo(f"{name}: {shown['waiting']} waiting, {shown['bytes']} bytes{oldest}{delayed}{readers}")
    if shown["state"] not in (None, QueueState.LOCAL.value):
        click.echo(f"{shown['state']}{', waits for ' + shown['waits_for'] if shown['waits_for'] else ''}")
    if here is not None and here.quota_is_set:
        click.echo(_quota_of(here))
    if len(by_priority) > 1:
        write_table(("PRIORITY", "WAITING"), by_priority)
    if shown["holders"]:
        hands = [
            [it["name"] or "-", it["pid"] or "-", it["messages"], age_of(it["since_s"])] for it in shown["holders"]
        ]
        write_table(("IN THE HANDS OF", "PID", "MESSAGES", "SINCE"), hands)
    if dead:
        write_table(("REASON", "DESTINATION", "MESSAGES", "MAY HAVE ARRIVED"), [it.values() for it in dead])


@queue.command()
@verbose_option
@_queue_argument
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="End after N messages.")
@_reason_option
@_older_option
@json_option
@on_node(only_looks=True)
async def browse(
    node: Host, *, name: str, count: int | None, reasons: tuple[str, ...], older_s: float | None, as_json: bool
) -> None:
    """Look at the messages that wait in a queue, the oldest first. Nothing changes by that."""
    seen = 0
    async for message in _matching(node, name, reasons, older_s):
        click.echo(_as_json(message) if as_json else _as_line(message))
        seen += 1
        if seen == count:
            break


@queue.command()
@verbose_option
@_queue_argument
@click.option(
    "--to", "path", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="A new file to write to."
)
@_reason_option
@_older_option
@on_node(only_looks=True)
async def export(node: Host, *, name: str, path: Path | None, reasons: tuple[str, ...], older_s: float | None) -> None:
    """Write the messages that wait in a queue as JSON. Whole, one a line; they stay where they are."""
    with click.open_file("-", "w") if path is None else _new_file(path) as out:
        async for message in _matching(node, name, reasons, older_s):
            click.echo(_as_json(message), file=out)


@queue.command()
@verbose_option
@click.argument("name", metavar="[QUEUE]", default=DEAD_LETTER_QUEUE)
@_choose_options
@click.option("--maybe-delivered", is_flag=True, help="Also those that may have arrived, which then arrive twice.")
@existing_data_option
def requeue(*, data: Path, name: str, maybe_delivered: bool, **chosen: Any) -> int:
    """Send dead letters again. They go to their destinations, or to the queues in which they failed.

    QUEUE is dead-letter, or one that their sender has chosen for them. Messages in it that are no dead letters stay,
    and so do those that may have arrived after all.
    """
    choice = _Choice(**chosen)

    async def work(node: Host) -> int:
        left: set[str] = set()
        if not (maybe_delivered or choice.ids):
            matching = _matching(node, name, choice.reasons, choice.older_s)
            left = {message.id async for message in matching if message.maybe_delivered}

        async def send(ids: list[str] | None) -> int:
            wanted = ids if ids is None else [it for it in ids if it not in left]
            return await node.requeue(wanted, queue=name, maybe_delivered=maybe_delivered)

        await _steer(node, name, "sent again", choice, send)
        if left:
            click.echo(
                f"{counted(len(left), 'message')} left: they may have arrived (--maybe-delivered takes them, too)"
            )
        return 0

    return run(visit(data, work))


@queue.command()
@verbose_option
@_queue_argument
@click.argument("destination", metavar="DEST")
@_choose_options
@existing_data_option
def move(*, data: Path, name: str, destination: str, **chosen: Any) -> int:
    """Move messages of a queue of the node to DEST. That is another of its queues, or one elsewhere."""
    choice = _Choice(**chosen)
    return run(
        visit(data, lambda node: _steer(node, name, "moved", choice, lambda ids: node.move(name, destination, ids)))
    )


@queue.command()
@verbose_option
@_queue_argument
@_choose_options
@existing_data_option
def purge(*, data: Path, name: str, **chosen: Any) -> int:
    """Remove messages from a queue. What is on its way to another node becomes a dead letter, anything else is gone."""
    choice = _Choice(**chosen)
    return run(visit(data, lambda node: _steer(node, name, "removed", choice, lambda ids: node.purge(name, ids))))


@queue.command()
@verbose_option
@_queue_argument
@on_node()
async def release(node: Host, *, name: str) -> None:
    """Take back the messages that readers of a queue have.

    They are handed out again, to any reader: use it when one hangs. It gets an error if it acknowledges one later.
    """
    click.echo(f"{counted(await node.release(name), 'message')} taken back")


@queue.command()
@verbose_option
@_queue_argument
@click.option("--arrivals", is_flag=True, help="Let nothing come into the queue, either: senders wait.")
@on_node()
async def pause(node: Host, *, name: str, arrivals: bool) -> None:
    """Pause a queue until `triack queue resume`. Restarts change nothing; what it accepts waits in it.

    Readers of a queue of the node get nothing; the queue is made if there is none. To another node nothing leaves:
    QUEUE is then PEER/QUEUE, or PEER/ for all messages to a peer.
    """
    before = await stats_of(node)
    await node.pause(name, arrivals=arrivals)
    click.echo(f"{name} is paused{_if_made(name, before, await stats_of(node))}")


@queue.command()
@verbose_option
@_queue_argument
@on_node()
async def resume(node: Host, *, name: str) -> None:
    """End a pause of a queue, or of all messages to a peer."""
    was_paused = await node.resume(name)
    click.echo(f"{name} is resumed" if was_paused else f"{name} was not paused")


@queue.command()
@verbose_option
@_queue_argument
@click.option("--messages", type=click.IntRange(min=1), metavar="N", help="The most messages that may wait in it.")
@click.option("--bytes", "size_bytes", type=click.IntRange(min=1), metavar="N", help="The same for their bytes.")
@click.option(
    "--when-full",
    type=click.Choice(get_args(WhenFull)),
    help="Let senders wait, or reject their messages, which become dead letters there.",
)
@click.option("--reset", is_flag=True, help="Have the quota of the settings again.")
@existing_data_option
def quota(
    *, data: Path, name: str, messages: int | None, size_bytes: int | None, when_full: WhenFull | None, reset: bool
) -> int:
    """Set the quota of a queue of the node, or show it. It goes before that of the settings, restarts included."""
    given = (messages, size_bytes, when_full) != (None, None, None)
    if given and reset:
        raise click.UsageError("--reset takes the quota of the settings: leave out --messages, --bytes and --when-full")

    async def work(node: Host) -> int:
        before = await stats_of(node)
        if given or reset:
            await node.set_quota(name, messages=messages, size_bytes=size_bytes, when_full=when_full)
        stats = await stats_of(node)
        known = stats.queues
        if name in _names(stats) - known.keys():
            told = "as the settings say" if reset else "set by an operator" if given else "not shown for topics"
            click.echo(f"{name}: its quota is {told}{_if_made(name, before, stats)}")
            return 0
        if name not in known:
            raise QueueNotFound(f"there is no queue {name} of this node; {what_else(name, known)}")
        if isinstance(node, triack.Node) and not known[name].quota_is_set:
            click.echo(f"{name}: as the settings say; no process runs the node, so they are not known here")
        else:
            click.echo(f"{name}: {_quota_of(known[name])}{_if_made(name, before, stats)}")
        return 0

    return run(visit(data, work))


def _if_made(name: str, before: triack.NodeStats, now: triack.NodeStats) -> str:
    """What to add if a queue was made that was not there before: another one may have been meant."""
    known = _names(before)
    if composed(name) not in _names(now) - known:
        return ""
    meant = nearest(name, known)
    return f"; it is a new queue{'' if meant is None else f', did you mean {meant}?'}"


def _names(stats: triack.NodeStats) -> set[str]:
    return {*stats.queues, *(f"{TOPIC_PREFIX}{root}" for root in stats.topics)}


def _quota_of(it: triack.QueueStats) -> str:
    by = "set by an operator" if it.quota_is_set else "as the settings say"
    return f"at most {counted(it.max_messages, 'message')} and {size_of(it.max_bytes)}, then {it.when_full}; {by}"


# ---- steering


def _new_file(path: Path) -> TextIO:
    """Bodies are only for the owner of the data directory, wherever they are."""
    return open(path, "x", encoding="utf-8", opener=partial(os.open, mode=0o600))


@dataclass(frozen=True, slots=True)
class _Choice:
    """Which messages a command is about: those with some ids, all, or those that match."""

    ids: tuple[str, ...]
    everything: bool
    reasons: tuple[str, ...]
    older_s: float | None

    def __post_init__(self) -> None:
        if (self.everything, bool(self.ids), self.matches).count(True) != 1:
            raise click.UsageError("say which messages: --all, --id for each, or --reason and --older")

    @property
    def matches(self) -> bool:
        """Whether messages are chosen by reason or age."""
        return bool(self.reasons) or self.older_s is not None


async def _matching(
    node: Host, name: str, reasons: tuple[str, ...], older_s: float | None
) -> AsyncIterator[triack.BrowsedMessage]:
    """The messages that wait in a queue, of these reasons, and of that age at least."""
    async for message in node.browse(name):
        old_enough = older_s is None or _seconds_since(message.sent_at) >= older_s
        if old_enough and (not reasons or message.reason in reasons):
            yield message


async def _steer(
    node: Host, name: str, done: str, choice: _Choice, work: Callable[[list[str] | None], Awaitable[int]]
) -> int:
    wanted = None if choice.everything else list(choice.ids)
    if choice.matches:
        wanted = [message.id async for message in _matching(node, name, choice.reasons, choice.older_s)]
    count = await work(wanted) if wanted != [] else 0
    click.echo(f"{counted(count, 'message')} {done}")
    left = len(set(choice.ids)) - count
    if left > 0:
        told = counted(len(set(choice.ids)), "message")
        raise QueueNotFound(f"{left} of {told} not found there: see `triack queue browse`")
    return 0


# ---- writing


def _rows(stats: triack.NodeStats) -> list[dict[str, Any]]:
    here = [_row(name, "in", it) | {"in_hand": it.in_hand} for name, it in stats.queues.items()]
    out = [_row(f"{it.peer}/{it.queue}", "out", it) for it in stats.outgoing]
    passing = [_row(f"{it.final}/{it.queue}", f"from {it.came_by}", it) for it in stats.transit]
    return [*here, *_folded(out), *_folded(passing)]


def _row(name: str, kind: str, it: triack.QueueStats | triack.OutgoingStats | triack.TransitStats) -> dict[str, Any]:
    figures = {"messages": it.messages, "in_hand": 0, "bytes": it.bytes, "oldest_s": it.oldest_s}
    by_priority = None if isinstance(it, triack.QueueStats) else {it.priority: it.messages}
    words = {"by_priority": by_priority, "paused_s": it.paused_s, "state": it.state, "waits_for": it.waits_for}
    paused = {} if it.paused_s is None else {"waits_for": f"resume, paused for {age_of(it.paused_s)}"}
    return {"queue": name, "kind": kind, **figures, **words, **paused}


def _folded(streams: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """One row for the classes and priorities of a destination; one for each state, if what waits is in several."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in streams:
        found.setdefault((row["queue"], row["kind"]), []).append(row)
    for rows in found.values():
        waiting = [it for it in rows if it["messages"] or it["bytes"]] or rows[:1]
        for state in dict.fromkeys(it["state"] for it in waiting):
            yield _joined([it for it in waiting if it["state"] == state])


def _joined(rows: list[dict[str, Any]]) -> dict[str, Any]:
    sums = {what: sum(it[what] for it in rows) for what in ("messages", "bytes")}
    oldest_s = max((it["oldest_s"] for it in rows if it["oldest_s"] is not None), default=None)
    by_priority: Counter[int] = Counter()
    for it in rows:
        by_priority.update(it["by_priority"])
    waits_for = ", ".join(dict.fromkeys(it["waits_for"] for it in rows if it["waits_for"] is not None)) or None
    return rows[0] | sums | {"oldest_s": oldest_s, "by_priority": dict(by_priority), "waits_for": waits_for}


def _words(row: dict[str, Any]) -> dict[str, Any]:
    return {"state": row["state"], "waits_for": row["waits_for"]}


def _as_json(message: triack.BrowsedMessage) -> str:
    try:
        body = {"body": message.body.decode()}
    except UnicodeDecodeError:
        body = {"body_base64": base64.b64encode(message.body).decode()}
    return json_line(message.describe() | body)


def _as_line(message: triack.BrowsedMessage) -> str:
    words = [message.id, age_of(_seconds_since(message.sent_at)), f"attempts {message.attempts}"]
    if message.wait_until is not None:
        words.append(f"again in {max(0.0, message.wait_until - time.time()):.0f}s")
    if message.reason is not None:
        words.append(f"{message.reason} {message.destination or '-'}")
    if message.maybe_delivered:
        words.append("may have arrived")
    if message.large_bytes is not None:
        return f"{'  '.join(words)}  ... {message.size} bytes, sent in parts"
    if (whole_bytes := message.properties.get("dead_part")) is not None:
        return f"{'  '.join(words)}  {len(message.body)} bytes, part of a message of {whole_bytes}"
    if "dead_unread" in message.properties:
        return f"{'  '.join(words)}  sealed, {len(message.body)} bytes"
    text = message.body.decode(errors="replace")
    cut = text[:PREVIEW_CHARACTERS]
    more = f" ... {len(message.body)} bytes" if cut != text else ""
    return f"{'  '.join(words)}  {json_line(cut)}{more}"


def _seconds_since(sent_at: float) -> float:
    return max(0.0, time.time() - sent_at)
