"""Verbs of a client: each is derived from the method of the node that it calls, by its row in ``verb_table``."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from triack.base.errors import TriackError
from triack.node.control.control_frames import Header
from triack.node.control.kept import On
from triack.node.control.verb_table import VERBS, row_of
from triack.node.handles.derived import Said, bind, derive_from, plain_function
from triack.node.shell.event_loop import begin

P = ParamSpec("P")
A = TypeVar("A", bound="Asking")
T = TypeVar("T")
R = TypeVar("R")


class Asking(ABC):
    """An object that calls methods of the node, or of an object that the node has given out."""

    @abstractmethod
    async def _call(self, do: str, body: bytes = b"", **fields: Any) -> tuple[Header, bytes]:
        """Have the node do something, and wait until it is done."""


async def ask(asking: Asking, declared: Callable[..., Any], said: Said) -> tuple[Header, bytes]:
    """Call a method with these arguments. Raises UsageError, or the error of the call at the node, in its own class."""
    row = row_of(declared)
    body, fields = row.write(said)
    return await asking._call(row.name, body, **fields)  # noqa: SLF001 - it is for the verbs of the object


@overload
def asked(
    declared: Callable[Concatenate[Any, P], Any], read: Callable[[Any, Header, bytes], R]
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]: ...


@overload
def asked(
    declared: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]: ...


@overload
def asked(declared: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]: ...


def asked(declared: Any, read: Any = None) -> Any:
    """A method that calls the method of the node with the same signature.

    Args:
        declared: the method, or property, of the node.
        read: makes the caller's result from the client and from header and body of the answer; None: as the row says.
    """
    function = plain_function(declared)
    make = read or (lambda _self, *answer: row_of(function).result.read(*answer))

    async def derived(self: Asking, *args: Any, **kwargs: Any) -> Any:
        return make(self, *await ask(self, function, bind(function, args, kwargs)))

    return derive_from(function, derived, __name__)


def with_rows(kind: type[T]) -> type[T]:
    """A class that represents a node, with a call for each row of its verbs that it does not write itself."""
    for row in VERBS.values():
        declared: Any = row.declared
        if row.on is On.NODE and row.method not in vars(kind):
            setattr(kind, row.method, asked(declared))
    return kind


class Begun:
    """A call that continues, whether its caller waits or not."""

    __slots__ = ("_task",)

    def __init__(self, task: "asyncio.Task[None]") -> None:
        self._task = task

    def __await__(self) -> Generator[Any, None, None]:
        """Wait for its end, and raise its error; cancelling the wait does not end it."""
        return asyncio.shield(self._task).__await__()


def begin_now(work: Coroutine[Any, Any, None]) -> Begun:
    """Begin a call."""
    task = begin(work, "triack-client")
    task.add_done_callback(_tell_bug)
    return Begun(task)


def _tell_bug(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and not isinstance(task.exception(), TriackError | None):
        task.get_loop().call_exception_handler(
            {"message": "a call of a client failed", "exception": task.exception(), "task": task}
        )
