"""How events of a node and of acknowledgements, and when these are wanted, look on the control socket."""

from collections.abc import Callable
from dataclasses import asdict
from fractions import Fraction
from typing import Any, Final, get_args

from triack.base.ack_trigger import AckTrigger
from triack.base.news import NodeEvent
from triack.node.acknowledgements import Every
from triack.queues.ack_events import AckEvent, AckKind

__all__ = ["describe_event", "describe_every", "describe_news", "read_event", "read_every", "read_news"]

_NEWS: Final[dict[str, Callable[..., NodeEvent]]] = {kind.__name__: kind for kind in get_args(NodeEvent)}
_SINGLE = "single"
"""Stands for an event of each message, in the place of a trigger."""


def describe_every(every: Every) -> dict[str, Any] | None:
    """When events are wanted; None: as the node's settings say."""
    if every is None:
        return None
    if not isinstance(every, AckTrigger):
        return {_SINGLE: True}
    # A share is a fraction of small numbers, which the nearest number tells exactly.
    share = every.window_share
    return {**asdict(every), "window_share": None if share is None else float(Fraction(share))}


def read_every(said: dict[str, Any] | None) -> Every:
    """The same, read. Raises UsageError or TypeError: there is no such trigger."""
    if said is None:
        return None
    return "message" if said == {_SINGLE: True} else AckTrigger(**said)


def describe_event(event: AckEvent) -> list[Any]:
    """An event."""
    return [event.kind.value, event.first, event.last, event.reason]


def read_event(said: list[Any]) -> AckEvent:
    """The same, read."""
    kind, first, last, reason = said
    return AckEvent(AckKind(kind), first, last, reason)


def describe_news(event: NodeEvent) -> list[Any]:
    """An event of the node."""
    return [type(event).__name__, asdict(event)]


def read_news(said: list[Any]) -> NodeEvent:
    """The same, read. JSON has no tuples."""
    kind, fields = said
    return _NEWS[kind](**{name: tuple(it) if isinstance(it, list) else it for name, it in fields.items()})
