"""The rules of the house: each is a function that takes source and returns findings.

What is allowed is in the tables below: change the table, with a reason, rather than the rule.
"""

import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CODE_FOLDERS = ("api", "base", "session", "ordering", "queues", "stats", "store", "transport", "node", "tools")
"""The folders that go into the wheel."""
BESIDE_FOLDERS = ("proof", "tests")
"""Code beside the product: it may import all of it, and nothing of the product imports it."""
NOT_CODE = {"tests", "proof", "docs", "examples", "build", "dist"}

# Room -> the rooms it may import, beside itself. One way, no circle: a room stands above all that it names.
MAY_IMPORT: dict[str, set[str]] = {
    "base": set(),
    "session": {"base"},
    "ordering": {"base"},
    "queues": {"base", "session", "ordering"},
    "stats": {"base", "session", "ordering", "queues"},
    "store": {"base"},
    "transport": {"base"},
    "node": {"base", "session", "ordering", "queues", "stats", "store", "transport"},
    "api": {"base", "session", "ordering", "queues", "stats", "store", "transport", "node"},
    "tools": {"base", "session", "ordering", "queues", "stats", "store", "transport", "node", "api"},
}
# Rooms within a room -> which of them each may import, beside itself. The name of the folder alone stands for the
# modules that lie in it directly. One way, no circle, as above.
WALLS: dict[str, set[str]] = {
    "queues": set(),
    "queues/mailboxes": {"queues"},
    "queues/journals": {"queues", "queues/mailboxes"},
    "queues/topics": {"queues", "queues/mailboxes"},
    "queues/peers": {"queues", "queues/mailboxes"},
    "queues/streams": {"queues", "queues/mailboxes", "queues/peers"},
    "queues/transit": {"queues", "queues/mailboxes", "queues/peers", "queues/streams"},
    "queues/remote": {"queues", "queues/mailboxes", "queues/topics", "queues/peers", "queues/streams"},
    "queues/manager": {
        *("queues", "queues/mailboxes", "queues/journals", "queues/topics"),
        *("queues/peers", "queues/streams", "queues/transit", "queues/remote"),
    },
    "session/protocol": set(),
    "session/congestion": {"session/protocol"},
    "session/path": {"session/protocol", "session/congestion"},
    "session/acknowledgements": {"session/protocol", "session/congestion", "session/path"},
    "session": {"session/protocol", "session/congestion", "session/path", "session/acknowledgements"},
    "node/files": set(),
    "node/shell": {"node/files"},
    "node/handles": {"node/files", "node/shell"},
    "node/control": {"node/files", "node/shell", "node/handles"},
    "node/config": {"node/files", "node/shell", "node/handles"},
    "node/client": {"node/files", "node/shell", "node/handles", "node/control"},
    "node": {"node/files", "node/shell", "node/handles", "node/control", "node/config"},
    "node/sync": {"node/files", "node/shell", "node/handles", "node/control", "node/client", "node"},
    "tools/replay/log": set(),
    "tools/replay/checks": {"tools/replay/log"},
    "tools/replay/causes": {"tools/replay/log", "tools/replay/checks"},
    "tools/replay/tables": {"tools/replay/log"},
    "tools/replay/transit": {"tools/replay/log", "tools/replay/checks"},
    "tools/replay/topics": {"tools/replay/log", "tools/replay/checks"},
    "tools/replay/report": {"tools/replay/log", "tools/replay/checks"},
    "tools/replay/judges": {
        *("tools/replay/log", "tools/replay/checks", "tools/replay/causes"),
        *("tools/replay/transit", "tools/replay/topics", "tools/replay/report"),
    },
    "tools/replay/engines": {"tools/replay/log", "tools/replay/checks", "tools/replay/tables", "tools/replay/judges"},
    "tools/replay": {"tools/replay/log", "tools/replay/checks", "tools/replay/report", "tools/replay/engines"},
}
WALL_EXCEPTIONS = {("queues/peers/link.py", "triack.queues.streams.outgoing_stream")}
"""Imports through a wall that need a port instead. The list may only become shorter."""
MAX_MODULES = 20
LARGER_ROOMS = {
    "base": 22,
    "queues/mailboxes": 22,
    "tools/bench": 25,
    "tools/chaos": 23,
    "tools/commands": 22,
    "tools/replay/checks": 21,
    "transport": 28,
}
"""Rooms with more modules, and how many each has: they may only become smaller."""
MAX_LEVELS = 8
DEEPER_ROOMS = {"tools/testing": 10}
"""The same for how long the longest chain of imports within a room is."""
PURE_FOLDERS = ("base", "session", "ordering", "queues", "stats")
# fmt: off
IMPURE = {
    "apsw", "asyncio", "asyncio_dgram", "concurrent", "datetime", "importlib", "io", "logging", "multiprocessing", "os",
    "pathlib", "random", "secrets", "select", "selectors", "shutil", "signal", "socket", "sqlite3", "ssl", "structlog",
    "subprocess", "tempfile", "threading", "time", "uuid",
}
# fmt: on
IMPURE_CALLS = {"__import__", "input", "open", "print"}

