"""The verbs of the control socket, one row each: the arguments of a call, the object that does it, and the result.

A row of a method of the node, or of an object that the node has given out, has its arguments from the signature of that
method. The client writes a call by its row (``asked``); the node checks and reads it by the same one. The other rows
are steps of a conversation without a method; ``steps.py`` has a handler for each of them.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from functools import partial
from inspect import Parameter
from math import isfinite
from typing import Any, Unpack

from triack.base.checks import check_most, check_texts, check_timeout
from triack.base.delivery import Delivery
from triack.base.errors import ProtocolError
from triack.base.reasons import DropReason
from triack.node.control import codec
from triack.node.control.client_messages import name_of
from triack.node.control.control_frames import Header, cut
from triack.node.control.intake import Producer
from triack.node.control.kept import On
from triack.node.handles.acknowledgements import Every
from triack.node.handles.consumer import BATCH_MESSAGES, Consumer
from triack.node.handles.derived import Said, plain_function, signature_of
from triack.node.handles.queue_admin import as_ids
from triack.node.handles.streaming import Upload
from triack.node.handles.transaction import Transaction
from triack.node.handles.verbs import Verbs
from triack.node.shell.enrolling import OpenInvitation
from triack.node.shell.outgoing_message import MessageProperties, as_bytes, check_size
from triack.queues.mailboxes.lookup import Wanted
from triack.queues.node_settings import WhenFull
from triack.queues.routes import Route, check_routes

# ---- arguments


def _is_number(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_list_of(fits: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list | tuple) and all(map(fits, value))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_duration(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


class Kind(Enum):
    """The type of a value in a frame: in words, and as a test."""

    TEXT = "text", _is_text
    NUMBER = "a number from 0 on", _is_number
    SECONDS = "a number of seconds", _is_duration
    TRUTH = "true or false", lambda value: isinstance(value, bool)
    OBJECT = "an object", lambda value: isinstance(value, dict)
    TEXTS = "a list of texts", _is_list_of(_is_text)
    NUMBERS = "a list of numbers", _is_list_of(_is_number)
    OBJECTS = "a list of objects", _is_list_of(lambda value: isinstance(value, dict))

    def __init__(self, words: str, fits: Callable[[object], bool]) -> None:
        self.words = words
        self.fits = fits


def _as_it_is(value: Any, *_: object) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument in a frame.

    Attributes:
        kind: its type there.
        nullable: it may be null.
        write: encodes a value, given the name of the parameter and all arguments. Raises UsageError.
        read: decodes it.
    """

    kind: Kind
    nullable: bool = False
    write: Callable[[Any, str, Said], Any] = _as_it_is
    read: Callable[[Any], Any] = _as_it_is


def _write_most(most: Any, _name: str, said: Said) -> int:
    check_most(said["queue"], most)
    return int(most)


def _write_wanted(value: Any, name: str, _said: Said) -> str:
    (Wanted.by_id if name == "id" else Wanted.by_correlation_id)(value)
    return str(value)


def _write_timeout(what: str, timeout: Any, _name: str, said: Said) -> Any:
    check_timeout(what.format_map(said), timeout)
    return timeout


TEXT = Argument(Kind.TEXT)
NUMBER = Argument(Kind.NUMBER)
NUMBER_OR_NULL = Argument(Kind.NUMBER, nullable=True)
SECONDS = Argument(Kind.SECONDS, nullable=True)
TEXT_OR_NULL = Argument(Kind.TEXT, nullable=True)
OBJECT_OR_NULL = Argument(Kind.OBJECT, nullable=True)
TRUTH = Argument(Kind.TRUTH)
SIZES = Argument(Kind.NUMBERS)
MOST = Argument(Kind.NUMBER, write=_write_most, read=lambda most: min(most, BATCH_MESSAGES))
"""The most messages: their list is one frame."""
WANTED = Argument(Kind.TEXT, write=_write_wanted)
_NAMED = {"most": MOST, "id": WANTED, "correlation_id": WANTED}

_ARGUMENTS: Mapping[Any, Argument] = {
    str: TEXT,
    str | None: TEXT_OR_NULL,
    int: NUMBER,
    int | None: NUMBER_OR_NULL,
    WhenFull | None: TEXT_OR_NULL,
    bool: TRUTH,
    bool | None: Argument(Kind.TRUTH, nullable=True),
    float: SECONDS,
    float | None: SECONDS,
    Iterable[Route]: Argument(
        Kind.OBJECTS,
        write=lambda routes, name, _: list(map(asdict, check_routes(name, routes))),
        read=partial(codec.read_as, list[Route]),
    ),
    Iterable[str] | None: Argument(
        Kind.TEXTS, True, lambda texts, name, _: None if texts is None else check_texts(name, texts)
    ),
    Iterable[MessageProperties] | None: Argument(Kind.OBJECTS, nullable=True),
    Collection[str] | None: Argument(
        Kind.TEXTS, True, lambda ids, *_: None if ids is None else list(as_ids(ids) or ())
    ),
    Delivery: Argument(Kind.TEXT, False, lambda it, _, said: name_of(said["destination"], it), Delivery.__getitem__),
    Every: Argument(Kind.OBJECT, True, lambda every, *_: codec.describe_every(every), codec.read_every),
    Unpack[MessageProperties]: Argument(Kind.OBJECT),
}


