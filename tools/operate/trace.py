"""``triack trace``: where a message is, or ended, at each node on its way that can be asked or whose log is given.

It reads what the nodes have: queues, dead letters, journals, and outgoing messages. Session logs say how the message
came there.
"""

import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import click

import triack
from triack.base.errors import QueueNotFound, TriackError, UsageError
from triack.base.printable import printable
from triack.queues.mailboxes.lookup import Wanted
from triack.queues.mailboxes.system_queues import SENT_JOURNAL, is_journal
from triack.tools.commands.common import Directory, json_line, json_option, run, verbose_option, write_table
from triack.tools.commands.visiting import Host, stats_of, visit
from triack.tools.operate.amounts import age_of
from triack.tools.operate.contexts import chosen_data
from triack.tools.operate.history import steps_of

EXIT_NOWHERE = 1


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node has the message, or that it has none.

    Attributes:
        queue: the queue, or the destination of an outgoing message; empty for none.
        state: ``waits``, ``on its way``, ``dead letter``, ``copy``, ``not here`` or ``cannot be asked``.
        age_s: seconds since it was sent, by the clocks of its sender and of this machine; of a dead letter, since it
            died. None if unknown.
        why: what it waits for, why it is a dead letter, or what is known of its absence.
    """

    id: str
    node: str
    queue: str
    state: str
    age_s: float | None = None
    tries: int = 0
    why: str = ""


@click.command()
@verbose_option
@json_option
@click.argument("id_", metavar="[ID]", required=False)
@click.option("--key", metavar="KEY", help="The messages that a node of --data has accepted with this key.")
@click.option(
    "--data",
    "folders",
    multiple=True,
    metavar="DIR",
    type=Directory(file_okay=False, exists=True, path_type=Path),
    help="Data directory of a node on its way; may be repeated, its sender first.",
)
@click.option(
    "--log",
    "logs",
    multiple=True,
    metavar="PATH",
    type=click.Path(exists=True, path_type=Path),
    help="Session log of a node on its way, or a folder of them; may be repeated. That of its sender must be there.",
)
def trace(*, id_: str | None, key: str | None, folders: tuple[Path, ...], logs: tuple[Path, ...], as_json: bool) -> int:
    """Say where the message ID is, or where it ended; or those that were sent with a key.

    Each node of --data is asked, or its directory is looked at while no process runs it. Logs of --log say what has
    happened to it, and when by the clock of each machine. The exit code is 0 if a node has the message or a log tells
    of it, and 1 otherwise.
    """
    if (id_ is None) is (key is None):
        raise click.UsageError("say which message: its ID, or --key", click.get_current_context())
    chosen = folders or tuple(Path(it) for it in [chosen_data()] if it is not None and not (logs and id_))
    if not chosen and not (logs and id_):
        raise click.UsageError("the nodes are missing: --data DIR, once for each", click.get_current_context())
    return run(_trace(id_, key or "", chosen, logs, as_json=as_json))


async def _trace(id_: str | None, key: str, folders: tuple[Path, ...], logs: tuple[Path, ...], *, as_json: bool) -> int:
    ids = [id_] if id_ is not None else [it for folder in folders for it in await _with_key(folder, key)]
    if not ids:
        raise UsageError(f"trace --key {key}: no node of --data has accepted a message with it, or it counts no longer")
    found = [place for it in ids for folder in folders for place in await _look_at(folder, Wanted.by_id(it), it)]
    steps = steps_of(ids, logs) if logs else []
    if as_json:
        for it in (*map(asdict, found), *(step._asdict() for step in steps)):
            click.echo(json_line(it))
    else:
        # If the id was given, it is not shown.
        left_out = int(id_ is not None)
        if found:
            rows = [
                [it.id, it.node, it.queue or "-", it.state, age_of(it.age_s), str(it.tries), printable(it.why) or "-"]
                for it in found
            ]
            titles = ("ID", "NODE", "QUEUE", "STATE", "AGE", "TRIES", "WHY")
            write_table(titles[left_out:], [row[left_out:] for row in rows])
        if found and steps:
            click.echo()
        if steps:
            rows = [[it.id, _time_of(it.wall_ns), *map(printable, it[2:])] for it in steps]
            write_table(("ID", "WHEN", "NODE", "EVENT", "WHY")[left_out:], [row[left_out:] for row in rows])
    if logs:
        for absent in sorted({*ids} - {it.id for it in steps}):
            click.echo(
                f"triack trace: no log of --log tells of {absent}: that of its sender is missing or pruned, or lost "
                "its end when the process died",
                err=True,
            )
    return 0 if steps or any(it.queue for it in found) else EXIT_NOWHERE


def _time_of(wall_ns: int) -> str:
    return datetime.fromtimestamp(wall_ns / 1e9, UTC).isoformat(" ", "milliseconds").removesuffix("+00:00")


async def _with_key(folder: Path, key: str) -> list[str]:
    found: list[str] = []

    async def work(node: Host) -> int:
        found.extend(await node.ids_of_key(key))
        return 0

    with suppress(TriackError):  # that is said for each message
        await visit(folder, work, only_looks=True)
    return found


async def _look_at(folder: Path, wanted: Wanted, id_: str) -> list[Place]:
    """Where one node has the message; one place if it has none, or cannot be asked."""
    found: list[Place] = []

    async def work(node: Host) -> int:
        stats = await stats_of(node)
        for queue in _queues(stats):
            found.extend(await _look_into(node, str(folder), queue, stats, id_))
        if not found:
            found.append(Place(id_, str(folder), "", "not here", why=_why_absent(node, stats, wanted)))
        return 0

    try:
        await visit(folder, work, only_looks=True)
    except TriackError as error:
        return [*found, Place(id_, str(folder), "", "cannot be asked", why=str(error))]
    return found


def _queues(stats: triack.NodeStats) -> list[str]:
    outgoing = [f"{it.peer}/{it.queue}" for it in stats.outgoing if it.messages]
    transit = [f"{it.final}/{it.queue}" for it in stats.transit]
    mine = [name for name, it in stats.queues.items() if it.messages]
    return list(dict.fromkeys([*outgoing, *transit, *mine]))


async def _look_into(node: Host, name: str, queue: str, stats: triack.NodeStats, id_: str) -> list[Place]:
    try:
        async for message in node.browse(queue):
            if message.id == id_:
                return [_place(name, message, stats)]
    except QueueNotFound:
        pass  # all outgoing messages have arrived meanwhile
    return []


def _place(name: str, message: triack.BrowsedMessage, stats: triack.NodeStats) -> Place:
    queue, age_s = message.queue, max(0.0, time.time() - message.sent_at)
    if message.reason is not None:
        doubt = ", and may have arrived all the same" if message.maybe_delivered else ""
        why = f"{message.reason}, for {message.destination or 'no destination'}{doubt}"
        return Place(message.id, name, queue, "dead letter", age_s, message.attempts, why)
    if is_journal(queue):
        was = "sent, and acknowledged" if queue == SENT_JOURNAL else "read"
        return Place(message.id, name, queue, "copy", age_s, message.attempts, f"it was {was}")
    if queue in stats.queues:
        waits_s = None if message.wait_until is None else message.wait_until - time.time()
        why = f"it failed, and waits for {age_of(waits_s)}" if waits_s is not None and waits_s > 0 else ""
        return Place(
            message.id, name, queue, "waits", age_s, message.attempts, why or stats.queues[queue].waits_for or ""
        )
    held = [it for it in stats.outgoing if f"{it.peer}/{it.queue}" == queue and it.delivery is message.delivery]
    passing = [it for it in stats.transit if f"{it.final}/{it.queue}" == queue and it.delivery is message.delivery]
    told = [
        f"by {it.via or 'no neighbour'}, waits for {it.held or it.waits_for or 'nothing'}" for it in held or passing
    ]
    return Place(message.id, name, queue, "on its way", age_s, message.attempts, "; ".join(dict.fromkeys(told)))


def _why_absent(node: Host, stats: triack.NodeStats, wanted: Wanted) -> str:
    """What is known of a message that a node does not have."""
    readers = [
        f"{name} ({it.name or 'a reader'})" for name, one in stats.queues.items() for it in one.holders if it.messages
    ]
    in_hand = f"; readers have messages of {', '.join(readers)}" if readers else ""
    if node.node_id == wanted.origin.hex():
        return f"it was sent here, and is needed here no longer: what frees its class has come{in_hand}"
    return f"it has not come, has left, or was read{in_hand}"
