"""Copies of a node, and what makes two of them the same.

Two nodes are the same when they would do the same, now and ever after, whatever comes. So everything that a node holds
counts, found by walking through its objects, new fields included. ``inside.settle`` first brings everything without
influence to one value; a table here lists what cannot be. Both give reasons.
"""

# ruff: noqa: S301 - this very process pickled what it unpickles

import marshal
import pickle
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from hashlib import blake2b
from io import BytesIO
from operator import attrgetter
from types import MethodType
from typing import Any

from proof.search.scope import Scope
from triack.base.ack_trigger import AckTerms, AckTrigger
from triack.ordering.order_settings import OrderSettings
from triack.queues.node_settings import NodeSettings
from triack.queues.peers.link import Conversation
from triack.session.protocol.policy import Policy
from triack.session.protocol.settings import SessionSettings

DIGEST_BYTES = 16


def short(data: bytes) -> bytes:
    """16 bytes that represent any number."""
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


# ---- copies

_CONSTANTS = (Scope, NodeSettings, SessionSettings, OrderSettings, AckTrigger, AckTerms, Policy)
_constants: list[Any] = []


def _constant(number: int) -> Any:
    return _constants[number]


def _reduce_constant(value: Any) -> tuple[Callable[[int], Any], tuple[int]]:
    if value not in _constants:
        _constants.append(value)
    return _constant, (_constants.index(value),)


class _Freezer(pickle.Pickler):
    """Settings never change, so copies share them."""

    dispatch_table = dict.fromkeys(_CONSTANTS, _reduce_constant)


def freeze(value: object) -> bytes:
    """A copy, to be thawed any number of times in this process."""
    file = BytesIO()
    _Freezer(file, pickle.HIGHEST_PROTOCOL).dump(value)
    return file.getvalue()


def thaw(frozen: bytes) -> Any:
    """The object again."""
    return pickle.loads(frozen)


# ---- identity

Met = dict[int, int]
Plan = Callable[[Any, Met], Any]

_ATOMS = {int, str, bytes, bool, float, type(None)}

_LEFT_OUT: dict[type, Callable[[Any], Any]] = {
    # These never change.
    **dict.fromkeys(_CONSTANTS, lambda _: None),
    MethodType: lambda _: None,
}
"""For these types, the part of an object that counts."""


def digest(value: object) -> bytes:
    """Return 16 bytes that are the same for two objects exactly if the objects are."""
    return short(marshal.dumps(_walk_all([value], {}), 0))


def _walk_all(values: Iterable[Any], met: Met) -> list[Any]:
    """Turn objects into nested lists; an object that was met before becomes its place in the order of meeting."""
    plans, atoms = _plans, _ATOMS
    return [value if type(value) in atoms else plans[type(value)](value, met) for value in values]


class _Plans(dict[type, Plan]):
    """How to walk through objects, by type."""

    def __missing__(self, kind: type) -> Plan:
        plan = self[kind] = _plan(kind)
        return plan


_plans = _Plans()


def _plan(kind: type) -> Plan:
    if kind in _LEFT_OUT:
        counts = _LEFT_OUT[kind]
        return lambda value, _met: counts(value)
    if issubclass(kind, Enum):
        return lambda value, _met: value.name
    if issubclass(kind, dict):
        return lambda value, met: [_walk_all(value, met), _walk_all(value.values(), met)]
    if issubclass(kind, set | frozenset):
        return lambda value, met: _walk_all(sorted(value), met)
    if issubclass(kind, list | tuple | deque):
        return _walk_all
    return _plan_object(kind)


def _plan_object(kind: type) -> Plan:
    slots = [name for base in kind.__mro__ for name in base.__dict__.get("__slots__", ())]
    # One more name, so that the result is a tuple however few there are.
    get = attrgetter(*slots, "__doc__", "__doc__")

    def look(value: Any, met: Met) -> Any:
        known = met.get(id(value))
        if known is not None:
            return (known,)
        met[id(value)] = len(met)
        if kind is Conversation and value.session.is_closed:
            # A closed session does nothing any more; only its peer still matters.
            return [value.peer_id, value.peer_start]
        return _walk_all(vars(value).values() if kind.__dictoffset__ else get(value)[:-2], met)

    return look
