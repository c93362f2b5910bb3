"""``triack status``: how a node is, at one look."""

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

import triack
from triack.base.printable import counted
from triack.queues.mailboxes.system_queues import DEAD_LETTER_QUEUE
from triack.tools.commands.common import existing_data_option, json_option, run, verbose_option, write_table
from triack.tools.commands.visiting import Host, stats_of, visit

__all__ = ["age_of", "size_of", "status"]

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"))
_SIZES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


@click.command()
@verbose_option
@json_option
@existing_data_option
def status(*, data: Path, as_json: bool) -> int:
    """Show how a node is: whether a process runs it, its links, its disk, and what is unread.

    With --json it is one object that has all that `node.stats()` counts, by the same names.
    """

    async def work(node: Host) -> int:
        stats = await stats_of(node)
        if as_json:
            click.echo(json.dumps(_describe(node) | asdict(stats)))
            return 0
        for line in _lines(node, stats):
            click.echo(line)
        rows = _rows(stats)
        if rows:
            write_table(("PEER", "LINK", "ADDRESS", "ON THE WAY", "WAITS FOR"), rows)
        if stats.holds:
            held = [[it.peer, it.queue, it.delivery.label, it.reason] for it in stats.holds]
            write_table(("NO ROOM FOR", "TO QUEUE", "CLASS", "AS"), held)
        hands = [
            [
                name,
                it.name or "-",
                str(it.pid or "-"),
                str(it.messages),
                age_of(it.since_s) if it.messages else "-",
                it.waits_for or "-",
            ]
            for name, queue in stats.queues.items()
            for it in queue.holders
        ]
        if hands:
            write_table(("QUEUE", "IN THE HANDS OF", "PID", "MESSAGES", "SINCE", "WAITS FOR"), hands)
        return 0

    return run(visit(data, work))


def _describe(node: Host) -> dict[str, Any]:
    runs = isinstance(node, triack.Client)
    listening = node.address or None
    return {"running": runs, "name": node.name if runs else None, "node_id": node.node_id, "listening": listening}


def _lines(node: Host, stats: triack.NodeStats) -> list[str]:
    where = f"listens on {node.address}" if node.address else "listens nowhere"
    runs = f"{node.name} runs, {where}" if isinstance(node, triack.Client) else "no process runs it"
    low = ", too little: nothing new is accepted" if stats.store_low else ""
    room = [] if stats.room_bytes is None else [f"room on the disk: {size_of(stats.room_bytes)}{low}"]
    unread = sum(queue.messages for name, queue in stats.queues.items() if name != DEAD_LETTER_QUEUE)
    letters = stats.queues[DEAD_LETTER_QUEUE].messages
    return [runs, f"node id {node.node_id}", *room, f"unread: {unread}, dead letters: {letters}"]


def _rows(stats: triack.NodeStats) -> list[list[str]]:
    """Each peer that it sends to, or has a session with."""
    sessions = {it.peer: it for it in stats.sessions}
    on_the_way: Counter[str] = Counter()
    for it in stats.outgoing:
        on_the_way[it.peer] += it.messages
    rows = []
    for peer in sorted(stats.links.keys() | sessions.keys()):
        link, session = stats.links.get(peer), sessions.get(peer)
        state = "suspended" if link is not None and link.suspended else "down" if session is None else "up"
        address = "-" if session is None else session.address
        held = sorted({it.held for it in stats.outgoing if it.peer == peer and it.held is not None})
        waits_for = (None if link is None else link.waits_for) or (f"room: {', '.join(held)}" if held else None)
        rows.append([peer, state, address, str(on_the_way[peer]), waits_for or "-"])
    return rows


def age_of(seconds: float | None) -> str:
    """A number of seconds as people say it."""
    if seconds is None:
        return "-"
    for length, unit in _UNITS:
        if seconds >= length:
            return f"{seconds / length:.1f}{unit}"
    return f"{seconds:.0f}s"


def size_of(size_bytes: int) -> str:
    """A number of bytes as people say it."""
    for length, unit in _SIZES:
        if size_bytes >= length:
            return f"{size_bytes / length:.1f} {unit}"
    return counted(size_bytes, "byte")