MAX_FILE_LINES = 700
LONGER_FILES = {
    "queues/mailboxes/local_queues.py": 745,
    "queues/mailboxes/mailbox.py": 1_006,
    "queues/manager/engine.py": 827,
    "queues/streams/outbox.py": 856,
    "queues/transit/transits.py": 927,
    "session/session.py": 708,
    "store/store.py": 764,
    "tests/tools/outbox/test_pump.py": 747,
    "tools/replay/judges/stream_judge.py": 846,
}
"""Files with more lines, and how many each has: they may only become shorter, and those that fit leave the list."""
MAX_FUNCTION_LINES = 70
MAX_METHODS = 30
LARGER_CLASSES = {
    "node/handles/message.py Message": 32,
    "node/handles/transaction.py Transaction": 34,
    "node/shell/driver.py Driver": 47,
    "node/shell/engine_handle.py EngineHandle": 35,
    "ordering/transit.py TransitSequence": 41,
    "queues/mailboxes/local_queues.py LocalQueues": 43,
    "queues/mailboxes/mailbox.py Mailbox": 66,
    "queues/manager/engine.py Engine": 72,
    "queues/streams/inbox.py Inbox": 45,
    "queues/streams/outbox.py Outbox": 64,
    "queues/streams/outgoing_stream.py OutgoingStream": 33,
    "queues/transit/transits.py Transits": 63,
    "session/session.py Session": 67,
    "store/store.py Store": 41,
    "tools/chaos/run.py _Scene": 38,
    "tools/replay/checks/incoming_check.py Incoming": 36,
    "tools/replay/checks/outgoing_check.py Outgoing": 32,
    "tools/replay/checks/tier_check.py Tiers": 32,
    "tools/replay/judges/session_judge.py SessionJudge": 41,
    "tools/replay/judges/stream_judge.py StreamJudge": 74,
    "tools/replay/topics/topic_check.py TopicJudge": 46,
    "tools/sim/host.py SimHost": 47,
    "tools/testing/world.py World": 33,
}
"""Classes with more methods, and how many each has: they may only become smaller, and those that fit leave the list."""
MAX_ATTRIBUTES = 30
CONSTANT_FOLDERS = ("base", "session", "ordering", "queues", "stats", "store", "transport", "node")
"""Where a constant says why it has its value."""
CONSTANT = re.compile(r"_*[A-Z][A-Z0-9_]*")
# A comment that tells something: alone on the line above (which an empty line ends here), or beside the value.
WHY = re.compile(r"^# (?!fmt|noqa|type:)(?=.*\n\n)|  # (?!fmt|noqa|type:)", re.MULTILINE)
IMPORTED_AS = {"nats-py": "nats", "opentelemetry-api": "opentelemetry", "pyzmq": "zmq"}
"""Distributions whose names are not those of what they bring."""
# With a dash each, so that this file does not find itself.
LEFTOVERS = [word.replace("-", "") for word in ("TO-DO", "FIX-ME", "XX-X", "HA-CK")]


