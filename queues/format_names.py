r"""Names of MSMQ's queues ([MS-MQMQ] 2.1), and what they mean here.

    format name   DIRECT=OS:host\private$\orders, DIRECT=TCP:10.0.0.5\private$\orders, DIRECT=HTTP://host/msmq/orders,
                  PUBLIC=guid, PRIVATE=guid\number, MACHINE=guid, DL=guid, MULTICAST=address:port, CONNECTOR=guid;
                  several of them with commas between (a multiple-element format name)
    path name     .\private$\orders, host\private$\orders, host\orders, host\journal$
    suffix        ;JOURNAL, ;DEADLETTER, ;DEADXACT, ;XACTONLY
    prefix        FormatName:DIRECT=OS:host\private$\orders, as programs write a format name; Label:text, which a
                  directory service looks up

Upper and lower case are the same in MSMQ, except in the names of queues here, which stay as they are written.
"""

from dataclasses import dataclass

from triack.base.errors import AddressError
from triack.base.names import check_name

DEAD_LETTER_QUEUE = "dead-letter"
"""As in ``mailboxes/system_queues``, which this room does not import."""
JOURNAL_PREFIX = "$journal."
"""The journal of a queue has its name behind this."""
SENT_JOURNAL = "$journal"
"""The journal of what a node has sent."""

_WITHOUT_MEANING = {
    "PUBLIC": "a public queue is found by a directory service, and there is none here: name the node that has it",
    "PRIVATE": "it names a queue by the number that one machine has given to it, which only that machine can look up: "
    "write it as DIRECT=OS:machine\\private$\\queue",
    "DL": "a distribution list is an object of Active Directory: send to a list of destinations, as one transaction",
    "MULTICAST": "there is no multicast: publish to a topic",
    "CONNECTOR": "there are no connector queues: a program that reads a queue can speak to another system",
}
"""Kinds of format names that mean nothing here, and what to do instead."""
_PREFIX, _LABEL = "FORMATNAME:", "LABEL:"
"""What programs write before a name where several kinds may stand."""
_SUFFIXES = {"JOURNAL": "", "DEADLETTER": DEAD_LETTER_QUEUE, "DEADXACT": DEAD_LETTER_QUEUE, "XACTONLY": ""}
"""Suffixes, and the system queue that each means; empty where that depends on what is before it."""
_SYSTEM_PATHS = {"JOURNAL$": "JOURNAL", "DEADLETTER$": "DEADLETTER", "XACTDEADLETTER$": "DEADXACT"}
"""System queues in path names, and the suffix that means the same."""


@dataclass(frozen=True, slots=True)
class MsmqQueue:
    """One element of a name of MSMQ, and what it means here.

    Attributes:
        name: the element, as it was written.
        destination: the same for ``Node.send`` or ``Node.receive``; None when there is no such thing here.
        notes: what to know about it, or why there is no such thing.
    """

    name: str
    destination: str | None
    notes: tuple[str, ...] = ()


def msmq_name(name: str) -> str:
    r"""The destination that a name of MSMQ means: ``DIRECT=OS:plant-b\private$\orders`` is ``plant-b/orders``.

    Args:
        name: a format name or a path name of one queue.

    Raises:
        AddressError: it cannot be read, names several queues, or nothing that there is here; the error says why.
    """
    found = read_format_name(name)
    if len(found) > 1:
        raise AddressError(
            f"{name}: it names {len(found)} queues; send to a list of destinations, one for each of them"
        )
    if found[0].destination is None:
        raise AddressError(f"{name}: {'; '.join(found[0].notes)}")
    return found[0].destination


def read_format_name(name: str) -> list[MsmqQueue]:
    """The queues that a name of MSMQ means, one for each of its elements. Raises AddressError if it is no such name."""
    if not name.strip():
        raise AddressError("a name of MSMQ must not be empty")
    if name.strip().upper().startswith(_LABEL):
        return [MsmqQueue(name.strip(), None, (f"a label is looked up: {_WITHOUT_MEANING['PUBLIC']}",))]
    written = name.strip()
    if written.upper().startswith(_PREFIX):
        written = written[len(_PREFIX) :]
    return [_read(element.strip()) for element in written.split(",")]


