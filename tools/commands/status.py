"""``triack status``: how a node is, at one look."""

import json
from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import Any

import click

import triack
from triack.base.printable import printable
from triack.queues.mailboxes.system_queues import DEAD_LETTER_QUEUE, awaits_reader
from triack.tools.commands.common import json_option, verbose_option, write_table
from triack.tools.commands.visiting import Host, on_node, stats_of
from triack.tools.commands.watching import repeat, watch_option
from triack.tools.operate.amounts import age_of, size_of

BRIDGE_HEAD = ("BRIDGE", "BROKER", "LINK", "TAKEN", "GIVEN", "WAITING", "REPEATED", "REFUSED", "DROPPED", "WAITS FOR")

EXIT_NOT_RUNNING = 3
_SORTS = ("peer", "waiting", "state")


@dataclass(slots=True)
class OnTheWay:
    """Messages that go to one peer from here, and have not arrived yet."""

    messages: int = 0
    oldest_s: float | None = None

    def add(self, messages: int, oldest_s: float | None) -> None:
        """Add messages."""
        self.messages += messages
        if oldest_s is not None:
            self.oldest_s = max(self.oldest_s or 0.0, oldest_s)


@click.command()
@verbose_option
@json_option
@watch_option
@click.option("--sort", type=click.Choice(_SORTS), default="peer", help="Order of the peers.  [default: peer]")
@on_node(only_looks=True)
async def status(node: Host, *, as_json: bool, watch_s: float | None, sort: str) -> int:
    """Show how a node is: whether a process runs it, its links, its disk, what is unread, and what is wrong.

    Each trouble has a line with what is wrong and one with what to do; `triack help troubles` says more. With --json it
    is one object that has all that `node.stats()` counts, by the same names (`triack help metrics`). The exit code is 0
    while a process runs the node, and 3 when none does.
    """

    async def draw() -> None:
        stats = await stats_of(node)
        if as_json:
            click.echo(json.dumps(_describe(node) | asdict(stats)))
        else:
            _write(node, stats, sort)

    await repeat(draw, watch_s)
    return 0 if isinstance(node, triack.Client) else EXIT_NOT_RUNNING


def _write(node: Host, stats: triack.NodeStats, sort: str) -> None:
    for line in (*_lines(node, stats), *trouble_lines(stats)):
        click.echo(line)
    rows = _rows(stats)
    if sort != "peer":
        rows.sort(key=(lambda row: -int(row[3])) if sort == "waiting" else (lambda row: row[1]))
    if rows:
        write_table(("PEER", "LINK", "ADDRESS", "ON THE WAY", "OLDEST", "WAITS FOR"), rows)
    if stats.ways:
        ways = [[it.to, it.via, ", ".join(it.ways), it.why] for it in stats.ways]
        write_table(("ROUTE FOR", "GOES BY", "OF", "WHY"), ways)
    if stats.holds:
        held = [[it.peer, it.queue, it.delivery.label, it.reason] for it in stats.holds]
        write_table(("NO ROOM FOR", "TO QUEUE", "CLASS", "AS"), held)
    if stats.bridges:
        write_table(BRIDGE_HEAD, [bridge_row(it) for it in stats.bridges])
    hands = [
        [name, it.name or "-", it.pid or "-", it.messages, age_of(it.since_s if it.messages else None), it.waits_for]
        for name, queue in stats.queues.items()
        for it in queue.holders
    ]
    if hands:
        write_table(("QUEUE", "IN THE HANDS OF", "PID", "MESSAGES", "SINCE", "WAITS FOR"), hands)


def trouble_lines(stats: triack.NodeStats) -> list[str]:
    """What is wrong, and what to do, a line each."""
    lines: list[str] = []
    for it in stats.troubles:
        seen = [f"{it.times} times"] if it.times > 1 else []
        seen += [f"for {age_of(it.since_s)}"] if it.since_s is not None else []
        how_often = f" ({', '.join(seen)})" if seen else ""
        lines += [f"trouble: {printable(it.cause)}{how_often}", f"  to do: {printable(it.remedy)}"]
    return lines


def bridge_row(it: triack.BridgeStats) -> list[object]:
    """A bridge, by the names of ``BRIDGE_HEAD``."""
    counts = (it.taken, it.given, it.waiting, it.repeated, it.refused, it.dropped)
    return [it.name, it.broker, "up" if it.is_up else "down", *counts, printable(it.waits_for or "-")]


def _describe(node: Host) -> dict[str, Any]:
    runs = isinstance(node, triack.Client)
    listening = node.address or None
    return {"running": runs, "name": node.name if runs else None, "node_id": node.node_id, "listening": listening}


def _lines(node: Host, stats: triack.NodeStats) -> list[str]:
    where = f"listens on {node.address}" if node.address else "listens nowhere"
    runs = f"{node.name} runs, {where}" if isinstance(node, triack.Client) else "no process runs it"
    low = ", too little: nothing new is accepted" if stats.store_low else ""
    room = [] if stats.room_bytes is None else [f"room on the disk: {size_of(max(0, stats.room_bytes))}{low}"]
    unread = sum(it.messages for name, it in stats.queues.items() if awaits_reader(name))
    letters = stats.queues[DEAD_LETTER_QUEUE].messages
    return [runs, f"node id {node.node_id}", *room, f"unread: {unread}, dead letters: {letters}"]


def _rows(stats: triack.NodeStats) -> list[list[str]]:
    """Each peer that it sends to, passes messages on to, or has a session with, and messages without a route."""
    on_the_way = waiting_for(stats)
    lost = on_the_way[""]
    rows = [["-", "no route", "-", str(lost.messages), age_of(lost.oldest_s), "route"]] if lost.messages else []
    for peer, link, session in peers_of(stats):
        state = state_of(link, session)
        address = "-" if session is None else session.address
        held = sorted({it.held for it in stats.outgoing if it.via == peer and it.held is not None})
        waits_for = (None if link is None else link.waits_for) or (f"room: {', '.join(held)}" if held else None)
        mine = on_the_way[peer]
        rows.append([peer, state, address, str(mine.messages), age_of(mine.oldest_s), waits_for or "-"])
    return rows


def waiting_for(stats: triack.NodeStats) -> defaultdict[str, OnTheWay]:
    """Messages that have not arrived yet, those of other nodes included, by the peer that they go to from here.

    The empty name has those that no route leads to their destination.
    """
    waiting: defaultdict[str, OnTheWay] = defaultdict(OnTheWay)
    for out in stats.outgoing:
        waiting[out.via].add(out.messages, out.oldest_s)
    for passed_on in stats.transit:
        waiting[passed_on.via].add(passed_on.messages, passed_on.oldest_s)
    return waiting


def peers_of(stats: triack.NodeStats) -> list[tuple[str, triack.LinkStats | None, triack.SessionStats | None]]:
    """The name, the link and the session of each peer that a node sends to, or has a session with."""
    serving = [it.session for it in stats.links.values() if it.session is not None]
    others = {it.peer: it for it in stats.sessions if it not in serving and it.peer not in stats.links}
    found = [(peer, link, link.session or _session_with(peer, stats)) for peer, link in stats.links.items()]
    return sorted([*found, *((peer, None, session) for peer, session in others.items())], key=lambda it: it[0])


def state_of(link: triack.LinkStats | None, session: triack.SessionStats | None) -> str:
    """The state of a peer as one word; a session that the peer has opened serves as well."""
    return "up" if link is None or (session is not None and not link.suspended) else link.state


def _session_with(peer: str, stats: triack.NodeStats) -> triack.SessionStats | None:
    return next((it for it in stats.sessions if it.peer == peer), None)