_BODY_OR_NONE = bytes | None
"""The type of a body that may be missing; an argument says whether it is."""


# ---- verbs


@dataclass(frozen=True, slots=True)
class Verb:
    """One row.

    Attributes:
        name: of the verb, in a call.
        arguments: the arguments of a call beside its body, by name.
        on: the object that carries it out; None for a step of the conversation: ``Steps`` has a method of its name.
        declared: the method that does it, as its class declares it.
        parameters: those of its parameters that come from the caller.
        result: the form of its result.
        ends: whether the object then ends, and its number with it.
        repeats: whether a client makes the call again when its answer was lost: doing it twice is as doing it once.
        may_wait: whether it may have to wait for a long answer; None for a verb with short answers. Verbs with long
            answers run when it is their turn to be answered, so that only one at a time needs memory.
    """

    name: str
    arguments: Mapping[str, Argument]
    on: On | None = None
    declared: Callable[..., Any] | None = None
    parameters: tuple[Parameter, ...] = ()
    result: codec.Result = codec.NOTHING
    may_wait: bool | None = None
    repeats: bool = False
    ends: bool = False

    @property
    def method(self) -> str:
        """The name of the method that does it."""
        return "" if self.declared is None else self.declared.__name__

    def misfit(self, fields: Mapping[str, Any]) -> str:
        """The argument that is missing or of a wrong kind, in words; empty: none. Other fields are ignored."""
        for name, argument in self.arguments.items():
            if name not in fields:
                return f"{name} is missing"
            value = fields[name]
            if not argument.kind.fits(value) and not (value is None and argument.nullable):
                # Without the value: it may be a secret.
                return f"{name} must be {argument.kind.words}, not {type(value).__name__}"
        return ""

    def write(self, said: Said) -> tuple[bytes, dict[str, Any]]:
        """Body and header of a call. Raises UsageError for arguments that are not valid."""
        fields: dict[str, Any] = {}
        body = b""
        for parameter in self.parameters:
            name, value = parameter.name, said[parameter.name]
            if name in self.arguments:
                fields[name] = self.arguments[name].write(value, name, said)
            elif parameter.annotation is bytes:
                destination = said.get("destination", "")
                body = as_bytes(destination, value)
                check_size(destination, body)
            elif parameter.annotation == _BODY_OR_NONE:
                body, fields["forget"] = value or b"", value is None
            else:  # bodies, of one frame
                body, fields["sizes"] = b"".join(value), [len(one) for one in value]
        return body, fields

    def read(self, header: Header, body: bytes) -> tuple[list[Any], dict[str, Any]]:
        """The method's arguments from a call that was checked: by place, and by name.

        Raises ProtocolError, LookupError, TypeError, UsageError: an argument is not valid.
        """
        placed: list[Any] = []
        named: dict[str, Any] = {}
        for parameter in self.parameters:
            name = parameter.name
            if name in self.arguments:
                value: Any = self.arguments[name].read(header[name])
            elif parameter.annotation is bytes:
                value = body
            elif parameter.annotation == _BODY_OR_NONE:
                value = None if header["forget"] else body
            else:
                value = cut(body, header["sizes"])
            if parameter.kind is Parameter.VAR_POSITIONAL:
                placed += value
            elif parameter.kind is Parameter.VAR_KEYWORD:
                _merge(named, value)
            elif parameter.kind is Parameter.KEYWORD_ONLY:
                named[name] = value
            else:
                placed.append(value)
        return placed, named


def _merge(named: dict[str, Any], properties: Mapping[str, Any]) -> None:
    """Add the properties of a message to the arguments. Raises TypeError if one has the name of an argument."""
    both = named.keys() & properties.keys()
    if both:
        raise TypeError(f"properties have {min(both)}")
    named.update(properties)


def _argument_of(parameter: Parameter, what: str) -> tuple[str, Argument] | None:
    """The argument in the header for a parameter; None for a body. ``what`` begins the error for a wrong timeout."""
    if parameter.annotation is bytes:
        return None
    if parameter.annotation == _BODY_OR_NONE:
        return "forget", TRUTH
    if parameter.annotation == Iterable[bytes]:
        return "sizes", SIZES
    if parameter.kind is Parameter.VAR_POSITIONAL:
        return parameter.name, Argument(Kind.TEXTS)
    if parameter.name == "timeout" and what:
        return "timeout", Argument(Kind.SECONDS, nullable=True, write=partial(_write_timeout, what))
    return parameter.name, _NAMED.get(parameter.name) or _ARGUMENTS[parameter.annotation]


