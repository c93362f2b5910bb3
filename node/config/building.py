"""Settings of a node from what was said, over those of a policy; every mistake is noted, with its place."""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import cache, partial
from typing import Any, TypeVar, get_type_hints

from triack.base.errors import TriackError, UsageError
from triack.base.names import check_name, check_queue, nearest
from triack.node.config.bridge_table import BridgeTable
from triack.node.config.keys import KeyPath, NodeTable, part_of
from triack.node.config.layers import Layers
from triack.node.files.access import SUITES
from triack.node.handles.policies import PRESETS
from triack.queues.node_settings import Forward, NodeSettings, Topic, check_root
from triack.queues.routes import Route, check_routes
from triack.transport.address import Address, Destination

T = TypeVar("T")

_NODE = ("node",)
_PATHS = ("data", "log", "tls_cert", "tls_key", "tls_ca")
"""The keys that are relative to the file which names them."""


def find_policy(layers: Layers) -> str:
    """The name of the policy that was asked for, in capital letters; empty: none."""
    said = layers.said.get((*_NODE, "policy"))
    if said is None or said.value is None:
        return ""
    name = said.value.upper()
    if name in PRESETS:
        return str(name)
    known = [preset.lower() for preset in PRESETS]
    meant = nearest(said.value.lower(), known)
    hint = f"there is {', '.join(known)}" if meant is None else f"did you mean {meant}?"
    layers.problem(said.where, (*_NODE, "policy"), f'there is no policy "{said.value}"; {hint}')
    return ""


def build_settings(layers: Layers, policy: str) -> NodeSettings:
    """The settings that are in force."""
    settings = _build(layers, PRESETS.get(policy, NodeSettings()), _NODE)
    quotas = {name: _build(layers, settings.limits.quota, path) for name, path in _of_queues(layers, "quota")}
    kept = {name: _build(layers, settings.limits.journal, path) for name, path in _of_queues(layers, "journal")}
    waits = {name: _build(layers, settings.redelivery, path) for name, path in _of_queues(layers, "redelivery")}
    forwards = {name: it for name, path in _of_queues(layers, "forward") if (it := _build_forward(layers, path))}
    topics = {name: _build_topic(layers, settings, name) for name in _roots_in(layers)}
    limits = replace(settings.limits, queue_quota=quotas, queue_journal=kept)
    topics = {**settings.topics, **topics}
    return replace(settings, queue_redelivery=waits, forwards=forwards, limits=limits, topics=topics)


def _build_forward(layers: Layers, path: KeyPath) -> Forward | None:
    """Where a queue is passed on; None if that is not said as it must be, which is noted."""
    said = {
        name: layers.said[*path, name].value for name in ("to", "label", "others_to") if (*path, name) in layers.said
    }

    def make() -> Forward:
        made = Forward(**{"to": "", **said})
        for destination in filter(None, (made.to, made.others_to)):
            if Destination.parse(destination) == Destination.parse(path[1]):
                raise UsageError("it leads back to the same queue")
        return made

    return _checked(layers, path, layers.first_place(path), make)


def _roots_in(layers: Layers) -> list[str]:
    names = {path[1]: said.where for path, said in sorted(layers.said.items()) if path[0] == "topics"}
    checks = {name: partial(check_root, name) for name in names}
    return [name for name, where in names.items() if _checked(layers, ("topics", name), where, checks[name])]


def _build_topic(layers: Layers, settings: NodeSettings, name: str) -> Topic:
    """Settings of the topics below a root. A quota has its missing values from that of each queue."""
    path, before = ("topics", name), settings.topic_of(name)
    at = (*path, "quota")
    quota = _build(layers, before.quota or settings.limits.quota, at) if layers.says(at) else before.quota
    return replace(_build(layers, replace(before, quota=None), path), quota=quota)


def _of_queues(layers: Layers, table: str) -> list[tuple[str, KeyPath]]:
    found = {path[:-1]: it.where for path, it in layers.said.items() if path[0] == "queues" and path[2] == table}
    return [(path[1], path) for path, where in sorted(found.items()) if _is_name(layers, path, where)]


def _is_name(layers: Layers, path: KeyPath, where: str) -> bool:
    return _checked(layers, path[:2], where, lambda: check_name(path[1])) is not None


def _build(layers: Layers, base: T, prefix: KeyPath) -> T:
    """An object of settings with what was said of it and of its parts.

    The class itself checks its values. A value that it refuses is noted and left out, until it accepts the others.
    """
    kind: Any = type(base)
    hints = _hints_of(kind)
    changes: dict[str, Any] = {}
    for one in fields(kind):
        part, path = part_of(hints[one.name]), (*prefix, one.name)
        if part is not None:
            within = (one.name,) if prefix == _NODE else path
            if layers.says(within):
                changes[one.name] = _build(layers, getattr(base, one.name) or part(), within)
        elif path in layers.said:
            changes[one.name] = layers.said[path].value
    while True:
        try:
            return replace(base, **changes)  # type: ignore[type-var]
        except UsageError as error:
            name, why = _refused(kind.__name__, str(error))
            if name not in changes:
                # Two keys contradict each other, and the one that the class names first has its default.
                why = f"{name} {why}"
                name = next((one for one in changes if one in why), name)
            path = (*prefix, name)
            if path not in layers.said:
                table = path if layers.says(path) else prefix
                layers.problem(layers.first_place(table), table, why)
                return base
            layers.problem(layers.said[path].where, path, why)
            del changes[name]