def _read(element: str) -> MsmqQueue:
    kind, equals, rest = element.partition("=")
    kind = kind.strip().upper()
    if not equals:
        return _path(element, element)
    if kind == "DIRECT":
        return _direct(element, rest.strip())
    if kind == "MACHINE":
        return _machine(element, rest)
    if kind in _WITHOUT_MEANING:
        return MsmqQueue(element, None, (_WITHOUT_MEANING[kind],))
    known = ", ".join(["DIRECT", "MACHINE", *_WITHOUT_MEANING])
    raise AddressError(f"{element}: {kind or 'an empty word'} is no kind of format name; they are {known}")


def _direct(element: str, rest: str) -> MsmqQueue:
    protocol, colon, path = rest.partition(":")
    match protocol.strip().upper() if colon else "":
        case "HTTP" | "HTTPS":
            return MsmqQueue(element, None, ("messages do not go over HTTP: name the host as DIRECT=OS: does",))
        case "OS":
            return _path(element, path)
        case "TCP":
            found = _path(element, path)
            host = path.partition("\\")[0]
            note = f"know that node as a peer of the name {host}, or write its address: tcp://{host}:PORT/QUEUE"
            return (
                found if found.destination is None else MsmqQueue(element, found.destination, (note, *found.notes[1:]))
            )
        case "SPX":
            return MsmqQueue(element, None, ("SPX is a network of its time: name the host as DIRECT=OS: does",))
    raise AddressError(f"{element}: after DIRECT= comes OS:, TCP:, HTTP: or HTTPS:")


def _machine(element: str, rest: str) -> MsmqQueue:
    _, _, suffix = rest.partition(";")
    if not suffix:
        return MsmqQueue(element, None, ("it names a machine, and no queue of it",))
    queue = _system_queue(element, suffix, "")
    note = (
        f"of the node that is there instead of the machine {rest.partition(';')[0]}: only its own readers may read it"
    )
    return MsmqQueue(element, queue, (note,))


def _system_queue(element: str, suffix: str, queue: str) -> str:
    """The system queue that a suffix means, of a queue or, if that is empty, of a node."""
    word = suffix.strip().upper()
    if word not in _SUFFIXES:
        raise AddressError(f"{element}: ;{suffix} is no suffix of a format name; they are {', '.join(_SUFFIXES)}")
    if word == "JOURNAL":
        return f"{JOURNAL_PREFIX}{queue}" if queue else SENT_JOURNAL
    return _SUFFIXES[word] or queue or DEAD_LETTER_QUEUE


def _path(element: str, path: str) -> MsmqQueue:
    host, backslash, rest = path.strip().partition("\\")
    where, _, suffix = rest.partition(";")
    folder, inner, queue = where.partition("\\")
    if not inner:
        folder, queue = "", where
    if not (backslash and host and queue) or folder.upper() not in ("", "PRIVATE$"):
        raise AddressError(f"{element}: a queue is HOST\\private$\\QUEUE, or .\\private$\\QUEUE on this machine")
    notes = _notes_on(host, is_public=not folder)
    suffix = suffix or _SYSTEM_PATHS.get(queue.upper(), "") if not folder else suffix
    if suffix or queue.upper() == "SYSTEM$":
        is_system = queue.upper() in _SYSTEM_PATHS or queue.upper() == "SYSTEM$"
        queue = _system_queue(element, suffix, "" if is_system else _checked(element, queue))
        notes = (*_notes_on(host, is_public=False), "only readers of that node itself may read it")
    return MsmqQueue(
        element,
        _checked(element, queue) if host == "." else f"{_checked(element, host)}/{_checked(element, queue)}",
        notes,
    )


def _notes_on(host: str, *, is_public: bool) -> tuple[str, ...]:
    notes = () if host == "." else (f"know that node as a peer of the name {host}",)
    return (*notes, "public and private queues are the same here") if is_public else notes


def _checked(element: str, name: str) -> str:
    try:
        return check_name(name)
    except AddressError as error:
        raise AddressError(f"{element}: {error}") from error