@dataclass(frozen=True, slots=True)
class Source:
    """One Python file: its path from the root of the repository, and its text."""

    path: str
    text: str

    @property
    def tree(self) -> ast.Module:
        return parse(self.text, self.path)

    @property
    def nodes(self) -> tuple[ast.AST, ...]:
        return walk(self.text, self.path)

    @property
    def room(self) -> str:
        """The top-level folder; a ``__main__`` is a program, and programs belong to the tools."""
        folder = self.path.split("/", 1)[0]
        return "tools" if folder in CODE_FOLDERS and self.path.endswith("__main__.py") else folder

    @property
    def module(self) -> str:
        """The name it is imported by: ``api/errors.py`` is ``triack.base.errors``."""
        parts = self.path.removesuffix(".py").split("/")
        if parts[0] == "api":
            parts = parts[1:]
        if parts and parts[-1] == "__init__":
            parts = parts[:-1]
        return shorten(".".join(["triack", *parts]))

    @property
    def package(self) -> str:
        """The package that relative imports start from."""
        return self.module if self.path.endswith("__init__.py") else self.module.rpartition(".")[0]

    def at(self, node: ast.AST | int, reason: str) -> str:
        """A finding: file, line and reason."""
        line = node if isinstance(node, int) else getattr(node, "lineno", 1)
        return f"{self.path}:{line}: {reason}"


@dataclass(frozen=True, slots=True)
class Import:
    """One imported name: ``from a.b import c`` is module ``a.b`` and name ``c``; ``import a.b`` has no name."""

    node: ast.stmt
    module: str
    name: str = ""

    @property
    def full(self) -> str:
        """Module and name as one dotted path."""
        return f"{self.module}.{self.name}" if self.name else self.module

    @property
    def top(self) -> str:
        """The distribution's own name: the part before the first dot."""
        return self.module.partition(".")[0]


@cache
def parse(text: str, path: str) -> ast.Module:
    """Parse once, however many rules look."""
    return ast.parse(text, path)


@cache
def walk(text: str, path: str) -> tuple[ast.AST, ...]:
    """Walk once, too: that takes longer than most rules."""
    return tuple(ast.walk(parse(text, path)))


@cache
def house() -> tuple[Source, ...]:
    """Every Python file of the product, the proof and the tests."""
    files = (file for folder in (*CODE_FOLDERS, *BESIDE_FOLDERS) for file in sorted((ROOT / folder).rglob("*.py")))
    return tuple(Source(file.relative_to(ROOT).as_posix(), file.read_text(encoding="utf-8")) for file in files)


def code() -> tuple[Source, ...]:
    """Every Python file that goes into the wheel."""
    return tuple(source for source in house() if source.room in CODE_FOLDERS)