_hints_of = cache(get_type_hints)


def _refused(kind: str, text: str) -> tuple[str, str]:
    """The field that a class refuses, and the cause: its errors begin with the names of both."""
    name, _, why = text.removeprefix(f"{kind}: ").partition(" ")
    return name.removesuffix(":"), why


def build_node_table(layers: Layers) -> NodeTable:
    """The arguments of ``triack.open`` that are in force; paths are absolute, or relative to the working directory."""
    checks: dict[str, Callable[[Any], object]] = {
        "name": check_name,
        "listen": lambda text: str(Address.parse(text, listening=True)),
        "announce": lambda text: str(Address.parse(text)) if text else text,
        "suite": _check_suite,
        "queues": lambda names: [check_queue(name) for name in names],
    }
    found: dict[str, Any] = {}
    for one in fields(NodeTable):
        path = (*_NODE, one.name)
        said = layers.said.get(path)
        if said is None:
            continue
        value = said.value
        if value is not None and one.name in checks:
            value = _checked(layers, path, said.where, lambda name=one.name, it=value: checks[name](it))  # type: ignore[misc]
        elif value is not None and one.name in _PATHS:
            if not value:
                layers.problem(said.where, path, "it is empty")
            value = str(said.base / value)
        found[one.name] = value
    table = NodeTable(**{name: value for name, value in found.items() if value is not None or name == "data"})
    _check_queues(layers, table)
    if table.tls_key is not None and table.tls_cert is None:
        path = (*_NODE, "tls_key")
        layers.problem(layers.said[path].where, path, "it needs node.tls_cert, the certificate of that key")
    return table


def _check_suite(text: str) -> str:
    if text not in SUITES:
        raise UsageError(f'there is no suite "{text}"; there is {", ".join(SUITES)}')
    return text


def _check_queues(layers: Layers, table: NodeTable) -> None:
    """Note queues that have settings and that the node may not have."""
    if table.queues is None:
        return
    for name in sorted({path[1] for path in layers.said if path[0] == "queues"} - set(table.queues)):
        meant = nearest(name, table.queues)
        hint = f"; did you mean {meant}?" if meant else ""
        layers.problem(layers.first_place(("queues", name)), ("queues", name), f"it is not in node.queues{hint}")


def build_peers(layers: Layers) -> dict[str, str]:
    """The addresses of peers, by name."""
    owners: dict[str, str] = {}
    for path, said in layers.said.items():
        if path[0] != "peers" or said.value is None or not _is_name(layers, path, said.where):
            continue
        address = _checked(layers, path, said.where, lambda it=said.value: str(Address.parse(it)))  # type: ignore[misc]
        if address in owners:
            layers.problem(said.where, path, f"it is the address of {owners[address]}, too")
        elif address is not None:
            owners[address] = path[1]
    return {name: address for address, name in owners.items()}


def build_bridges(layers: Layers) -> tuple[BridgeTable, ...]:
    """The bridges, in their order."""
    found: dict[str, BridgeTable] = {}
    for number, bridge in _numbered(layers, "bridges", BridgeTable, ("name",)):
        if bridge.name in found:
            path = ("bridges", number, "name")
            layers.problem(layers.said[path].where, path, f"there is another bridge {bridge.name}")
        for name in ("password_file", "tls_ca"):
            if path_ := getattr(bridge, name):
                changed: dict[str, Any] = {name: str(layers.said["bridges", number, name].base / path_)}
                bridge = replace(bridge, **changed)  # noqa: PLW2901 - the same one, with its files where they are
        found[bridge.name] = bridge
    return tuple(found.values())


def _numbered(layers: Layers, name: str, kind: Callable[..., T], needed: tuple[str, ...]) -> Iterator[tuple[str, T]]:
    """The tables of a list, in their order: the number and the object of each that has no mistake."""
    of_table: Any = kind
    for number in sorted({int(path[1]) for path in layers.said if path[0] == name}):
        table = (name, str(number))
        said = {it.name: layers.said.get((*table, it.name)) for it in fields(of_table)}
        fields_ = {key: it.value for key, it in said.items() if it is not None}
        missing = [key for key in needed if key not in fields_]
        try:
            if not missing:
                yield str(number), kind(**fields_)
        except UsageError as error:
            key, why = _refused(of_table.__name__, str(error))
            if key not in fields_:
                key, why = needed[-1], str(error)
            layers.problem(layers.said[*table, key].where, (*table, key), why)
        for key in missing:
            layers.problem(layers.first_place(table), table, f"{key} is missing")


def build_routes(layers: Layers) -> tuple[Route, ...]:
    """The routes, in their order."""
    found = [route for _, route in _numbered(layers, "routes", Route, ("to", "via"))]
    if found:
        _checked(layers, ("routes",), layers.first_place(("routes",)), lambda: check_routes("the file", found))
    return tuple(found)


def _checked(layers: Layers, path: KeyPath, where: str, check: Callable[[], T]) -> T | None:
    try:
        return check()
    except TriackError as error:
        layers.problem(where, path, str(error))
        return None
