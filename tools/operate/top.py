"""``triack top``: the peers and queues of a running node, with their rates, drawn again and again."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

import triack
from triack.tools.commands.common import FloatRange, existing_data_option, json_line, json_option, run, write_table
from triack.tools.commands.status import BRIDGE_HEAD, bridge_row, peers_of, state_of, trouble_lines, waiting_for
from triack.tools.commands.visiting import connected
from triack.tools.commands.watching import repeat
from triack.tools.operate.amounts import age_of, size_of

FIRST_S = 0.5
"""With --once: the time between the two looks of which the rates are made."""


@dataclass(frozen=True, slots=True)
class Rates:
    """The rates between two looks at a node."""

    before: triack.NodeStats
    now: triack.NodeStats
    seconds: float

    def peers(self) -> list[dict[str, Any]]:
        """A row for each peer that the node sends to, or has a session with."""
        return [self._peer(*it) for it in peers_of(self.now)]

    def _peer(self, peer: str, link: triack.LinkStats | None, session: triack.SessionStats | None) -> dict[str, Any]:
        before = self.before.links.get(peer)
        waits_for = None if link is None else link.waits_for
        mine, waiting = [it for it in self.now.outgoing if it.via == peer], waiting_for(self.now)[peer]
        accepted_before = sum(it.accepted for it in self.before.outgoing if it.via == peer)
        return {
            "peer": peer,
            "state": state_of(link, session),
            "round_trip_s": None if session is None else session.round_trip_s,
            "window": None if session is None else session.window,
            "unacknowledged": None if session is None else session.unacknowledged,
            "waiting": waiting.messages,
            "oldest_s": waiting.oldest_s,
            "sent_per_s": self._rate(sum(it.accepted for it in mine), accepted_before),
            "resends_per_s": self._rate(0 if link is None else link.resends, 0 if before is None else before.resends),
            "stalled_s": max((it.stalled_s for it in mine if it.stalled_s is not None), default=None),
            "waits_for": waits_for or next((f"room: {it.held}" for it in mine if it.held), None),
        }

    def queues(self) -> list[dict[str, Any]]:
        """A row for each queue of the node."""
        return [self._queue(name, it) for name, it in self.now.queues.items()]

    def _queue(self, name: str, queue: triack.QueueStats) -> dict[str, Any]:
        before = self.before.queues.get(name)
        return {
            "queue": name,
            "messages": queue.messages,
            "in_hand": queue.in_hand,
            "bytes": queue.bytes,
            "oldest_s": queue.oldest_s,
            "in_per_s": self._rate(queue.arrived, 0 if before is None else before.arrived),
            "out_per_s": self._rate(queue.left, 0 if before is None else before.left),
            "is_full": queue.is_full,
        }

    def bridges(self) -> list[dict[str, Any]]:
        """A row for each bridge to a broker."""
        return [self._bridge(it) for it in self.now.bridges]

    def _bridge(self, it: triack.BridgeStats) -> dict[str, Any]:
        before = next((one for one in self.before.bridges if one.name == it.name), None)
        return asdict(it) | {
            "taken_per_s": self._rate(it.taken, 0 if before is None else before.taken),
            "given_per_s": self._rate(it.given, 0 if before is None else before.given),
        }

    def acks(self) -> dict[str, float]:
        """Acks that left in a second, by kind."""
        return {
            kind: self._rate(sum(causes.values()), sum(self.before.acks.get(kind, {}).values()))
            for kind, causes in self.now.acks.items()
        }

    def _rate(self, now: int, before: int) -> float:
        return round(max(0, now - before) / self.seconds, 1) if self.seconds > 0 else 0.0


_SORTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "name": lambda row: row.get("peer") or row.get("queue"),
    "messages": lambda row: -(row["messages"] if "messages" in row else row["waiting"]),
    "oldest": lambda row: -(row["oldest_s"] or 0),
    "rate": lambda row: -(row["in_per_s"] + row["out_per_s"] if "in_per_s" in row else row["sent_per_s"]),
}


@click.command()
@click.option("--once", is_flag=True, help="Write one view and end.")
@click.option("--every", "every_s", type=FloatRange(min=0.1), default=1.0, metavar="S", help="Look every S seconds.")
@click.option("--sort", type=click.Choice(list(_SORTS)), default="name", help="Order of the rows.  [default: name]")
@json_option
@existing_data_option
def top(*, data: Path, once: bool, every_s: float, sort: str, as_json: bool) -> int:
    """Watch a running node: its peers and queues, with rates, until Ctrl-C.

    Rates are those since the last look. With --json, each look is one object in a line.
    """
    return run(_top(data, every_s=every_s, once=once, sort=_SORTS[sort], as_json=as_json))


async def _top(data: Path, *, every_s: float, once: bool, sort: Callable[[dict[str, Any]], Any], as_json: bool) -> int:
    async with connected(data) as node:
        last = await node.stats(), time.monotonic()
        await asyncio.sleep(FIRST_S if once else min(FIRST_S, every_s))

        async def draw() -> None:
            nonlocal last
            now = await node.stats(), time.monotonic()
            rates, last = Rates(last[0], now[0], now[1] - last[1]), now
            if as_json:
                found = {"peers": rates.peers(), "queues": rates.queues(), "acks_per_s": rates.acks()}
                sorted_ = {key: _sorted(it, sort) for key, it in found.items()}
                click.echo(json_line({"name": node.name, **sorted_, "bridges": rates.bridges()}))
            else:
                _write(node.name, rates, sort)

        await repeat(draw, None if once else every_s)
    return 0


def _sorted(rows: Any, sort: Callable[[dict[str, Any]], Any]) -> Any:
    return sorted(rows, key=sort) if isinstance(rows, list) else rows


def _write(name: str, rates: Rates, sort: Callable[[dict[str, Any]], Any]) -> None:
    acks = ", ".join(f"{kind} {count:g}" for kind, count in rates.acks().items())
    click.echo(f"{name}: {len(rates.now.sessions)} sessions, acks a second: {acks}")
    for line in trouble_lines(rates.now):
        click.echo(line)
    peers = [
        [
            it["peer"],
            it["state"],
            None if it["round_trip_s"] is None else f"{it['round_trip_s'] * 1_000:.1f}ms",
            None if it["window"] is None else f"{it['unacknowledged']}/{it['window']}",
            it["waiting"],
            age_of(it["oldest_s"]),
            f"{it['sent_per_s']:g}",
            f"{it['resends_per_s']:g}",
            age_of(it["stalled_s"]),
            it["waits_for"],
        ]
        for it in sorted(rates.peers(), key=sort)
    ]
    if peers:
        head = ("PEER", "LINK", "RTT", "WINDOW", "WAITING", "OLDEST", "SENT/S", "RESENT/S", "STALLED", "WAITS FOR")
        write_table(head, peers)
    if rates.now.bridges:
        paced = zip(rates.now.bridges, rates.bridges(), strict=True)
        rows = [[*bridge_row(it), f"{row['taken_per_s']:g}", f"{row['given_per_s']:g}"] for it, row in paced]
        write_table((*BRIDGE_HEAD, "TAKEN/S", "GIVEN/S"), rows)
    queues = [
        [
            it["queue"],
            it["messages"],
            it["in_hand"],
            size_of(it["bytes"]),
            age_of(it["oldest_s"]),
            f"{it['in_per_s']:g}",
            f"{it['out_per_s']:g}",
            "full" if it["is_full"] else "",
        ]
        for it in sorted(rates.queues(), key=sort)
    ]
    write_table(("QUEUE", "MESSAGES", "IN HAND", "SIZE", "OLDEST", "IN/S", "OUT/S", ""), queues)
