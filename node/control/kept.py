"""What one connection of another process has at the node: objects by number, and the messages that its readers lease.

Receipts, readers, transactions, events, invitations, producers and uploads have limits. What the caller of an answer
may not know of can be taken back. When the connection ends, readers and events close and transactions roll back, so
that nothing stays held. Invitations stay open: the other node may come with the code after the caller has ended.
"""

from collections.abc import Sequence, Sized
from contextlib import suppress
from enum import Enum
from typing import Any

from triack.base.errors import NodeClosed, UsageError
from triack.node.control.control_frames import Header, Link, number_of
from triack.node.handles.acknowledgements import Acknowledgements
from triack.node.handles.consumer import BATCH_MESSAGES, Consumer
from triack.node.handles.message import Message
from triack.node.handles.receipt import KeyedReceipts, Receipt, Receipts
from triack.node.handles.streaming import Upload
from triack.node.handles.transaction import Transaction
from triack.node.shell.enrolling import OpenInvitation
from triack.node.shell.link_events import Events
from triack.queues.mailboxes.mailbox import Lease

RECEIPTS_MAX = 65_536
"""Receipts that one connection may still wait for: a few megabytes; beyond that the oldest are forgotten."""
INVITATIONS_MAX = 1_024
"""Invitations that one connection may still ask about; the oldest are forgotten beyond that. A node has far fewer."""
HELD_MAX = 131_072
"""Messages leased to one connection. Their bodies are at the other end; the rest needs tens of MB here."""


class On(Enum):
    """The object that carries out a call, by the argument that has its number."""

    NODE = ""
    RECEIPT = "receipt"
    READER = "reader"
    TRANSACTION = "transaction"
    WATCH = "watch"
    INVITATION = "invitation"
    PRODUCER = "producer"
    UPLOAD = "upload"


_NO_MESSAGE: tuple[int, Message | None] = 0, None
_GONE: dict[On, tuple[type[Exception], str]] = {
    On.READER: (NodeClosed, "receive: this reader is closed"),
    On.TRANSACTION: (NodeClosed, "this transaction has ended"),
    On.INVITATION: (UsageError, f"an invitation: more than {INVITATIONS_MAX} came after it, and it was forgotten"),
    On.RECEIPT: (UsageError, f"wait for a receipt: more than {RECEIPTS_MAX} came after it, and it was forgotten"),
}
"""Why an object is no longer kept; the numbers of all others are wrong."""

Given = tuple[str, int, int]
"""What an answer gives out: the kind, the number of the first, and how many."""


