"""The steps of a conversation that are no method of the node, nor of what it has given out.

``verb_table`` has the arguments of each, and ``Steps`` a method of its name.
"""

from collections.abc import Callable, Sequence

from triack.base.delivery import Delivery
from triack.base.errors import LargeBody, UsageError
from triack.node.control.client_messages import content_of, contents_of, describe
from triack.node.control.codec import RECEIPT, describe_events, describe_news
from triack.node.control.control_frames import Answer, Header, Link
from triack.node.control.intake import Producer
from triack.node.control.kept import Kept, On, check_room
from triack.node.handles.choosing import part_of
from triack.node.handles.consumer import BATCH_MESSAGES, Consumer
from triack.node.handles.message import Message
from triack.node.handles.queue_admin import page_of
from triack.node.handles.receipt import Receipt, Receipts, find_kept
from triack.node.handles.streaming import Upload
from triack.node.handles.subscribing import Subscriber, Terms, begin_subscription
from triack.node.handles.transaction import Transaction
from triack.node.handles.verbs import Verbs
from triack.node.shell.link_events import Events
from triack.queues.node_settings import Redelivery
from triack.queues.stages import Stage
from triack.stats.holding import Reader

READERS_MAX = 4_096
"""Of one connection: some kilobytes each."""
TRANSACTIONS_MAX = 4_096
"""Open ones of one connection; also some kilobytes each."""
PRODUCERS_MAX = 64
"""Processes that send through one connection: each keeps up to 256 chunks of receipts here."""
UPLOADS_MAX = 64
"""Large messages that one connection is sending: each keeps some parts in memory."""