def _row(
    declared: Any,
    result: codec.Result = codec.NOTHING,
    *,
    on: On = On.NODE,
    name: str = "",
    may_wait: bool | None = None,
    repeats: bool = False,
    ends: bool = False,
    leave_out: Collection[str] = (),
    what: str = "",
) -> Verb:
    """The row of a method.

    Args:
        declared: the method, or property.
        result: the form of its result.
        on: the object that has the method.
        name: the verb, if that is not the name of the method.
        may_wait: see ``Verb``.
        repeats: see ``Verb``.
        ends: see ``Verb``.
        leave_out: parameters that the client handles itself.
        what: begins the error for a wrong timeout, as in the method.
    """
    function = plain_function(declared)
    parameters = tuple(it for it in signature_of(function).parameters.values() if it.name not in leave_out)
    arguments = dict(found for found in (_argument_of(it, what) for it in parameters) if found is not None)
    if on.value:
        arguments[on.value] = NUMBER
    return Verb(name or function.__name__, arguments, on, function, parameters, result, may_wait, repeats, ends)


def _transaction_row(
    declared: Any, result: codec.Result = codec.NOTHING, *, may_wait: bool | None = None, what: str = ""
) -> Verb:
    """The row of a method of a transaction that is called before its end."""
    return _row(declared, result, on=On.TRANSACTION, name=f"tx_{declared.__name__}", may_wait=may_wait, what=what)


def _step(name: str, /, *, may_wait: bool | None = None, repeats: bool = False, **arguments: Argument) -> Verb:
    return Verb(name, arguments, may_wait=may_wait, repeats=repeats)


def may_repeat(do: str, fields: Mapping[str, Any]) -> bool:
    """Whether a call may be made again when its answer was lost: its row says so, or its messages have keys."""
    keyed = fields.get("keys") is not None or bool(fields.get("properties", {}).get("key"))
    return VERBS[do].repeats or keyed


_MINDED_BY_CLIENT = ("until", "timeout")
"""The client waits by the receipt, so that the node need not keep the body."""

_SENDING, _RECEIVING = "send to {destination}", "receive from {queue}"