class Kept:
    """All that one connection has."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._next = 1
        self._by: dict[On, dict[int, Any]] = {on: {} for on in On}
        self._receipts = 0
        self._in_order: set[int] = set()  # readers that take their messages one after the other
        # Messages by number, with the number of the reader; their numbers by reader, also of those taken back.
        self._messages: dict[int, tuple[int, Message]] = {}
        self._held: dict[int, dict[int, None]] = {}
        # Steps of open transactions by call: their callers may not know of them.
        self._steps: dict[int, tuple[Transaction, int]] = {}
        self._steps_of: dict[Transaction, list[int]] = {}
        # Why messages were taken back, by number, while the caller may not know.
        self._taken_back: dict[int, tuple[int, str]] = {}

    # ---- objects

    def of(self, on: On) -> dict[int, Any]:
        """All of one kind, by number."""
        return self._by[on]

    def keep(self, given: Receipt | Receipts | list[Receipt] | Events | Acknowledgements | OpenInvitation) -> int:
        """Keep what a call has given. Returns its number."""
        if isinstance(given, Events | Acknowledgements):
            return self.add(On.WATCH, given)
        if isinstance(given, OpenInvitation):
            if len(invitations := self._by[On.INVITATION]) == INVITATIONS_MAX:
                del invitations[next(iter(invitations))]
            return self.add(On.INVITATION, given)
        receipts = self._by[On.RECEIPT]
        self._receipts += _objects_of(given)
        while self._receipts > RECEIPTS_MAX and receipts:  # those of one commit are kept together
            self._receipts -= _objects_of(receipts.pop(next(iter(receipts))))
        return self.add(On.RECEIPT, given)

    def add(self, on: On, it: Any) -> int:
        """Keep something of a kind that does not give way. Returns its number."""
        number, self._next = self._next, self._next + 1
        self._by[on][number] = it
        return number

    def at(self, on: On, header: Header) -> Any:
        """What the caller has under a number. Raises an error that says why it is gone."""
        it = self._by[on].get(header[on.value])
        if it is None:
            kind, why = _GONE.get(on, (KeyError, str(header[on.value])))
            raise kind(why)
        return it

    def forget(self, on: On, number: int) -> Any:
        """Stop keeping something, and what depends on it. Returns it; None if it is not kept."""
        it = self._by[on].pop(number, None)
        if on is On.READER:
            self._in_order.discard(number)
            for at in self._held.pop(number, ()):
                self._messages.pop(at, None)  # it goes back into its queue
                self._taken_back.pop(at, None)
        elif on is On.TRANSACTION:
            for step in self._steps_of.pop(it, ()):
                self._steps.pop(step, None)
        return it

    def let_go(self, on: On, number: int) -> None:
        """End something: its caller released it, or has not received it, or the connection has ended."""
        match self.forget(on, number):
            case None:
                return
            case Transaction() as transaction:
                transaction.rollback(failed=False)
            case OpenInvitation() as invitation:
                invitation.withdraw()
            case Upload() as upload:
                with suppress(NodeClosed):
                    upload.give_up()
            case reader_or_events:
                reader_or_events.close()

    def take_back(self, given: Given | None) -> None:
        """The caller does not get it: messages go back into their queue, and anything else ends."""
        if given is None:
            return
        kind, number, count = given
        if kind == "message":
            self.settle({"op": "reject", "message": number, "count": count})
        else:
            self.let_go(On(kind), number)

    def end(self) -> None:
        """The connection has ended."""
        for on in (On.TRANSACTION, On.READER, On.WATCH, On.PRODUCER, On.UPLOAD):  # invitations stay open
            for number in list(self._by[on]):
                self.let_go(on, number)

    def handle_death(self) -> None:
        """The process at the other end has died."""
        for transaction in self._by[On.TRANSACTION].values():
            transaction.handle_death()
        for number, reader in self._by[On.READER].items():
            self._handle_reader_death(number, reader)

    # ---- steps of transactions

    def note_step(self, number: int, transaction: Transaction) -> None:
        """A call has put a step into a transaction, and its caller may not know of it yet."""
        self._steps[number] = transaction, transaction.last_step
        self._steps_of.setdefault(transaction, []).append(number)

    def undo(self, number: int) -> None:
        """The caller does not wait for a call: the step that it has put into a transaction is taken back."""
        if number in self._steps:
            transaction, step = self._steps.pop(number)
            transaction.undo(step)

    def awaits(self, number: int) -> bool:
        """Whether a call has put a step into a transaction that is open."""
        return number in self._steps

    # ---- messages

    def hold(self, reader: int, messages: Sequence[Message]) -> int:
        """Keep messages that the caller has leased. Returns the number of the first; the others are consecutive."""
        first = self._next
        self._next += len(messages)
        self._messages.update(enumerate([(reader, message) for message in messages], first))
        self._held.setdefault(reader, {}).update(dict.fromkeys(range(first, self._next)))
        for message in messages:
            message.body = b""  # it is in the answer, and not needed here
        return first

    def settle(self, header: Header) -> None:
        """Messages are done, or redelivered: ``count`` of them, or one, unless they are no longer held."""
        first = number_of(header, "message")
        count = min(number_of(header, "count"), BATCH_MESSAGES) if "count" in header else 1
        delay = None if header.get("delay_ms") is None else number_of(header, "delay_ms") / 1_000
        for number in range(first, first + count):
            reader, message = self._messages.pop(number, _NO_MESSAGE)
            if self._taken_back:
                reader, late = self._taken_back.pop(number, (reader, None))
                if late is not None and header["op"] == "ack" and not header.get("told"):
                    self._link.post("late", why=late)
            if (held := self._held.get(reader)) is not None:
                held.pop(number, None)
            if message is not None and header["op"] == "ack":
                message.ack()
            elif message is not None:
                message.reject(failed=bool(header.get("failed")), delay=delay, dead=bool(header.get("dead")))

    def handle_taken_back(self, reader: int, leases: list[Lease]) -> None:
        """Messages of a reader were taken back: tell the client, so that it can tell its application."""
        gone = {(lease.packet, lease.index) for lease in leases}
        held = (
            (number, self._messages[number][1]) for number in self._held.get(reader, ()) if number in self._messages
        )
        taken = [(number, it) for number, it in held if (it.lease.packet, it.lease.index) in gone]
        for number, message in taken:
            del self._messages[number]
            why = f"message {message.id} of queue {message.queue} was taken back: it will be handed out again"
            self._taken_back[number] = reader, why
        for at in range(0, len(taken), BATCH_MESSAGES):
            some = [number for number, _ in taken[at : at + BATCH_MESSAGES]]
            self._link.post("taken_back", messages=some, why=[self._taken_back[number][1] for number in some])

    def _handle_reader_death(self, number: int, reader: Consumer) -> None:
        """The process that reads has died. If it takes its messages in order, only the first of them has failed."""
        if number not in self._in_order:
            reader._in_flight.handle_death()
            return
        first = next((at for at in self._held.get(number, ()) if at in self._messages), None)
        if first is not None:
            reader._in_flight.handle_death(self._messages[first][1])

    def reader(self, header: Header) -> Consumer:
        """A reader that may get more messages."""
        check_room("receive", self._messages, HELD_MAX - len(self._taken_back), "messages in its hands")
        reader: Consumer = self.at(On.READER, header)
        return reader

    def read_in_order(self, number: int) -> None:
        """A reader takes its messages one after the other."""
        self._in_order.add(number)


def check_room(what: str, kept: Sized, most: int, of_what: str) -> None:
    """Raise UsageError if a connection has as many objects of one kind as it may have."""
    if len(kept) >= most:
        raise UsageError(f"{what}: this connection has {most} {of_what}; end some, or use another connection")


def _objects_of(receipt: Receipt | Receipts | list[Receipt]) -> int:
    """Its count among the receipts of a connection; a list that was sent as one is hardly more than one."""
    return max(1, len(receipt)) if isinstance(receipt, list | KeyedReceipts) else 1
