"""``triack topic``: publish to the topics of a node, read them, and look at the subscriptions to them.

If a process runs the node of the data directory, the command asks that process; if not, it opens the directory.
"""

import asyncio
import sys
from dataclasses import asdict
from typing import Any

import click

import triack
from triack.base.delivery import Delivery
from triack.base.errors import QueueNotFound, UsageError, WaitTimeout
from triack.base.names import what_else
from triack.base.printable import counted, printable
from triack.tools.commands.common import CommandGroup, FloatRange, json_line, json_option, verbose_option, write_table
from triack.tools.commands.visiting import Host, on_node, stats_of
from triack.tools.operate.amounts import age_of

ANSWER_S = 2.0
"""A node that needs longer to answer a request to subscribe may be away, so users learn what the command waits for."""


@click.group(cls=CommandGroup, no_args_is_help=False)
def topic() -> None:
    """Publish to topics of a node, subscribe to them, and look at them.

    A topic has a name of levels, such as Games.Cricket. Works while the node runs; all but `subscribe` without
    --durable works while it does not, too.
    """


@topic.command("list")
@verbose_option
@json_option
@on_node(only_looks=True)
async def list_topics(node: Host, *, as_json: bool) -> None:
    """List the topics of the node by the first level of their names, and how much subscriptions still want of each.

    Below them, the subscriptions of the node to topics of other nodes.
    """
    stats = await stats_of(node)
    topics = stats.topics
    if as_json:
        for root, it in topics.items():
            click.echo(json_line({"topic": root, **asdict(it)}))
        for one in stats.subscriptions:
            click.echo(json_line({"subscription": one.name, **asdict(one)}))
        return
    write_table(
        ("TOPIC", "STRATEGY", "SUBSCRIPTIONS", "MESSAGES", "BYTES", "OLDEST", "NOT DISPATCHED"),
        [
            [root, it.strategy, len(it.subscriptions), it.messages, it.bytes, age_of(it.oldest_s), it.waiting or "-"]
            for root, it in topics.items()
        ],
    )
    if stats.subscriptions:
        write_table(
            ("SUBSCRIPTION", "TOPICS", "", "STATE", "SINCE", "READERS", "PENDING", "WAITS FOR"),
            [
                [
                    it.name,
                    f"{it.peer}/topic:{it.pattern}",
                    _lasting(it) or "-",
                    it.state,
                    age_of(it.since_s),
                    it.readers,
                    it.pending,
                    it.waits_for or "-",
                ]
                for it in stats.subscriptions
            ],
        )


def _lasting(it: triack.SubscriptionStats | triack.RemoteSubscriptionStats) -> str:
    return ("shared" if it.shared else "durable") if it.durable else ""


@topic.command()
@verbose_option
@click.argument("root", metavar="ROOT")
@json_option
@on_node(only_looks=True)
async def show(node: Host, *, root: str, as_json: bool) -> None:
    """Show the subscriptions to topics below ROOT, the first level of their names: what is pending for each."""
    topics = (await stats_of(node)).topics
    if root not in topics:
        raise QueueNotFound(f"there is no topic {root}; {what_else(root, topics)}")
    it = topics[root]
    if as_json:
        click.echo(json_line({"topic": root, **asdict(it)}))
        return
    full = ", at its quota" if it.is_full else ""
    waiting = f", {counted(it.waiting, 'message')} not dispatched" if it.waiting else ""
    click.echo(f"{root}: {it.strategy}, {counted(it.messages, 'message')}, {it.bytes} bytes{waiting}{full}")
    if it.subscriptions:
        _write_subscriptions(it.subscriptions)


def _write_subscriptions(subscriptions: list[triack.SubscriptionStats]) -> None:
    head = ("SUBSCRIPTION", "PATTERN", "", "READERS", "PENDING", "IN HAND", "OLDEST", "BYTES", "DISCARDED", "LATE")
    write_table(
        (*head, "REDELIVERED", "PEER", "ON THE WAY", "WAITS FOR"),
        [
            [
                it.name,
                it.pattern,
                _lasting(it) or ("paused" if it.suspended else "-"),
                it.readers,
                it.pending,
                it.in_hand,
                age_of(it.oldest_s),
                it.bytes,
                it.discarded,
                it.late_acks,
                it.redelivered,
                it.peer or "-",
                it.on_the_way if it.peer else "-",
                it.waits_for or "-",
            ]
            for it in subscriptions
        ],
    )


