"""The verbs of a node about its routes, and about what waits here for other nodes."""

from collections.abc import Iterable

from triack.base.checks import check_kind
from triack.node.shell.engine_handle import EngineHandle, OnPort
from triack.queues.routes import Route
from triack.queues.transit.transit_purge import TransitPurge
from triack.transport.address import Destination


class Routing(OnPort):
    """The verbs of a ``Node`` about its routes."""

    async def set_routes(self, routes: Iterable[Route]) -> None:
        """Have these routes, in the order in which they are tried, and no others. They last until the node is closed.

        What has not arrived yet also goes by them: messages of this node, and of others that wait here.

        Raises:
            UsageError: one of them is no Route.
        """
        await self._port.set_routes(routes)

    async def explain_route(self, name: str) -> list[str]:
        """Say where messages for a node go, by its name as in a destination.

        Returns:
            Every rule that has something to say about it, in words. The first one counts; none: it has no way.

        Raises:
            AddressError: no node has such a name.
        """
        port = self._port
        port.check_alive()
        check_kind("explain a route: the name", name, str)
        parsed = Destination.parse(f"{name}/queue")
        now_ns, ways = port.clock(), port.engine.ways
        return port.routes.explain(parsed.peer or str(parsed.address), lambda it: ways.explain(it, now_ns))

    async def purge_transit(self, name: str) -> int:
        """Remove the messages of other nodes that wait here for a node, by its name in ``transit`` of ``stats``.

        Recoverable messages become dead letters here. Transactional ones become dead letters where they were sent.
        Express ones are lost. They leave in portions, each in a separate commit. If a node that has sent some of them
        is away, and may not hear of more, the others stay here. ``purge`` removes those for one queue. Returns the
        number of messages.
        """
        check_kind("purge transit: the name", name, str)
        return await purge_passing(self._port, name)


async def purge_passing(port: EngineHandle, final: str, queue: str | None = None) -> int:
    """Remove what waits here for a node, or for one queue of it; durable when this returns."""
    await port.commit()  # what is only about to be stored is there, too
    purge, purged = TransitPurge(port.transits, final, queue), 0
    while purge.has_more:
        port.check_alive()
        removed = port.engine.purge_transit(purge, port.clock())
        purged += removed
        if removed:
            await port.commit()
        elif purge.has_more:  # the dead letters of a portion, and the reports about it, leave before the next one
            await port.next_round()
    await port.commit()
    return purged
