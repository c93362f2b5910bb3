"""One connection to a broker of AMQP 0-9-1, over aiormq: a channel for what comes, and one for what goes.

Every error of the client and of the broker ends it as ``BrokerAway``, with the cause.
"""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, cast
from urllib.parse import quote

from aiormq import Channel, Connection, DeliveryError, PublishError, spec
from aiormq.abc import DeliveredMessage
from aiormq.exceptions import AMQPError, InvalidFrameError

from triack.base.reasons import BridgeReason
from triack.bridges.part import BYTES_MAX, BrokerAway
from triack.node.config.bridge_rules import TakeQueue
from triack.node.config.bridge_table import BridgeTable

HEARTBEAT_S = 20
"""A broker that is silent for three times as long has gone."""
CONNECT_S = 10.0
"""A broker answers long before, also over a bad link."""
LEAVE_S = 2.0
"""For the farewell of a connection; after it the broker finds out by itself."""
GUEST = "guest"
"""User and password that RabbitMQ has for programs of its own machine."""
LOST = "the connection is lost"
"""Of one that aiormq has ended by itself, as nothing came: it cancels what waits for the broker."""
DEFAULT_EXCHANGE = ""
"""Is always there."""

logging.getLogger("aiormq").setLevel(logging.CRITICAL)  # the bridge tells what happens itself


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message of the broker.

    Attributes:
        rule: the rule of its queue.
        tag: its number on the channel, from 1 on.
        payload: its content.
        exchange: where it was published.
        routing_key: by which it was published.
        again: whether the broker says that it may have sent it before.
        properties: as aiormq has them.
        too_large: its size in bytes, if it is too large: then it has no payload.
    """

    rule: TakeQueue
    tag: int
    payload: bytes
    exchange: str
    routing_key: str
    again: bool
    properties: spec.Basic.Properties
    too_large: int = 0


@dataclass(frozen=True, slots=True)
class Departing:
    """A message for the broker."""

    exchange: str
    routing_key: str
    payload: bytes
    properties: spec.Basic.Properties


@asynccontextmanager
async def _asking(what: str) -> AsyncIterator[None]:
    """Raises BrokerAway: errors of aiormq, and no answer in time.

    A broker may send heartbeats, and nothing else.
    """
    try:
        async with asyncio.timeout(CONNECT_S):
            with _told():
                yield
    except TimeoutError:
        raise BrokerAway(f"the broker has not answered for {CONNECT_S:g} s whether {what}") from None


@contextmanager
def _told() -> Iterator[None]:
    """Raises errors of aiormq as BrokerAway."""
    try:
        yield
    except (AMQPError, OSError) as error:
        raise BrokerAway(_in_words(error)) from None


def _in_words(error: BaseException) -> str:
    """What went wrong; an error of aiormq has the broker's own words."""
    if isinstance(error, asyncio.CancelledError):
        return LOST
    words = " ".join(str(word) for word in error.args if word not in (None, "", 0))
    return words or f"the connection has ended ({type(error).__name__})"