class Steps:
    """The steps of one connection."""

    def __init__(self, node: Verbs, link: Link, kept: Kept, give_way: Callable[[], None] | None) -> None:
        self._node = node
        self._link = link
        self._kept = kept
        self._give_way = give_way

    # ---- sending

    async def wait(self, header: Header) -> Answer:
        """Wait for the stage of a receipt."""
        kept, at = self._kept.at(On.RECEIPT, header), header["at"]
        receipt = kept if isinstance(kept, Receipt) or (isinstance(kept, Receipts) and at is None) else kept[at]
        await receipt.reached(header["stage"], header["timeout"])
        return {}, b""

    async def follow(self, header: Header) -> Answer:
        """The receipt of a message that was sent with a key, for a client that lost it with a connection."""
        receipt = find_kept(self._node._port, header["ordinal"])
        return {"receipt": None if receipt is None else self._kept.keep(receipt)}, b""

    async def produce(self, header: Header) -> Answer:
        """Begin to take lines, or files, of a producer."""
        check_room("send lines", self._kept.of(On.PRODUCER), PRODUCERS_MAX, "producers")
        producer = Producer(
            self._node,
            header["destination"],
            Delivery[header["delivery"]],
            Stage[header["until"]],
            properties=header["properties"],
            name=header["name"],
            finished=header["finished"],
        )
        return {"producer": self._kept.add(On.PRODUCER, producer), "accepted": await producer.begin()}, b""

    # ---- large messages

    async def upload(self, header: Header) -> Answer:
        """Begin a large message."""
        uploads = self._kept.of(On.UPLOAD)
        for number in [number for number, upload in uploads.items() if upload.has_ended]:
            del uploads[number]
        check_room("send a stream", self._kept.of(On.UPLOAD), UPLOADS_MAX, "of them under way")
        delivery = Delivery[header["delivery"]]
        upload = Upload.to(self._node._port, header["destination"], header["size"], delivery, header["properties"])
        number = self._kept.add(On.UPLOAD, upload)
        try:
            await upload.begin()
        except BaseException:
            upload.give_up()
            raise
        return {"upload": number}, b""

    async def upload_end(self, header: Header) -> Answer:
        """End one: submit it, or put it into a transaction."""
        upload = self._kept.at(On.UPLOAD, header)
        prepared = await upload.complete()
        if header["transaction"] is not None:
            transaction = self._kept.at(On.TRANSACTION, header)
            await transaction.take_upload(upload, prepared)
            self._kept.note_step(header["n"], transaction)
            return {}, b""
        receipt = upload.submit(prepared)
        await receipt.reached(Stage.QUEUED)
        return RECEIPT.describe(receipt, self._kept.keep)

    async def read_part(self, header: Header) -> Answer:
        """A part of a large body that was received."""
        origin = bytes.fromhex(header["origin"])
        return {}, await part_of(self._node._port, origin, header["ordinal"], header["index"])

    # ---- events, and acknowledgements

    async def told(self, header: Header) -> Answer:
        """The next events of a watch."""
        watch = self._kept.at(On.WATCH, header)
        if isinstance(watch, Events):
            return {"events": [describe_news(event) for event in await watch.get_many()], "missed": watch.missed}, b""
        return describe_events(self._node.node_id, await watch.get_many()), b""

    # ---- receiving

    async def read(self, header: Header) -> Answer:
        """A reader of a queue."""
        check_room(f"receive from {header['queue']}", self._kept.of(On.READER), READERS_MAX, "readers")
        redelivery = None if header["redelivery"] is None else Redelivery(**header["redelivery"])
        port, reader, timeout = self._node._port, self._reader_of(header), header["hand_over_timeout"]
        consumer = Consumer(port, port.mailbox(header["queue"]), "manual", redelivery, timeout, reader=reader)
        number = self._kept.add(On.READER, consumer)
        consumer._in_flight.on_take_back = lambda leases: self._kept.handle_taken_back(number, leases)
        if header["in_order"]:
            self._kept.read_in_order(number)
        return {"reader": number}, b""

    async def subscribe(self, header: Header) -> Answer:
        """A reader of a subscription. What it does with a message too late changes nothing, and is not reported."""
        check_room(f"subscribe to {header['pattern']}", self._kept.of(On.READER), READERS_MAX, "readers")
        redelivery = None if header["redelivery"] is None else Redelivery(**header["redelivery"])
        terms = Terms(*(header[name] for name in Terms._fields))._replace(delivery=Delivery[header["delivery"]])
        port, reader = self._node._port, self._reader_of(header)
        found = begin_subscription(port, header["pattern"], terms, "manual", redelivery, reader)
        number = self._kept.add(On.READER, found)
        try:
            await found
        except BaseException:
            self._kept.let_go(On.READER, number)
            raise
        if header["paused"]:
            await found.pause()
        return {"reader": number}, b""

    async def pause_reader(self, header: Header) -> Answer:
        """Pause the reader of a subscription, or resume it."""
        reader = self._kept.at(On.READER, header)
        if not isinstance(reader, Subscriber):
            raise UsageError("pause a reader: it is none of a subscription")
        await (reader.pause() if header["paused"] else reader.resume())
        return {}, b""

    def _reader_of(self, header: Header) -> Reader:
        """The reader, which is in another process, by its name there."""
        return Reader(str(header["name"] or ""), self._link.peer_pid, is_here=False)

    async def get(self, header: Header) -> Answer:
        """The next message of a reader."""
        message = await self._kept.reader(header).get(header["timeout"])
        return self._hand_out(header, [message], *content_of(message))

    async def get_chosen(self, header: Header) -> Answer:
        """A message of a reader, by its id or its correlation id."""
        reader, timeout = self._kept.reader(header), header["timeout"]
        if header["id"] is not None:
            message = await reader.get_by_id(header["id"], timeout)
        else:
            message = await reader.get_by_correlation_id(header["correlation_id"], timeout)
        return self._hand_out(header, [message], *content_of(message))

    def _hand_out(self, header: Header, messages: Sequence[Message], fields: Header, content: bytes) -> Answer:
        """Messages for the caller; the answer has their bodies, which are dropped here."""
        return {"message": self._kept.hold(header["reader"], messages), "reader": header["reader"], **fields}, content

    async def get_many(self, header: Header) -> Answer:
        """The next messages of a reader."""
        most = min(header["most"], BATCH_MESSAGES)
        batch = await self._kept.reader(header).get_many(most, header["timeout"])
        fields, content = contents_of(batch)
        return self._hand_out(header, batch, {"count": len(batch), **fields}, content)

    async def draw(self, header: Header) -> Answer:
        """The next messages of a reader, as lines."""
        most = min(header["most"], BATCH_MESSAGES)
        batch = await self._kept.reader(header).get_many(most, header["timeout"])
        for message in batch:
            if message.is_large:
                what = f"message {message.id} of queue {message.queue} has a body of {message.size} bytes"
                raise LargeBody(f"{what}, which is no line: triack receive {message.queue} --save PATH")
        content = b"".join([message.body for message in batch])
        fields = {
            "count": len(batch),
            "ids": [message.id for message in batch],
            "sizes": [len(message.body) for message in batch],
            "about": [describe(message) for message in batch] if header["about"] else [],
        }
        return self._hand_out(header, batch, fields, content)

    # ---- transactions

    async def begin(self, header: Header) -> Answer:
        """Begin a transaction."""
        check_room("begin a transaction", self._kept.of(On.TRANSACTION), TRANSACTIONS_MAX, "open ones")
        port = self._node._port
        port.check_alive()
        return {"transaction": self._kept.add(On.TRANSACTION, Transaction(port, reader=self._reader_of(header)))}, b""

    async def bridge_said(self, header: Header) -> Answer:
        """What a bridge says of itself."""
        said = (header[name] for name in ("bridge", "said", "why", "count", "known"))
        self._node._port.note_bridge_said(*said)
        return {}, b""

    # ---- peers, and looking

    async def claim(self, _header: Header) -> Answer:
        """Give way: another, permanent node wants the directory."""
        if self._give_way is not None:
            self._give_way()
        return {"passing": self._give_way is not None}, b""

    async def browse(self, header: Header) -> Answer:
        """A page of a queue."""
        after = tuple(header["after"])
        page = await page_of(self._node._port, header["queue"], after)
        sizes = [len(message.body) for message in page]
        return {"page": [it.describe() for it in page], "sizes": sizes}, b"".join([it.body for it in page])