VERBS: Mapping[str, Verb] = {
    verb.name: verb
    for verb in (
        # Sending.
        _row(Verbs.send, codec.RECEIPT, leave_out=_MINDED_BY_CLIENT),
        _row(Verbs.send_many, codec.RECEIPTS, leave_out=_MINDED_BY_CLIENT),
        _row(Verbs.request, codec.MESSAGE, what="request to {destination}"),
        _row(Verbs.flush),
        _row(Verbs.drain, what="drain"),
        _step("wait", receipt=NUMBER, at=NUMBER_OR_NULL, stage=TEXT, timeout=SECONDS),
        _step("follow", repeats=True, ordinal=NUMBER),
        # Sending line by line, as ``triack send`` does.
        _step(
            "produce",
            name=TEXT,
            destination=TEXT,
            delivery=TEXT,
            until=TEXT,
            properties=Argument(Kind.OBJECT),
            finished=NUMBER,
        ),
        _row(Producer.take, on=On.PRODUCER),
        _row(Producer.progress, codec.PROGRESS, on=On.PRODUCER),
        _row(Producer.forget, codec.WAITS_FOR, on=On.PRODUCER),
        # Sending a large message.
        _step("upload", destination=TEXT, delivery=TEXT, size=NUMBER, properties=Argument(Kind.OBJECT)),
        _row(Upload.add, name="upload_part", on=On.UPLOAD),
        _step("upload_end", upload=NUMBER, transaction=NUMBER_OR_NULL),
        _row(Upload.give_up, name="upload_give_up", on=On.UPLOAD),
        _step("read_part", origin=TEXT, ordinal=NUMBER, index=NUMBER),
        # Events.
        _row(Verbs.events, codec.WATCH, repeats=True),
        _row(Verbs.acknowledgements, codec.WATCH, leave_out=("handler",), repeats=True),
        _step("told", watch=NUMBER),
        # Receiving.
        _step(
            "read",
            repeats=True,
            queue=TEXT,
            redelivery=OBJECT_OR_NULL,
            hand_over_timeout=SECONDS,
            name=TEXT_OR_NULL,
            in_order=TRUTH,
        ),
        _step(
            "subscribe",
            repeats=True,
            pattern=TEXT,
            durable=TEXT_OR_NULL,
            shared=TRUTH,
            ack_wait_s=SECONDS,
            max_unacked=NUMBER_OR_NULL,
            delivery=TEXT,
            paused=TRUTH,
            redelivery=OBJECT_OR_NULL,
            name=TEXT_OR_NULL,
        ),
        _row(Verbs.unsubscribe),
        _step("get", may_wait=True, reader=NUMBER, timeout=SECONDS),
        _step("get_many", may_wait=True, reader=NUMBER, most=MOST, timeout=SECONDS),
        _step(
            "get_chosen", may_wait=True, reader=NUMBER, timeout=SECONDS, id=TEXT_OR_NULL, correlation_id=TEXT_OR_NULL
        ),
        _step("draw", may_wait=True, reader=NUMBER, most=MOST, timeout=SECONDS, about=TRUTH),
        _row(Consumer.close, on=On.READER, ends=True),
        _step("pause_reader", repeats=True, reader=NUMBER, paused=TRUTH),
        # Transactions.
        _step("begin", repeats=True, name=TEXT_OR_NULL),
        _transaction_row(Transaction.send, what=_SENDING),
        _transaction_row(Transaction.send_many, what=_SENDING),
        _transaction_row(Transaction.receive, codec.MESSAGE, may_wait=True, what=_RECEIVING),
        _transaction_row(Transaction.receive_many, codec.MESSAGES, may_wait=True, what=_RECEIVING),
        _transaction_row(Transaction.receive_by_id, codec.MESSAGE, may_wait=True, what=_RECEIVING),
        _transaction_row(Transaction.receive_by_correlation_id, codec.MESSAGE, may_wait=True, what=_RECEIVING),
        _transaction_row(Transaction.remember),
        _transaction_row(Transaction.expect),
        _transaction_row(Transaction.note_bridge),
        _transaction_row(Transaction.note_given),
        _step("bridge_said", bridge=TEXT, said=TEXT, why=TEXT, count=NUMBER, known=NUMBER),
        _row(Transaction.commit, codec.COMMITTED, on=On.TRANSACTION, ends=True, leave_out=_MINDED_BY_CLIENT),
        _row(Transaction.rollback, on=On.TRANSACTION, ends=True),
        # Peers.
        _row(Verbs.key, codec.KEY, repeats=True),
        _row(Verbs.trust, repeats=True),
        _row(Verbs.revoke),
        _row(Verbs._reread, name="reread"),  # noqa: SLF001 - another process may ask for it, and no program of users
        _row(Verbs.reload, codec.RELOADED),
        _step("claim"),
        _row(Verbs.invite, codec.INVITATION),
        _row(OpenInvitation.enrolled, codec.PEER, on=On.INVITATION, what="wait for an enrolment"),
        _row(OpenInvitation.withdraw, on=On.INVITATION),
        _row(Verbs.enrol, codec.PEER, what="enrol"),
        # Routes.
        _row(Verbs.routes, codec.ROUTES, repeats=True),
        _row(Verbs.set_routes, repeats=True),
        _row(Verbs.explain_route, codec.TEXTS, repeats=True),
        _row(Verbs.purge_transit, codec.COUNT),
        # Looking and steering.
        _row(Verbs.ids_of_key, codec.TEXTS, repeats=True),
        _row(Verbs.create_queue, codec.MADE),
        _row(Verbs.ping, codec.PONG, repeats=True, what="ping {peer}"),
        _row(Verbs.stats, codec.STATS, may_wait=False, repeats=True),
        _row(Verbs.streams, codec.STREAMS, may_wait=False, repeats=True),
        _row(Verbs.queue_lengths, codec.LENGTHS, may_wait=False, repeats=True),
        _row(Verbs.recall, codec.REMEMBERED, may_wait=False, repeats=True),
        _step("browse", may_wait=False, repeats=True, queue=TEXT, after=SIZES),
        _row(Verbs.requeue, codec.COUNT),
        _row(Verbs.move, codec.COUNT),
        _row(Verbs.purge, codec.COUNT),
        _row(Verbs.release, codec.COUNT),
        _row(Verbs.peek, codec.BROWSED, may_wait=True, repeats=True, what="peek at {queue}"),
        _row(Verbs.pause),
        _row(Verbs.set_quota, repeats=True),
        _row(Verbs.resume, codec.WAS_PAUSED),
    )
}
_ROWS = {verb.declared: verb for verb in VERBS.values() if verb.declared is not None}


def row_of(declared: Any) -> Verb:
    """The row of a method or a property."""
    return _ROWS[plain_function(declared)]


def check_call(header: Mapping[str, Any]) -> Verb:
    """The row of a call. Raises ProtocolError: there is no such verb, or its arguments do not fit."""
    verb = VERBS.get(str(header.get("do")))
    if verb is None:
        raise ProtocolError(DropReason.BAD_FRAME, f"do is {header.get('do')!r}")
    if why := verb.misfit(header):
        raise ProtocolError(DropReason.BAD_FRAME, f"{verb.name}: {why}")
    return verb
