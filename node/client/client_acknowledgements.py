"""Events that tell of the outcomes of messages of one outgoing queue of a node in another process."""

import contextlib
from collections.abc import Callable

from triack.base.ack_trigger import AckTrigger
from triack.base.checks import check_kind
from triack.base.delivery import check_priority, check_sent
from triack.base.errors import NodeClosed, UsageError
from triack.node.client.client_events import Feed
from triack.node.control.control_frames import Caller, Header
from triack.node.control.told import read_events
from triack.node.handles.acknowledgements import AckHandler, handle_each
from triack.node.handles.derived import Said
from triack.node.shell.link_events import EVENTS_MAX
from triack.queues.streams.ack_events import AckEvent, AckKind

__all__ = ["ClientAcknowledgements", "check_acknowledgements", "handle"]


class ClientAcknowledgements(Feed[AckEvent]):
    """An async iterator over the events of one outgoing queue of the node; see ``Acknowledgements``.

    When the process of the node ends, it waits for the next one; then a ``GAP`` comes, and the outcomes of what that
    process has not settled. It raises NodeClosed when the client is closed, or its patience is over.
    """

    def _gap(self) -> AckEvent:
        return AckEvent(AckKind.GAP, 1, 0, "the process of the node went away")

    def _read(self, header: Header) -> list[AckEvent]:
        return read_events(header)

    async def get_many(self, most: int = EVENTS_MAX) -> list[AckEvent]:
        """The next events, in order; see ``Acknowledgements.get_many``."""
        first = await anext(self, None)
        if first is None:
            return []
        return [first, *(self._unread.popleft() for _ in range(min(most - 1, len(self._unread))))]


def check_acknowledgements(said: Said) -> None:
    """Raises UsageError for arguments of ``Node.acknowledgements`` that are of a wrong type."""
    destination, delivery, every = said["destination"], said["delivery"], said["every"]
    check_sent("acknowledgements of", destination, delivery)
    check_priority(destination, delivery, said["priority"])
    if not isinstance(every, AckTrigger | None) and every != "message":
        raise UsageError(f"acknowledgements of {destination}: every must be an AckTrigger or 'message', not {every!r}")
    check_kind(f"acknowledgements of {destination}: handler", said["handler"], Callable | None)


async def handle(client: Caller, events: ClientAcknowledgements, destination: str, handler: AckHandler) -> None:
    """Call a handler with one event after the other, until the client is closed."""
    with contextlib.suppress(NodeClosed):
        while True:
            with contextlib.suppress(NodeClosed):
                await handle_each(events, destination, handler)
                return
            await client.connected(patient=True)