@cache
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def imports(source: Source) -> Iterator[Import]:
    """Every import, at any depth of the file, with relative ones made absolute."""
    for node in source.nodes:
        if isinstance(node, ast.Import):
            yield from (Import(node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                base = source.package.split(".")[: len(source.package.split(".")) - node.level + 1]
                module = ".".join([*base, *([module] if module else [])])
            yield from (Import(node, module, alias.name) for alias in node.names)


@cache
def short_names() -> dict[str, str]:
    """Packages that users import by a shorter name than their folder's, as pyproject.toml maps them."""
    folders = project()["tool"]["setuptools"]["package-dir"].items()
    names = {".".join(["triack", *folder.split("/")]): name for name, folder in folders if name != "triack"}
    return {long: name for long, name in names.items() if long != name}


def shorten(module: str) -> str:
    """The name that a module's folders give it, as users write it."""
    for folder, name in short_names().items():
        if f"{module}.".startswith(f"{folder}."):
            return name + module.removeprefix(folder)
    return module


def room_of(full: str) -> str:
    """The room that a dotted path under ``triack`` belongs to; ``triack`` and what is no room are ``api``."""
    for folder, name in short_names().items():
        if f"{full}.".startswith(f"{name}."):
            full = folder
    second = full.split(".")[1:2]
    return second[0] if second and second[0] in MAY_IMPORT else "api"


# Rules on one file.


def room_rule(source: Source) -> Iterator[str]:
    """Imports run one way, annotations included."""
    for found in imports(source):
        if found.top in MAY_IMPORT:
            yield source.at(found.node, f"write triack.{found.module}: the folder's own name is not installed")
        if shorten(found.full) != found.full:
            yield source.at(found.node, f"write {shorten(found.full)}: the folder's own name is not installed")
        if found.top in BESIDE_FOLDERS:
            yield source.at(found.node, f"the product may not import {found.full}, which is not in the wheel")
        if found.top != "triack":
            continue
        room = room_of(found.full)
        if room != source.room and room not in MAY_IMPORT[source.room]:
            yield source.at(found.node, f"{source.room} may not import {found.full}, which is part of {room}")


def wall_rule(source: Source) -> Iterator[str]:
    """Rooms within a room import one way, too."""
    own = walled_room(source.path.removesuffix(".py"))
    for found in imports(source):
        room = walled_room(found.full.removeprefix("triack.").replace(".", "/")) if found.top == "triack" else ""
        if not own or not room or room == own or around(room) != around(own):
            continue
        if room not in WALLS[own] and (source.path, found.module) not in WALL_EXCEPTIONS:
            yield source.at(found.node, f"{own} may not import {found.full}, which is part of {room}")


def walled_room(path: str) -> str:
    """The innermost room of ``WALLS`` that a path lies in; empty for none."""
    return max((room for room in WALLS if f"{path}/".startswith(f"{room}/")), key=len, default="")


def around(room: str) -> str:
    """The room that a room of ``WALLS`` is a part of."""
    outer = room.rpartition("/")[0]
    return outer if outer in WALLS else room


def circle_rule(sources: Iterable[Source]) -> Iterator[str]:
    """No module imports itself by way of others, for types included: parts are understood one after the other."""
    by_name = {source.module: source for source in sources}
    imported = {
        name: {
            target
            for found in imports(source)
            for target in (found.full, found.module)
            if target in by_name and target != name and not name.startswith(f"{target}.")
        }
        for name, source in by_name.items()
    }
    done: set[str] = set()

    def visit(name: str, way: list[str]) -> Iterator[str]:
        if name in way:
            circle = [*way[way.index(name) :], name]
            yield by_name[name].at(1, f"imports itself by way of {' -> '.join(circle[1:])}")
        elif name not in done:
            done.add(name)
            for target in sorted(imported[name]):
                yield from visit(target, [*way, name])

    for name in sorted(imported):
        yield from visit(name, [])


def purity_rule(source: Source) -> Iterator[str]:
    """A pure module reads no clock, no randomness, no network and no disk: they are arguments."""
    if source.room not in PURE_FOLDERS:  # a room is pure as a whole or not at all
        return
    for found in runtime_imports(source):
        if found.top in IMPURE:
            yield source.at(found.node, f"a pure module may not import {found.full}, but for a type (TYPE_CHECKING)")
    for node in source.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS:
            yield source.at(node, f"a pure module may not call {node.func.id}()")


def size_rule(source: Source) -> Iterator[str]:
    """Files and functions stay small enough to be read in one go."""
    lines, limit = len(source.text.splitlines()), LONGER_FILES.get(source.path, MAX_FILE_LINES)
    if lines > limit:
        yield source.at(limit + 1, f"the file has {lines} lines, over {limit}")
    if source.path in LONGER_FILES and lines <= MAX_FILE_LINES:
        yield source.at(1, f"the file fits in {MAX_FILE_LINES} lines now: take it out of LONGER_FILES")
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                yield source.at(node, f"{node.name} has {lines} lines, over {MAX_FUNCTION_LINES}")


def method_rule(source: Source) -> Iterator[str]:
    """A class is one thing, which a reader takes in by the names of its methods; properties count, too."""
    for node in source.nodes:
        if isinstance(node, ast.ClassDef):
            methods = sum(isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) for part in node.body)
            name = f"{source.path} {node.name}"
            limit = LARGER_CLASSES.get(name, MAX_METHODS)
            if methods > limit:
                yield source.at(node, f"{node.name} has {methods} methods, over {limit}")
            if name in LARGER_CLASSES and methods <= MAX_METHODS:
                yield source.at(node, f"{node.name} fits in {MAX_METHODS} methods now: take it out of LARGER_CLASSES")


def attribute_rule(source: Source) -> Iterator[str]:
    """No class holds so much that its parts have lost their names."""
    for node in source.nodes:
        if isinstance(node, ast.ClassDef) and not is_record(node) and len(found := attributes(node)) > MAX_ATTRIBUTES:
            yield source.at(node, f"{node.name} sets {len(found)} attributes, over {MAX_ATTRIBUTES}")


def is_record(node: ast.ClassDef) -> bool:
    """Whether a class is a plain record: its fields are what it is for."""
    return any("dataclass" in names_in(decorator) for decorator in node.decorator_list)


def attributes(node: ast.ClassDef) -> set[str]:
    """The attributes that a class sets on itself in its methods, and the fields that its body declares."""
    found: set[str] = set()
    for part in node.body:
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) and part.args.args:
            found |= set(assigned(part, part.args.args[0].arg))
        elif isinstance(part, ast.AnnAssign) and "ClassVar" not in names_in(part.annotation):
            found |= set(names_of(part))
        elif names_of(part) == ["__slots__"]:
            found |= {
                one.value for one in ast.walk(part) if isinstance(one, ast.Constant) and isinstance(one.value, str)
            }
    return found


