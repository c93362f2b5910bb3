"""The state of an object as plain data, to check that a call changed nothing."""

from collections.abc import Mapping

COUNTS = frozenset({"_forgeries", "_ahead", "_aead", "_is_warm", "_warm"})
"""What forgeries may change: how many came, keys that were made ready for epochs to come, and whether a key has its
cipher at hand."""


def snapshot(thing: object, without: frozenset[str] = COUNTS) -> object:
    """All of an object's attributes, and theirs; what has no slots is itself."""
    if isinstance(thing, bytearray):
        return bytes(thing)
    if isinstance(thing, Mapping):
        return [(key, snapshot(value, without)) for key, value in thing.items()]
    if isinstance(thing, list | tuple):
        return [snapshot(part, without) for part in thing]
    names = {name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())} - without
    if not names or isinstance(thing, int | str | bytes):
        return thing
    return {name: snapshot(getattr(thing, name), without) for name in sorted(names)}