class AmqpLink:
    """A connection to a broker.

    Args:
        arrived: gets messages, in the order of the channel.

    Attributes:
        may_read: set while the content of messages is read.
        answered: gets the message id of each message that the broker has, or never takes, with the reason.
    """

    def __init__(self, arrived: Callable[[list[Arrived]], None]) -> None:
        self._arrived = arrived
        self._connection: Connection | None = None
        self.may_read = asyncio.Event()
        self.may_read.set()
        self.answered: Callable[..., None] = lambda *_: None
        self._published: set[asyncio.Task[Any]] = set()
        self._lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @property
    def frame_bytes(self) -> int:
        """The largest frame that the broker takes; all properties of a message must fit into one."""
        assert self._connection is not None
        return self._connection.connection_tune.frame_max

    async def open(self, table: BridgeTable, name: str, tls: ssl.SSLContext | None, password: str | None) -> None:
        """Connect. Raises BrokerAway."""
        (host, port, _), vhost = table.address, table.vhost
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        who = f"{quote(table.user or GUEST, safe='')}:{quote(password or GUEST, safe='')}"
        url = f"{'amqp' if tls is None else 'amqps'}://{who}@{where}/{'' if vhost == '/' else quote(vhost, safe='')}"
        try:
            async with asyncio.timeout(CONNECT_S):
                with _told():
                    connection = Connection(f"{url}?heartbeat={HEARTBEAT_S}&name={quote(name, safe='')}", context=tls)
                    try:
                        await connection.connect()
                    except InvalidFrameError:  # it has the broker's reason, and does not give it
                        raise BrokerAway(f"the broker does not open virtual host {vhost!r}") from None
                    self._connection = connection
                    self._taking = cast("Channel", await connection.channel(publisher_confirms=False))
                    self._giving = cast("Channel", await connection.channel())
                    await self._taking.basic_qos(prefetch_count=table.in_flight)
                    self._take_over(self._taking)
        except (KeyError, ValueError) as error:  # of the broker's properties, among which aiormq looks for confirms
            raise BrokerAway(f"{where}: the broker does not say that it has publisher confirms: {error}") from None
        except TimeoutError:
            raise BrokerAway(f"{where} has not answered for {CONNECT_S:g} s") from None
        except BrokerAway as error:
            raise BrokerAway(f"{where}: {error}") from None

    def _take_over(self, channel: Any) -> None:
        """Have bodies read as far as there is room: aiormq reads on, and keeps bodies of whatever size."""
        read = channel._read_content  # noqa: SLF001 - it has no other way

        async def read_when_there_is_room(frame: Any, header: Any) -> DeliveredMessage:
            await self.may_read.wait()
            if header.body_size <= BYTES_MAX:
                message = cast("DeliveredMessage", await read(frame, header))
                if len(message.body) != header.body_size:
                    raise ValueError(f"a body of {len(message.body)} bytes, announced as {header.body_size}")
                return message
            missing = header.body_size
            while missing > 0:
                missing -= len((await channel._get_frame()).value)  # noqa: SLF001 - the same
            return DeliveredMessage(delivery=frame, header=header, body=b"", channel=channel)

        deliver = channel._on_deliver_frame  # noqa: SLF001 - the same

        async def deliver_or_lose(frame: spec.Basic.Deliver) -> None:
            try:
                await deliver(frame)
            except ValueError as error:  # by which aiormq would end the reading, and wait a minute for a farewell
                self._lose(f"the broker sends what has no place there: {error.args[0]}")

        channel._read_content = read_when_there_is_room  # noqa: SLF001 - the same
        channel._on_deliver_frame = deliver_or_lose  # noqa: SLF001 - the same

    async def consume(self, rules: Sequence[TakeQueue]) -> None:
        """Have the broker send what is in queues. Raises BrokerAway."""

        def cancelled(frame: spec.Basic.Cancel) -> None:
            self._lose(f"the broker has ended the reading of queue {queues[str(frame.consumer_tag)]!r}")

        queues = {str(number): rule.queue for number, rule in enumerate(rules)}
        self._taking.on_consumer_cancel_callbacks.add(cancelled)
        for tag, rule in zip(queues, rules, strict=True):
            async with _asking(f"queue {rule.queue!r} can be read"):
                await self._taking.basic_consume(rule.queue, self._arrival(rule), consumer_tag=tag)

    def _arrival(self, rule: TakeQueue) -> Callable[[DeliveredMessage], Coroutine[Any, Any, None]]:
        async def handle(message: DeliveredMessage) -> None:
            said = message.delivery
            assert isinstance(said, spec.Basic.Deliver)
            what = message.header.properties, 0 if message.body else message.header.body_size
            where = said.exchange or "", said.routing_key or ""
            self._arrived([Arrived(rule, said.delivery_tag or 0, message.body, *where, bool(said.redelivered), *what)])

        return handle

    async def acknowledge(self, tag: int) -> None:
        """Say that a message and all before it are on the disk. Raises BrokerAway."""
        with _told():
            await self._taking.basic_ack(tag, multiple=True, wait=False)

    async def reject(self, tag: int) -> None:
        """Give a message up: the broker has it in the dead letters of its queue, if that has any. Raises BrokerAway."""
        with _told():
            await self._taking.basic_reject(tag, requeue=False, wait=False)

    async def check_exchanges(self, names: Sequence[str]) -> None:
        """Raises BrokerAway if there is no such exchange."""
        for name in sorted(set(names) - {DEFAULT_EXCHANGE}):
            async with _asking(f"there is an exchange {name!r}"):
                await self._giving.exchange_declare(name, passive=True)

    def publish(self, message: Departing, *, mandatory: bool) -> None:
        """Publish a message after those of earlier calls; ``answered`` hears of the broker's answer."""
        published = asyncio.create_task(
            self._giving.basic_publish(
                message.payload,
                exchange=message.exchange,
                routing_key=message.routing_key,
                properties=message.properties,
                mandatory=mandatory,
                wait=False,
            )
        )
        self._published.add(published)
        published.add_done_callback(partial(self._handle_answered, message.properties.message_id))

    def _handle_answered(self, message_id: str | None, published: "asyncio.Task[Any]") -> None:
        self._published.discard(published)
        error = asyncio.CancelledError() if published.cancelled() else published.exception()
        if error is None:
            self.answered(message_id)
        elif isinstance(error, PublishError):
            said = cast("spec.Basic.Return", error.frame)
            self.answered(message_id, (BridgeReason.RETURNED, f"{said.reply_code} {said.reply_text}"))
        elif isinstance(error, DeliveryError):
            self.answered(message_id, (BridgeReason.REJECTED, "the broker has answered with basic.nack"))
        else:
            self._lose(_in_words(error))

    def _lose(self, why: str) -> None:
        if not self._lost.done():
            self._lost.set_result(why)

    async def run(self) -> None:
        """Wait for the end: aiormq reads. Raises BrokerAway then."""
        assert self._connection is not None
        ends: list[asyncio.Future[Any]] = [self._lost]
        ends += [it.closing for it in (self._taking, self._giving, self._connection)]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if self._lost.done():
            raise BrokerAway(self._lost.result())
        errors = [asyncio.CancelledError() if it.cancelled() else it.exception() for it in ends if it.done()]
        # A channel that the broker has closed says why; what it takes along only that it was cancelled.
        errors.sort(key=lambda error: error is None or isinstance(error, asyncio.CancelledError))
        raise BrokerAway("the connection has ended" if errors[0] is None else _in_words(errors[0]))

    async def leave(self) -> None:
        """End the connection; the broker sends elsewhere, or again, what was not acknowledged."""
        for published in self._published:
            published.cancel()
        self._arrived = lambda _: None
        self.may_read.set()  # or the broker's farewell would not be read
        if self._connection is not None:
            with suppress(TimeoutError, AMQPError, OSError):
                async with asyncio.timeout(LEAVE_S):
                    await self._connection.close()