def assigned(method: ast.AST, me: str) -> Iterator[str]:
    """The attributes of ``me`` that a method assigns; in a tuple, a loop or a ``with``, too."""
    for node in ast.walk(method):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and names_in(node.value) == {me}:
            yield node.attr


def constant_rule(source: Source) -> Iterator[str]:
    """A chosen constant has its reason beside it: in a docstring below it, or in a comment."""
    if source.room not in CONSTANT_FOLDERS:
        return
    lines = source.text.splitlines()
    for node, after in zip_longest(source.tree.body, source.tree.body[1:]):
        above, value = lines[max(node.lineno - 2, 0) : node.lineno - 1], lines[node.lineno - 1 : node.end_lineno]
        said = is_docstring(after) or WHY.search("\n".join([*above, "", *value]))
        for name in names_of(node):
            if CONSTANT.fullmatch(name) and is_chosen(node) and not said:
                yield source.at(node, f"{name} does not say why it has its value")


def is_chosen(node: ast.stmt) -> bool:
    """Does a statement give a number or a text, and not what is computed from others or is a table?"""
    kinds = ast.Constant | ast.BinOp | ast.UnaryOp | ast.operator | ast.unaryop | ast.Name | ast.expr_context
    value = getattr(node, "value", None)
    parts = list(ast.walk(value)) if value is not None else []
    return all(isinstance(part, kinds) for part in parts) and any(isinstance(part, ast.Constant) for part in parts)


def is_docstring(node: ast.stmt | None) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def names_of(node: ast.stmt) -> list[str]:
    given = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in given if isinstance(target, ast.Name)]


def leftover_rule(source: Source) -> Iterator[str]:
    """No note to oneself: it is done, or it is an issue somewhere else."""
    for number, line in enumerate(source.text.splitlines(), start=1):
        for word in re.findall(rf"\b(?:{'|'.join(LEFTOVERS)})\b", line):
            yield source.at(number, f"{word} left in the source")


