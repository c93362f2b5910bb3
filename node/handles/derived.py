"""Methods that have the signature and the description of another one, the only place that states them.

A verb of a node is written out once. Its counterpart on a client, or in ``triack.sync``, is derived from it: type
checkers see the same parameters, and ``help`` shows the same text.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cache, update_wrapper
from inspect import Parameter, Signature, isawaitable, signature
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")

_MISSING: Any = object()

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


@cache
def _plan_of(declared: Callable[..., Any]) -> tuple[tuple[str, ...], dict[str, Any], str]:
    """A method's parameters by place, all by name with their defaults, and the one that accepts any others by name.

    For a method with any number of arguments by place, the plan fits no call.
    """
    parameters = signature_of(declared).parameters.values()
    if any(it.kind is Parameter.VAR_POSITIONAL for it in parameters):
        return (), {"": _MISSING}, ""
    named = tuple(it.name for it in parameters if it.kind is not Parameter.VAR_KEYWORD)
    by_place = tuple(it.name for it in parameters if it.kind is Parameter.POSITIONAL_OR_KEYWORD)
    defaults = {it.name: it.default for it in parameters if it.default is not Parameter.empty}
    others = next((it.name for it in parameters if it.kind is Parameter.VAR_KEYWORD), "")
    return by_place, {name: defaults.get(name, _MISSING) for name in named}, others


def bind(declared: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Said:
    """The arguments of a call of a method. Raises TypeError as the call itself would."""
    # As ``Signature.bind``, but ten times as fast; ``bind`` decides on calls that do not fit.
    by_place, defaults, others = _plan_of(declared)
    said: dict[str, Any] = {**defaults, **dict(zip(by_place, args, strict=False))}
    more: dict[str, Any] = {}
    for name, value in kwargs.items():
        (said if name in defaults else more)[name] = value
    twice = not kwargs.keys().isdisjoint(by_place[: len(args)])
    if len(args) > len(by_place) or twice or (more and not others) or any(value is _MISSING for value in said.values()):
        return _bind_slowly(declared, args, kwargs)
    if others:
        said[others] = more
    return said


def _bind_slowly(declared: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Said:
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


def as_called(declared: Callable[P, Any]) -> Callable[[Callable[..., R]], Callable[P, R]]:
    """Decorate a function that has the arguments of another one, and its own description."""

    def derive(work: Callable[..., R]) -> Callable[P, R]:
        return update_wrapper(work, declared, assigned=(), updated=())

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
        wrap: makes the caller's result from the event loop's thread and the result of the call.
        perform: the name of the method that does it; it gets a function of the other object, and ``wrap``.
    """
    function = plain_function(declared)
    name = function.__name__

    def wait(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, perform)(lambda other: settled(other, name, args, kwargs), wrap)

    return derive_from(function, wait, __name__)


async def settled(other: object, name: str, args: Sequence[Any], kwargs: Said) -> Any:
    """The result of a method of an object, or a property; waits for an awaitable."""
    found = getattr(other, name)
    given = found(*args, **kwargs) if callable(found) else found
    return await given if isawaitable(given) else given


def derive_from(declared: Callable[..., Any], method: Callable[..., Any], module: str) -> Any:
    """The method with the name, the signature and the description of another one."""
    update_wrapper(method, declared, assigned=("__name__", "__doc__"), updated=())
    method.__module__ = module
    method.__qualname__ = declared.__name__
    return method
