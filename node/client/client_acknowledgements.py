"""Events about the outcomes of messages of one outgoing queue of a node in another process."""

import contextlib

from triack.base.errors import NodeClosed
from triack.node.client.client_events import Feed
from triack.node.control.codec import read_events
from triack.node.control.control_frames import Caller, Header
from triack.node.handles.acknowledgements import AckHandler, handle_each
from triack.queues.streams.ack_events import AckEvent, AckKind


class ClientAcknowledgements(Feed[AckEvent]):
    """An async iterator over the events of one outgoing queue of the node; see ``Acknowledgements``.

    When the process of the node ends, it waits for the next one. Then a ``GAP`` comes, and the outcomes of what that
    process has not settled. It raises NodeClosed when the client is closed, or its patience has ended.
    """

    def _gap(self) -> AckEvent:
        return AckEvent(AckKind.GAP, 1, 0, "the process of the node went away")

    def _read(self, header: Header) -> list[AckEvent]:
        return read_events(header)


async def handle(client: Caller, events: ClientAcknowledgements, destination: str, handler: AckHandler) -> None:
    """Call a handler with one event after the other, until the client is closed."""
    with contextlib.suppress(NodeClosed):
        while True:
            with contextlib.suppress(NodeClosed):
                await handle_each(events, destination, handler)
                return
            await client.connected(patient=True)
