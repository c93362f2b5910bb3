"""Each container that a peer can make grow is in a table for operators, with its limit; and each other one is named."""

import ast
import asyncio
import importlib
import re
from collections import Counter, deque
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import triack
from tests.attacks.growth import OTHERS, ROWS, names_in
from tests.node.nodes import WAIT, make
from tests.pages import ROOT

ROOMS = ("node", "ordering", "queues", "session", "transport")
"""Those that hold something for peers and clients."""
KINDS = (
    *("dict", "list", "set", "deque", "bytearray", "array", "OrderedDict", "defaultdict", "Counter"),
    *("WeakValueDictionary", "WeakSet"),
)


@pytest.mark.gate
def test_each_container_has_a_limit_or_a_reason_why_it_needs_none() -> None:
    """A new one is a decision: who pays for it, how much there may be of it, and what goes when that is reached."""
    assert [name for name, times in named().items() if times > 1] == []
    assert sorted(containers() - named().keys()) == [], "name its row in tests/attacks/growth.py, or why it needs none"
    assert [name for name in named() if not is_there(name)] == [], "it is gone: take it out of tests/attacks/growth.py"


def named() -> Counter[str]:
    return Counter(name for table in (ROWS, OTHERS) for lines in table.values() for name in names_in(lines))


def is_there(name: str) -> bool:
    """Whether the source has what ``growth`` names. Some is inherited, or given to its class."""
    place, _, owner = name.partition(" ")
    words = set(re.findall(r"\w+", (ROOT / place).read_text())) if (ROOT / place).exists() else set()
    return name in containers() or words.issuperset(owner.split(".")) or _is_inherited(place, *owner.split("."))


def _is_inherited(place: str, owner: str, name: str) -> bool:
    module = importlib.import_module(f"triack.{place.removesuffix('.py').replace('/', '.')}")
    return any(name in of.__dict__.get("__slots__", ()) for of in getattr(module, owner, object).__mro__)


def test_each_row_is_in_the_tables_for_operators() -> None:
    """Once; and the tables have no row of which nothing is known here but what has no container."""
    cells = re.findall(r"^\| ([^|]+?) \|", (ROOT / "docs" / "peer-cost.md").read_text(), re.MULTILINE)
    assert [row for row in ROWS if sum(cell.startswith(row) for cell in cells) != 1] == []


@cache
def containers() -> frozenset[str]:
    """The containers that the classes of these rooms have, as ``place Class.attribute``."""
    found: set[str] = set()
    for path in (path for room in ROOMS for path in (ROOT / room).rglob("*.py")):
        for one in ast.parse(path.read_text()).body:
            if isinstance(one, ast.ClassDef):
                found.update(f"{path.relative_to(ROOT)} {one.name}.{name}" for name in _attributes(one))
    return frozenset(found)


def _attributes(found: ast.ClassDef) -> Iterator[str]:
    """Those of a class that are containers: fields, and what its methods set."""
    for field in found.body:
        match field:
            case ast.AnnAssign(target=ast.Name(id=name)) if _is_kind(field.annotation) or _is_container(field.value):
                yield name
    for node in ast.walk(found):
        match node:
            case ast.AnnAssign(target=target) if _is_kind(node.annotation) or _is_container(node.value):
                yield from _own(target)
            case ast.Assign(targets=[ast.Tuple() as several], value=ast.Tuple(elts=values)):
                for target, value in zip(several.elts, values, strict=True):
                    yield from _own(target) if _is_container(value) else ()
            case ast.Assign(targets=[target]) if _is_container(node.value):
                yield from _own(target)


def _own(target: ast.expr) -> Iterator[str]:
    match target:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            yield name


def _is_kind(said: ast.expr) -> bool:
    """Whether a name, or what it is taken of, is that of a container; of several types, any."""
    match said:
        case ast.BinOp():
            return _is_kind(said.left) or _is_kind(said.right)
        case ast.Subscript():
            return _is_kind(said.value)
        case ast.Attribute():
            return said.attr in KINDS
    return isinstance(said, ast.Name) and said.id in KINDS


def _is_container(value: ast.expr | None) -> bool:
    match value:
        case ast.Dict() | ast.List() | ast.Set() | ast.ListComp() | ast.SetComp() | ast.DictComp():
            return True
        case ast.IfExp():
            return _is_container(value.body) or _is_container(value.orelse)
        case ast.BinOp():
            return _is_container(value.left) or _is_container(value.right)
        case ast.BoolOp():
            return any(map(_is_container, value.values))
        case ast.Call():
            made = [each.value for each in value.keywords if each.arg == "default_factory"]
            return _is_kind(value.func) or any(map(_is_kind, made))
    return False


@pytest.mark.gate
async def test_no_container_of_a_node_that_runs_is_overlooked(tmp_path: Path) -> None:
    """All that can be reached from one with a peer and a client: what the source says is all there is."""
    known = containers() | named().keys()
    async with make("a", tmp_path, "udp") as node, make("b", scheme="udp") as peer:
        async with triack.connect(tmp_path) as client, asyncio.timeout(WAIT):
            reader = node.receive("q")
            subscription = await node.subscribe("t.#")
            for body in (b"x", b"y" * 70_000):
                receipt = await peer.send(f"{node.address}/q", body)
                (await reader.get()).ack()
                await receipt.ordered()
                await (await client.send(f"{peer.address}/q", body)).stored()
            held = list(walk(node).values())
        reader.close()
        subscription.close()
    assert len(held) > 200
    assert [sorted(names) for names in held if not names & known] == []


def walk(start: object) -> dict[int, set[str]]:
    """The containers that can be reached from an object, by identity: their names in all objects that hold them."""
    found: dict[int, set[str]] = {}
    seen: dict[int, object] = {}
    todo = [start]
    while todo:
        it = todo.pop()
        if id(it) in seen:
            continue
        seen[id(it)] = it
        if isinstance(it, dict):
            todo += [*it, *it.values()]
        elif isinstance(it, (list, set, tuple, deque)):
            todo += it
        elif type(it).__module__.startswith("triack."):
            for name, value in _held_by(it):
                todo.append(value)
                if type(value).__name__ in KINDS:
                    found.setdefault(id(value), set()).update(_names(type(it), name))
    return {key: names for key, names in found.items() if names}


def _held_by(it: object) -> Iterator[tuple[str, object]]:
    slots = {name for of in type(it).__mro__ for name in of.__dict__.get("__slots__", ())}
    for name in (*slots, *getattr(it, "__dict__", ())):
        if name not in ("__dict__", "__weakref__") and hasattr(it, name):
            yield name, getattr(it, name)


def _names(of: type, name: str) -> Iterator[str]:
    """What an attribute may be called in the source: by the name of its class, or of one that that extends."""
    for holder in of.__mro__:
        room, *place = holder.__module__.removeprefix("triack.").split(".")
        if room in ROOMS:
            yield f"{'/'.join([room, *place])}.py {holder.__name__}.{name}"
