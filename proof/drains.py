"""Measures the cost of one poll of the engine with and without work: ``make drains``.

Each row has a number of one thing in an engine that is otherwise at rest: queues of this node, outgoing queues,
incoming streams, sessions. *Idle* polls an engine to which nothing happened; *busy* submits one express message to one
peer, polls, and lets the peer's answer come in. Promise: an idle thing costs nothing, so 10,000 cost what one costs.
"""

import time
from collections.abc import Callable
from random import Random
from statistics import median
from typing import Any

from triack.base.commit import StoreContent
from triack.base.delivery import Delivery
from triack.base.peers import Directory
from triack.base.units import MS, SECOND
from triack.queues.manager.effects import Send, StartJob
from triack.queues.manager.engine import Engine
from triack.queues.node_settings import NodeSettings
from triack.session.protocol.settings import SessionSettings
from triack.transport.insecure import InsecureChannels

__all__ = ["COUNTS", "KINDS", "measure"]

COUNTS = (1, 100, 10_000)
ROUNDS = 200
"""Polls of one figure, which is their median."""
SETTINGS = NodeSettings(
    max_sessions=2 * COUNTS[-1],
    max_streams=2 * COUNTS[-1],
    max_queues=2 * COUNTS[-1],
    session=SessionSettings(cleanup_interval_s=86400.0),
)
"""Nothing closes while it is measured."""


class _Node:
    """An engine whose commits take no time, and an address book to hand datagrams over by."""

    def __init__(self, number: int, book: dict[str, "_Node"]) -> None:
        self.address = f"memory://n{number}"
        self.now_ns = SECOND
        self.book = book
        book[self.address] = self
        self.engine = Engine(
            StoreContent(number.to_bytes(16), 1, start=number + 1),
            name=f"n{number}",
            address=self.address,
            settings=SETTINGS,
            queues=None,
            channels=InsecureChannels(),
            directory=Directory(),
            random=Random(number),
            now_ns=self.now_ns,
            wall_offset_ns=0,
            recording=False,
        )

    def settle(self) -> None:
        """Poll until all messages are exchanged, here and at every node that got one."""
        waiting: dict[_Node, None] = {self: None}
        while waiting:
            node = next(iter(waiting))
            del waiting[node]
            for effect in node.engine.poll(self.now_ns):
                if isinstance(effect, StartJob):
                    node.engine.handle_done(effect.job, self.now_ns)
                    waiting[node] = None
                elif isinstance(effect, Send):
                    other = self.book[effect.address]
                    for datagram in effect.datagrams:
                        other.engine.handle_datagram(datagram, node.address, self.now_ns)
                    waiting[other] = None

    def send(self, to: "_Node", queue: str, delivery: Delivery = Delivery.EXPRESS) -> None:
        """Submit one small message."""
        outgoing = self.engine.outgoing_stream(to.address, queue, delivery)
        self.engine.submit(outgoing, b"x", 1)


def _with_queues(node: _Node, peer: _Node, count: int) -> None:  # noqa: ARG001 - one form for all
    for number in range(count):
        node.engine.make_queue(f"q{number}")


def _with_outgoing(node: _Node, peer: _Node, count: int) -> None:
    for number in range(count):
        node.send(peer, f"q{number}")


def _with_streams(node: _Node, peer: _Node, count: int) -> None:
    for number in range(count):
        peer.send(node, f"q{number}", Delivery.TRANSACTIONAL)
    peer.settle()


def _with_sessions(node: _Node, peer: _Node, count: int) -> None:  # noqa: ARG001 - one form for all
    for number in range(count):
        _Node(number + 10, node.book).send(node, "q")
    for other in list(node.book.values()):
        other.settle()


KINDS: dict[str, Callable[[_Node, _Node, int], None]] = {
    "queues": _with_queues,
    "outgoing queues": _with_outgoing,
    "incoming streams": _with_streams,
    "sessions": _with_sessions,
}


def _time_ns(action: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        start_ns = time.perf_counter_ns()
        action()
        times.append(time.perf_counter_ns() - start_ns)
    return median(times)


def _one(kind: str, count: int, rounds: int) -> dict[str, Any]:
    book: dict[str, _Node] = {}
    node, peer = _Node(0, book), _Node(1, book)
    KINDS[kind](node, peer, count)
    node.send(peer, "busy")
    for _ in range(5):
        # Past every delay, so that no ack is owed any more; each poll may ask for the next.
        for each in (node, peer):
            each.now_ns += 20 * SECOND
            each.settle()

    def busy() -> None:
        node.send(peer, "busy")
        node.settle()

    def idle() -> None:
        node.engine.poll(node.now_ns)
        node.engine.next_deadline()

    node.now_ns += MS
    idle_us, busy_us = _time_ns(idle, rounds) / 1e3, _time_ns(busy, rounds) / 1e3
    return {"kind": kind, "count": count, "idle_us": idle_us, "busy_us": busy_us}


def measure(say: Callable[[str], None], counts: tuple[int, ...] = COUNTS, rounds: int = ROUNDS) -> list[dict[str, Any]]:
    """Measure every kind at every count.

    Returns:
        Rows with ``kind``, ``count``, ``idle_us``, ``busy_us``, and ``ratio``: idle against the same with the
        first of the counts.
    """
    rows = []
    for kind in KINDS:
        single_us = 0.0
        for count in counts:
            row = _one(kind, count, rounds)
            single_us = single_us or row["idle_us"]
            row["ratio"] = row["idle_us"] / single_us
            say(
                f"{count:6,} {kind:16} idle {row['idle_us']:8.2f} us ({row['ratio']:.2f} x one)  "
                f"busy {row['busy_us']:8.2f} us"
            )
            rows.append(row)
    return rows
