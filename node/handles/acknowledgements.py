"""Events about the outcomes of messages of one outgoing queue."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from itertools import islice
from typing import Literal

from triack.base.ack_trigger import AckTrigger
from triack.base.checks import check_kind
from triack.base.delivery import Delivery, check_priority, check_sent
from triack.base.errors import UsageError
from triack.node.shell.engine_handle import EngineHandle, OnPort
from triack.node.shell.event_loop import is_cancelled, when_dropped
from triack.node.shell.link_events import Reader
from triack.queues.streams.ack_events import AckEvent, AckEvents
from triack.queues.streams.outgoing_stream import OutgoingStream

AckHandler = Callable[[AckEvent], Awaitable[None] | None]
"""Gets one event after the other."""

Every = AckTrigger | Literal["message"] | None
"""When acknowledgements become an event: by a trigger, for each message, or as the settings say."""


class Acknowledgements(Reader[AckEvent]):
    """An async iterator over the events of one outgoing queue, until it is closed or the node ends.

    A late reader loses nothing. Unread acknowledgements become one event, or one range if each message has its own
    event; only failures between them keep them apart. With a thousand such ranges unread, ``send`` to that queue waits
    until some are read. A reader that is dropped is closed.
    """

    def __init__(self, port: EngineHandle, outgoing: OutgoingStream, trigger: AckTrigger | None) -> None:
        super().__init__()
        self._wake = port.wake
        self._events = port.watch(outgoing, trigger, self._arrived.set)
        self._end = partial(_end, self._events, port.wake)
        when_dropped(self, self._end)

    def _take(self, most: int) -> list[AckEvent]:
        was_full = self._events.is_full
        told = list(islice(iter(self._events.poll, None), most))
        if told and was_full:
            self._wake()  # senders may continue
        self._has_ended = self._events.ended
        return told

    def close(self) -> None:
        """Gather no more; unread events can still be read. A second call does nothing."""
        self._end()


def _end(events: AckEvents, wake: Callable[[], None]) -> None:
    """End the events; senders that wait for the reader continue."""
    events.end()
    wake()


class Acknowledging(OnPort):
    """The verbs of a ``Node`` about acknowledgements."""

    def acknowledgements(
        self,
        destination: str,
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        every: Every = None,
        handler: AckHandler | None = None,
        priority: int | None = None,
    ) -> Acknowledgements:
        """Outcomes of the messages to a queue, in the order of sending, from the oldest that is not settled.

        A message is acknowledged by the ack that frees its class: the order ack a transactional one, the store ack a
        recoverable one, the session ack an express one. A failure has a separate event, without delay, after those of
        all messages acknowledged before it. Without an outcome there is no event.

        Args:
            destination: as for ``send``.
            delivery: the class; each has its own outgoing queue.
            every: ``"message"`` for an event of each message; an ``AckTrigger`` for one event of all messages
                acknowledged when its first condition holds, where ``window_share`` is of ``max_unacked_packet`` and
                counts messages. ``AckTrigger(count=1)`` is one event for each acknowledgement that comes. None: as
                ``NodeSettings.ack_events`` says.
            handler: called with each event, one after the other, awaited if it is async, until ``close`` or the end of
                the node, which waits for it as it does for the last acks. An exception goes to the event loop's
                exception handler, and the handler gets the next event. With a handler, read the iterator nowhere else.
            priority: of the messages: each has its own outgoing queue; None: the default of the class.

        Returns:
            An async iterator over ``AckEvent``.

        Raises:
            AddressError, NotLoopback, QueueNotFound, UsageError: as for ``send``.
        """
        port = self._port
        check_events(destination, delivery, every, handler, priority)
        trigger = None if every == "message" else every or port.settings.ack_events
        events = Acknowledgements(port, port.outgoing_stream(destination, delivery, priority), trigger)
        if handler is not None:
            port.start_handler(handle_each(events, destination, handler))
        return events


def check_events(destination: str, delivery: Delivery, every: object, handler: object, priority: object) -> None:
    """Raise UsageError for arguments of ``acknowledgements`` that have a wrong type."""
    check_sent("acknowledgements of", destination, delivery)
    check_priority(destination, delivery, priority)
    if not isinstance(every, AckTrigger | None) and every != "message":
        raise UsageError(f"acknowledgements of {destination}: every must be an AckTrigger or 'message', not {every!r}")
    check_kind(f"acknowledgements of {destination}: handler", handler, Callable | None)


async def handle_each(events: AsyncIterator[AckEvent], destination: str, handler: AckHandler) -> None:
    """Call a handler with one event after the other."""
    async for event in events:
        try:
            waits = handler(event)
            if inspect.isawaitable(waits):
                await waits
        except (Exception, asyncio.CancelledError) as error:
            if is_cancelled():
                raise
            # It is the application's, and goes to its loop.
            message = f"the handler of acknowledgements of {destination} failed with {event}"
            asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})
