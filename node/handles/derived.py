"""Methods that take over the signature and the description of another one, which is the only place that states them.

A verb of a node is written out once. Its counterpart on a client, or in ``triack.sync``, is derived from it: type
checkers see the same parameters, and ``help`` shows the same text.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cache, update_wrapper
from inspect import Signature, isawaitable, signature
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

__all__ = ["Said", "as_on", "bind", "derive_from", "plain_function", "settled", "signature_of", "waited"]

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")

Said = Mapping[str, Any]
"""The arguments of a call by the names of the parameters, defaults included."""


def plain_function(declared: Any) -> Callable[..., Any]:
    """The function behind a method or a property of a class."""
    found: Any = declared.fget if isinstance(declared, property) else declared
    function: Callable[..., Any] = found
    return function


@cache
def signature_of(declared: Callable[..., Any]) -> Signature:
    """The signature of a method, without ``self``."""
    whole = signature(declared)
    return whole.replace(parameters=list(whole.parameters.values())[1:])


def bind(declared: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Said:
    """What a call of a method says. Raises TypeError as the call itself would."""
    try:
        bound = signature_of(declared).bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{declared.__name__}(): {error}") from None
    bound.apply_defaults()
    return bound.arguments


def as_on(
    declared: Callable[Concatenate[Any, P], Any],
) -> Callable[[Callable[[S, Said], R]], Callable[Concatenate[S, P], R]]:
    """Decorates a method that has the signature of another one, and gets the arguments of a call as ``Said``."""
    function = plain_function(declared)

    def derive(work: Callable[[S, Said], R]) -> Callable[Concatenate[S, P], R]:
        def derived(self: S, *args: P.args, **kwargs: P.kwargs) -> R:
            return work(self, bind(function, args, kwargs))

        method: Callable[Concatenate[S, P], R] = derive_from(function, derived, work.__module__)
        return method

    return derive


@overload
def waited(
    declared: Callable[Concatenate[Any, P], Any], wrap: Callable[[Any, Any], R], perform: str = "_perform"
) -> Callable[Concatenate[Any, P], R]: ...


@overload
def waited(
    declared: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]], wrap: None = None, perform: str = "_perform"
) -> Callable[Concatenate[Any, P], T]: ...


@overload
def waited(
    declared: Callable[Concatenate[Any, P], T], wrap: None = None, perform: str = "_perform"
) -> Callable[Concatenate[Any, P], T]: ...


def waited(declared: Any, wrap: Any = None, perform: str = "_perform") -> Any:
    """A method that has another object carry out the method of the same name, and waits for its end.

    Args:
        declared: the method that states signature and description.
        wrap: makes what the caller gets: of the event loop's thread, and of what came of the call.
        perform: the name of the method that does it; it gets a function of the other object, and ``wrap``.
    """
    function = plain_function(declared)
    name = function.__name__

    def wait(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, perform)(lambda other: settled(other, name, args, kwargs), wrap)

    return derive_from(function, wait, __name__)


async def settled(other: object, name: str, args: Sequence[Any], kwargs: Said) -> Any:
    """What a method of an object gives, or a property; waits for it where it has to be waited for."""
    found = getattr(other, name)
    given = found(*args, **kwargs) if callable(found) else found
    return await given if isawaitable(given) else given


def derive_from(declared: Callable[..., Any], method: Callable[..., Any], module: str) -> Any:
    """The method with the name, the signature and the description of another one."""
    update_wrapper(method, declared, assigned=("__name__", "__doc__"), updated=())
    method.__module__ = module
    method.__qualname__ = declared.__name__
    return method