@topic.command()
@verbose_option
@click.argument("name", metavar="NAME")
@click.option(
    "--class",
    "delivery",
    type=click.Choice([one.label for one in Delivery]),
    default=Delivery.TRANSACTIONAL.label,
    help="The delivery class.  [default: transactional]",
)
@on_node()
async def publish(node: Host, *, name: str, delivery: str) -> None:
    """Publish each line of standard input to the topic NAME."""
    published = 0
    for line in sys.stdin.buffer:
        await node.publish(name, line.rstrip(b"\r\n"), delivery=Delivery[delivery.upper()])
        published += 1
    await node.flush()
    click.echo(f"{counted(published, 'message')} published")


@topic.command()
@verbose_option
@click.argument("pattern", metavar="PATTERN")
@click.option("--durable", metavar="NAME", help="As the durable subscription NAME, which is made if there is none.")
@click.option("--shared", is_flag=True, help="Others may read the durable subscription meanwhile.")
@click.option(
    "--max-unacked", type=click.IntRange(min=1), metavar="N", help="Messages that may be pending; see `Node.subscribe`."
)
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="End after N messages.")
@click.option("--timeout", type=FloatRange(min=0), metavar="S", help="End after S seconds without a message.")
@json_option
@on_node()
async def subscribe(
    node: Host,
    *,
    pattern: str,
    durable: str | None,
    shared: bool,
    max_unacked: int | None,
    count: int | None,
    timeout: float | None,
    as_json: bool,
) -> None:
    """Write each message of the topics that match PATTERN as a line: `Games.*`, `Games.#` or a name.

    It gets what arrives from now on; a durable subscription also what has arrived since it was made. Topics of the node
    hub are `hub/topic:Games.#`; it must let this one subscribe, and the node must run for that.
    """
    if isinstance(node, triack.Node) and "/" in pattern:
        raise UsageError(f"subscribe to {pattern}: no process runs the node, so no other node hears of it")
    if isinstance(node, triack.Node) and durable is None:
        raise UsageError(f"subscribe to {pattern}: no process runs the node, so nothing arrives; say --durable NAME")
    written = 0
    patience = asyncio.create_task(_say_why(node, pattern, durable))
    async with node.subscribe(pattern, durable=durable, shared=shared, max_unacked=max_unacked) as messages:
        patience.cancel()
        while count is None or written < count:
            try:
                message = await messages.get(timeout)
            except WaitTimeout:
                if count is None:
                    return
                raise
            sys.stdout.buffer.write(_line_of(message, as_json=as_json))
            sys.stdout.buffer.flush()
            written += 1


async def _say_why(node: Host, pattern: str, durable: str | None) -> None:
    """Say that the other node has not answered for a while, and why, as far as this one knows."""
    await asyncio.sleep(ANSWER_S)
    stats, peer = await stats_of(node), pattern.partition("/topic:")[0]
    via = next((it.via for it in stats.outgoing if it.peer == peer and it.messages), peer)
    by = "" if via == peer else f", by {via}"
    why = next((f": {it.cause}; {it.remedy}" for it in stats.troubles if it.about in (via, peer, durable, pattern)), "")
    click.echo(printable(f"subscribe to {pattern}: no answer yet{by}{why}; waiting"), err=True)


def _line_of(message: triack.Message, *, as_json: bool) -> bytes:
    if not as_json:
        return message.body + b"\n"
    shown: dict[str, Any] = {"topic": message.topic, "id": message.id, "redelivered": message.redelivered}
    return json_line(shown | {"body": message.body.decode(errors="replace")}).encode() + b"\n"


@topic.command()
@verbose_option
@click.argument("name", metavar="NAME")
@on_node()
async def unsubscribe(node: Host, *, name: str) -> None:
    """End the durable subscription NAME. What waits for it alone is gone.

    One of another node to topics of this one is NODE/NAME, as `triack topic show` names it.
    """
    await node.unsubscribe(name)
    click.echo(f"subscription {name} has ended")
