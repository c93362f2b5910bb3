"""``triack route``: by which neighbours messages of a node, and of others that it relays for, go."""

import re
from dataclasses import asdict
from pathlib import Path

import click

from triack.base.errors import UsageError
from triack.base.peers import Peer
from triack.base.printable import counted
from triack.node.files.private_files import PrivateFiles
from triack.node.files.trust import TrustFile
from triack.queues.routes import Route
from triack.tools.commands.common import existing_data_option, json_line, json_option, run, verbose_option, write_table
from triack.tools.commands.visiting import Host, on_node, visit


@click.group(no_args_is_help=False)
def route() -> None:
    """Show the routes of a node, and what waits for other nodes.

    Routes belong to the process that runs the node: `triack serve --route`, or `triack.open(routes=[...])`.
    """


@route.command("list")
@verbose_option
@json_option
@on_node()
async def list_routes(node: Host, *, as_json: bool) -> None:
    """List the routes in the order in which they are tried."""
    routes = await _routes_of(node)
    if as_json:
        for it in routes:
            click.echo(json_line(asdict(it)))
    elif routes:
        rows = [[it.to, ", ".join(it.ways), it.link, it.rename or "-"] for it in routes]
        write_table(("TO", "VIA", "LINK", "WHICH CALLS IT"), rows)


@route.command("test")
@verbose_option
@click.argument("name")
@click.option("--from", "peer", metavar="PEER", help="As for a message that this peer sends by way of the node.")
@existing_data_option
def explain(*, data: Path, name: str, peer: str | None) -> int:
    """Say where messages for the node NAME, or for NAME/QUEUE, go, and why. The first line counts.

    Ends with 1 if they go nowhere.
    """
    name = name.partition("/")[0]
    known = {it.name: it for it in TrustFile(PrivateFiles(data)).load()}
    if peer is not None and peer not in known:
        raise UsageError(
            f"route test --from {peer}: the node has no such peer; `triack trust list` shows those that it has"
        )

    async def work(node: Host) -> int:
        reasons = await node.explain_route(name)
        refused = "" if peer is None else _refusal(known[peer], name, reasons, await _routes_of(node))
        for line in [refused] if refused else reasons or [f"no peer has the name {name}, and no route is for it"]:
            click.echo(line)
        return 0 if reasons and not refused else 1

    return run(visit(data, work))


def _refusal(peer: Peer, name: str, reasons: list[str], routes: list[Route]) -> str:
    if not peer.may_relay_to(name):
        allowed = " ".join(peer.may_relay) or "nothing"
        return f"access-denied: {peer.name} may send by way of this node to {allowed} (triack trust add --may-relay)"
    if not reasons:
        return f"no-route: no peer has the name {name}, and no route is for it"
    # No name has a comma or a colon.
    leads_by = [re.split("[,:]", reasons[0].partition(f"the route for {it.to} leads by ")[2])[0] for it in routes]
    leads_back = peer.name in leads_by
    return f"route-loop: {reasons[0].partition(': ')[0]}, which sent it" if leads_back else ""


async def _routes_of(node: Host) -> list[Route]:
    routes = node.routes()
    return routes if isinstance(routes, list) else await routes


@route.command()
@verbose_option
@click.argument("name")
@on_node()
async def purge(node: Host, *, name: str) -> None:
    """Remove the messages of other nodes that wait here for the node NAME.

    Recoverable ones become dead letters here, transactional ones where they were sent; express ones are gone.
    """
    click.echo(f"{counted(await node.purge_transit(name), 'message')} removed")


def read_routes(values: tuple[str, ...]) -> list[Route]:
    """The routes of ``--route``, such as ``plant-*=hub``, ``plant-*=hub,seal`` or ``plant-*=hub+hub-2``."""
    routes = []
    for value in values:
        to, separator, way = value.rpartition("=")
        via, comma, seal = way.partition(",")
        if not separator or seal != ("seal" if comma else ""):
            raise UsageError(f"--route {value}: write it as TO=VIA[+VIA][,seal], such as --route 'plant-*=hub'")
        routes.append(Route(to, via.split("+") if "+" in via else via, seal=bool(comma)))
    return routes
