"""``triack stream``: the state of single streams, so that an operator sees why one does not move."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import click

import triack
from triack.base.printable import counted
from triack.tools.commands.common import CommandGroup, json_line, json_option, verbose_option, write_table
from triack.tools.commands.visiting import Host, on_node, stats_of
from triack.tools.operate.amounts import age_of

StreamStats = triack.OutgoingStreamStats | triack.IncomingStreamStats | triack.TransitStreamStats

_MEANING = {
    "resume": "an operator has paused it; `triack queue resume` ends that",
    "restart": "one of the two stores is an older copy; `triack status` says what to do",
    "key": "the node does not trust the peer; `triack trust add` changes that",
    "address": "no address of the peer is known, so the peer has to connect",
    "answer": "the peer does not answer",
    "start": "no process runs the node",
    "route": "no route and no peer leads there; `triack route test` says more",
    "relay": "a relay has all of it on its disk, and passes it on when it can",
    "order-ack": "all of it was sent; the destination has not confirmed that it accepted it",
    "store-ack": "all of it was sent; the next node has not confirmed that it is on its disk",
    "session-ack": "all of it was sent; the next node has not confirmed that it arrived",
}


@click.group(cls=CommandGroup, no_args_is_help=False)
def stream() -> None:
    """Show the state of streams: why one does not move, and when it is sent again.

    A stream is all messages of one node to one queue of another in one class. Works while the node runs and, for what
    its store knows, while it does not.
    """


@stream.command("list")
@verbose_option
@click.option("--waiting", is_flag=True, help="Only those of which something waits.")
@json_option
@on_node(only_looks=True)
async def list_streams(node: Host, *, waiting: bool, as_json: bool) -> None:
    """List the streams of the node: those that it sends, receives and passes on."""
    streams = (await stats_of(node)).streams
    rows = [(kind, it) for kind, it in _each(streams) if it.is_busy or not waiting]
    if as_json:
        for kind, it in rows:
            click.echo(json_line(_describe(kind, it)))
        return
    write_table(
        ("STREAM", "", "CLASS", "PRIORITY", "PACKETS", "LAST ACK", "STATE", "WAITS FOR", "AGAIN IN"),
        [_row(kind, it) for kind, it in rows],
    )
    if streams.left_out:
        click.echo(f"{counted(streams.left_out, 'stream')} more; `triack stream show NAME` finds any of them")


@stream.command()
@verbose_option
@click.argument("name")
@json_option
@on_node(only_looks=True)
async def show(node: Host, *, name: str, as_json: bool) -> None:
    """Show all that is known of the streams of NAME: a peer, a destination PEER/QUEUE, or a queue of the node."""
    found = node.streams(name)
    streams = found if isinstance(found, triack.StreamsStats) else await found
    for kind, it in _each(streams):
        if as_json:
            click.echo(json_line(_describe(kind, it)))
            continue
        head = f"{it.name}: {_KINDS[kind]} {it.delivery.label} stream {it.number}"
        click.echo(f"{head}, priority {it.priority}, sequence {it.sequence}")
        for line in _lines(it):
            click.echo(f"  {line}")
    if not as_json and not any(True for _ in _each(streams)):
        click.echo(f"{name} has no streams")


_KINDS = {"out": "outgoing", "in": "incoming", "transit": "passing"}


def _each(streams: triack.StreamsStats) -> Iterable[tuple[str, StreamStats]]:
    yield from (("out", it) for it in streams.outgoing)
    yield from (("in", it) for it in streams.incoming)
    yield from (("transit", it) for it in streams.transit)


def _describe(kind: str, it: StreamStats) -> dict[str, Any]:
    return {"kind": kind, "stream": it.name} | asdict(it) | {"delivery": it.delivery.label}


def _row(kind: str, it: StreamStats) -> list[object]:
    if isinstance(it, triack.IncomingStreamStats):
        where, packets = f"{kind} from {it.peer}", f"{it.out_of_order} early" if it.out_of_order else "0"
        state = "held" if it.held else "-" if it.via is None else "connected"
        words = [state, f"room: {it.held}" if it.held else "-", "-"]
    else:
        where = kind if isinstance(it, triack.OutgoingStreamStats) else f"from {it.came_by}"
        packets = f"{it.to_send} to send, {it.sent} sent" if it.is_busy else "0"
        words = [it.state, it.waits_for or "-", age_of(it.again_s)]
    return [it.name, where, it.delivery.label, it.priority, packets, it.acked, *words]


def _lines(it: StreamStats) -> Iterable[str]:
    if isinstance(it, triack.IncomingStreamStats):
        yield from _incoming_lines(it)
        return
    meaning = "" if it.waits_for is None else f": {_MEANING.get(it.waits_for, f'waits for {it.waits_for}')}"
    yield f"{it.state}{meaning}"
    if it.again_s is not None:
        yield f"{_next_step(it)} in {age_of(it.again_s)}"
    if it.is_busy:
        which = f"packet {it.first} is" if it.first == it.last else f"packets {it.first} to {it.last} are"
        yield f"{which} not acknowledged: {it.to_send} to send, {it.sent} sent"
    else:
        yield "nothing waits"
    if isinstance(it, triack.OutgoingStreamStats):
        yield from _outgoing_lines(it)
    else:
        yield f"comes by {it.came_by}, goes by {it.via or 'no neighbour'}"
        if it.acked is not None:
            yield f"order ack of its destination: packet {it.acked}"


def _next_step(it: triack.OutgoingStreamStats | triack.TransitStreamStats) -> str:
    if it.waits_for == "answer":
        return "calls the peer again"
    return "asks with one packet whether there is room" if it.state == "held" else "sends again"


def _outgoing_lines(it: triack.OutgoingStreamStats) -> Iterable[str]:
    yield f"goes by {it.via}; the next packet has number {it.next_number}"
    if it.acked is not None:
        times = "" if it.acked_times == 1 else f", {it.acked_times} times"
        yield f"last order ack: packet {it.acked}, {age_of(it.acked_s)} ago{times}"
    elif it.delivery is triack.TRANSACTIONAL:
        yield "no order ack since the node started"
    if it.kept:
        yield f"{counted(it.kept, 'packet')} kept until all of the message is acknowledged"
    if it.tier is not None:
        so_far = f"{counted(it.resends, 'packet')} sent again so far"
        yield f"resend tier {it.tier}: {counted(it.attempts, 'attempt')} in a row; {so_far}"
    if it.relay_has is not None:
        yield f"a relay has everything up to packet {it.relay_has}"
    if it.stalled_s is not None:
        yield f"nothing was acknowledged for {age_of(it.stalled_s)}"


def _incoming_lines(it: triack.IncomingStreamStats) -> Iterable[str]:
    yield f"from {it.peer}{'' if it.via in (it.peer, None) else f' by way of {it.via}'}"
    if it.via is None:
        yield "no session brings packets of it now"
    if it.held is not None:
        yield f"its sender waits for room: {it.held}"
    if it.accepted is not None:
        yield f"accepted up to packet {it.accepted}; {it.out_of_order} wait for others before them"
    yield f"{counted(it.rejected, 'packet')} not accepted since the last one that was; {it.refused} rejected for good"
    if it.acked is not None:
        yield f"last order ack: packet {it.acked}, {age_of(it.acked_s)} ago"