def except_rule(source: Source) -> Iterator[str]:
    """No failure is swallowed unseen."""
    broad = {"Exception", "BaseException"}
    for node in source.nodes:
        if isinstance(node, ast.ExceptHandler):
            caught = names_in(node.type)
            if node.type is None:
                yield source.at(node, "a bare except")
            elif caught & broad and all(is_idle(statement) for statement in node.body):
                yield source.at(node, f"except {' and '.join(sorted(caught & broad))} that does nothing")
        elif isinstance(node, ast.Call) and names_in(node.func) & {"suppress"}:
            caught = {name for argument in node.args for name in names_in(argument)}
            if caught & broad:
                yield source.at(node, f"suppress({' and '.join(sorted(caught & broad))})")


def names_in(node: ast.AST | None) -> set[str]:
    """The last parts of the names in an expression: ``(a.B, C)`` gives B and C."""
    if node is None:
        return set()
    walked = list(ast.walk(node))
    return {n.id for n in walked if isinstance(n, ast.Name)} | {n.attr for n in walked if isinstance(n, ast.Attribute)}


def is_idle(statement: ast.stmt) -> bool:
    """Does this statement do nothing: pass, continue, or a bare constant such as ``...``?"""
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    return isinstance(statement, ast.Pass | ast.Continue)


# Rules on the house as a whole.


def runtime_imports(source: Source) -> list[Import]:
    """The imports that run, leaving out those for the type checker alone."""
    guarded = {
        inner
        for node in source.nodes
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }
    return [found for found in imports(source) if found.node not in guarded]


def package_rule(root: Path, settings: dict[str, Any]) -> Iterator[str]:
    """Every folder with an ``__init__.py`` is a package that the wheel contains, typed."""
    packages, folders = set(settings["packages"]), dict(settings["package-dir"])
    for extra in sorted(packages ^ set(folders)):
        yield f"pyproject.toml:1: {extra} is in only one of packages and package-dir"
    for file in sorted(root.rglob("__init__.py")):
        folder = file.parent.relative_to(root).as_posix()
        if folder.split("/")[0] in NOT_CODE or folder.startswith("."):
            continue
        name = Source(f"{folder}/__init__.py", "").module
        if folders.get(name) != folder:
            yield f"{folder}/__init__.py:1: pyproject.toml does not say that {name} is {folder}"
    for name, folder in sorted(folders.items()):
        for needed in ("__init__.py", "py.typed"):
            if not (root / folder / needed).is_file():
                yield f"{folder}/{needed}:1: missing, although pyproject.toml lists {name}"


def folder_rule(root: Path) -> Iterator[str]:
    """Every folder with tests is a package, so that two test files may have the same name."""
    for folder in sorted({file.parent for file in (root / "tests").rglob("*.py")}):
        if not (folder / "__init__.py").is_file():
            yield f"{folder.relative_to(root).as_posix()}/__init__.py:1: missing in a folder with tests"


def place_rule(files: Iterable[str]) -> Iterator[str]:
    """Each room has its tests in its folder below ``tests``, and each file of tests is in the folder of a room.

    Stories of a whole room may be in its ``stories/``. What tests a machine of the tests themselves lies beside it;
    ``tests/attacks`` and ``tests/mission`` are about all of the house.
    """
    files = set(files)
    rooms = {folder_of(file) for file in files if is_code(file)}
    tests = {file for file in files if file.rpartition("/")[2].startswith("test_") and file.startswith("tests/")}
    for room in sorted(rooms):
        if not any(test.startswith(f"tests/{room}/") for test in tests):
            yield f"{room}:1: has no tests in tests/{room}"
    for test in sorted(tests):
        folder = folder_of(test)
        of = folder.removeprefix("tests/").removesuffix("/stories")
        anywhere = folder in ("tests", "tests/attacks", "tests/mission")
        if not anywhere and of not in rooms and test.replace("/test_", "/") not in files:
            yield f"{test}:1: {of} is no room"


def is_code(file: str) -> bool:
    """Whether a file is a module of the product or of the proof; ``api/`` has only its ``__init__.py``."""
    room, _, name = file.partition("/")
    return room in (*CODE_FOLDERS, "proof") and name.endswith(".py")


def folder_of(file: str) -> str:
    return file.rpartition("/")[0]


def crowd_rule(files: Iterable[str]) -> Iterator[str]:
    """No room has more modules than a reader takes in by their names."""
    modules = [file.rpartition("/")[::2] for file in files if file.split("/")[0] in CODE_FOLDERS]
    counts = Counter(folder for folder, name in modules if name != "__init__.py")
    for folder, count in sorted(counts.items()):
        limit = LARGER_ROOMS.get(folder, MAX_MODULES)
        if count > limit:
            yield f"{folder}:1: has {count} modules, over {limit}"


def level_rule(sources: Iterable[Source]) -> Iterator[str]:
    """No room is a tower: the longest chain of imports between modules of one folder is short."""
    rooms: dict[str, dict[str, Source]] = {}
    for source in sources:
        rooms.setdefault(source.path.rpartition("/")[0], {})[source.module] = source
    for folder, modules in sorted(rooms.items()):
        levels = max(levels_of(modules).values())
        limit = DEEPER_ROOMS.get(folder, MAX_LEVELS)
        if levels > limit:
            yield f"{folder}:1: has {levels} levels of imports, over {limit}"


def levels_of(modules: dict[str, Source]) -> dict[str, int]:
    """How long the longest chain of imports is that begins at each module; ``circle_rule`` comes before."""
    levels: dict[str, int] = {}

    def level(name: str) -> int:
        if name not in levels:
            levels[name] = 1  # a package that its own modules import from
            targets = {target for found in imports(modules[name]) for target in (found.full, found.module)}
            levels[name] += max((level(target) for target in targets & set(modules) - {name}), default=0)
        return levels[name]

    for name in modules:
        level(name)
    return levels


def error_rule(source: Source) -> Iterator[str]:
    """Every error is public and one of the tree."""
    classes = {node.name: node for node in source.tree.body if isinstance(node, ast.ClassDef)}
    listed: set[str] = set()
    for statement in source.tree.body:
        if isinstance(statement, ast.Assign) and "__all__" in names_in(statement.targets[0]):
            listed = set(ast.literal_eval(statement.value))
    for name, node in classes.items():
        if name not in listed:
            yield source.at(node, f"{name} is not in __all__")
        if not is_error(name, classes):
            yield source.at(node, f"{name} does not derive from TriackError")
    for name in sorted(listed - set(classes)):
        yield source.at(1, f"__all__ names {name}, which is no class of this file")


def is_error(name: str, classes: dict[str, ast.ClassDef]) -> bool:
    if name == "TriackError" or name not in classes:
        return name == "TriackError"
    return any(is_error(base, classes) for node in classes[name].bases for base in names_in(node))


def dependency_rule(source: Source, declared: set[str]) -> Iterator[str]:
    """Every import is in the standard library or declared in pyproject.toml."""
    for found in imports(source):
        if found.top not in declared | sys.stdlib_module_names | {"triack", "tests"} and found.top not in MAY_IMPORT:
            yield source.at(found.node, f"pyproject.toml does not declare {found.top}")


def declared(extras: bool = True) -> set[str]:
    """The import names of what pyproject.toml asks for."""
    settings = project()["project"]
    lists = [settings["dependencies"]]
    if extras:
        lists += [*settings["optional-dependencies"].values(), *project()["dependency-groups"].values()]
    wishes = [wanted for wants in lists for wanted in wants if isinstance(wanted, str)]
    names = {re.split(r"[^\w-]", wanted, maxsplit=1)[0] for wanted in wishes}
    return {IMPORTED_AS.get(name, name.replace("-", "_")) for name in names}
