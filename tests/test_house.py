"""The rules of the house, checked on the source itself.

One test for each rule of ``house`` on the whole house, and one that shows the rule its own bad example and sees it
bite.
"""

from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from pathlib import Path

import pytest

from tests.changed import CORE, folders_for
from tests.house import (
    LARGER_CLASSES,
    LEFTOVERS,
    LONGER_FILES,
    MAX_ATTRIBUTES,
    MAX_FILE_LINES,
    MAX_FUNCTION_LINES,
    MAX_LEVELS,
    MAX_METHODS,
    MAX_MODULES,
    ROOT,
    WALL_EXCEPTIONS,
    WALLS,
    Source,
    around,
    attribute_rule,
    circle_rule,
    code,
    constant_rule,
    crowd_rule,
    declared,
    dependency_rule,
    error_rule,
    except_rule,
    folder_rule,
    house,
    imports,
    leftover_rule,
    level_rule,
    method_rule,
    package_rule,
    place_rule,
    project,
    purity_rule,
    room_rule,
    size_rule,
    wall_rule,
)

FILE_RULES = [
    room_rule,
    wall_rule,
    purity_rule,
    size_rule,
    method_rule,
    attribute_rule,
    constant_rule,
    leftover_rule,
    except_rule,
]


def no_findings(findings: Iterable[str]) -> None:
    """Fail with all findings, one a line."""
    found = list(findings)
    if found:
        pytest.fail(f"{len(found)} findings:\n" + "\n".join(found), pytrace=False)


@pytest.mark.parametrize("rule", FILE_RULES)
def test_every_file_keeps_the_rule(rule: Callable[[Source], Iterator[str]]) -> None:
    """The layer and purity rules are for code; sizes, leftovers and excepts for the tests too."""
    sources = code() if rule in (room_rule, wall_rule, purity_rule) else house()
    assert len(sources) > 1
    no_findings(finding for source in sources for finding in rule(source))


def test_no_module_imports_itself() -> None:
    """There is an order in which the product can be read."""
    no_findings(circle_rule(code()))


def test_every_room_is_small() -> None:
    """A stranger finds a rule by reading the names of folders, and then those of a few files."""
    no_findings(crowd_rule(source.path for source in code()))
    no_findings(level_rule(code()))


def test_the_page_for_makers_says_the_limits_and_draws_a_short_way() -> None:
    """A dozen stops out, a dozen in, eight for an acknowledgement: each kind of those has one of the first three."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    said = " ".join(page.split())
    assert f"more than {MAX_MODULES} modules, or more than {MAX_LEVELS} levels" in said
    assert f"No function over {MAX_FUNCTION_LINES} lines, no file over {MAX_FILE_LINES}" in said
    assert f"no class over {MAX_METHODS} methods or {MAX_ATTRIBUTES} attributes" in said
    drawn = page.split("```text\n")[1].split("```")[0].strip().split("\n\n")
    ways = [[line.split()[0].rstrip(",") for line in way.splitlines()[1:]] for way in drawn]
    assert all(len(way) <= most for way, most in zip(ways, (12, 12, 8 + 2), strict=True))
    assert not [stop for way in ways for stop in way if not (ROOT / stop).is_file()]


def test_walls_have_no_circle_and_no_exception_too_many() -> None:
    """Each room stands above all that it may import, and what is excepted from that is still imported."""
    for room, others in WALLS.items():
        assert not [other for other in others if room in WALLS[other] or around(other) != around(room)], room
    met = {(source.path, found.module) for source in code() for found in imports(source)}
    assert not WALL_EXCEPTIONS - met


def test_packages_are_listed_and_typed() -> None:
    """Folders, pyproject.toml and type markers agree."""
    no_findings(package_rule(ROOT, project()["tool"]["setuptools"]))


def test_test_folders_are_packages() -> None:
    """A missing ``__init__.py`` makes test names collide."""
    no_findings(folder_rule(ROOT))


def test_every_room_has_its_tests() -> None:
    """They are found by its name."""
    no_findings(place_rule(source.path for source in house()))


def test_errors_are_one_public_tree() -> None:
    """``except triack.TriackError`` catches everything Triack raises on purpose."""
    no_findings(error_rule(next(source for source in house() if source.path == "base/errors.py")))


def test_imports_are_declared() -> None:
    """Layers below the tools need only the plain installation; tools may need an extra."""
    for source in code():
        no_findings(dependency_rule(source, declared(extras=source.room == "tools")))


def test_the_installed_package_is_this_one_and_nothing_else() -> None:
    """The wheel has every module of the house, and puts nothing beside the package."""
    try:
        installed = [file.as_posix() for file in metadata.files("triack") or []]
    except metadata.PackageNotFoundError:
        pytest.skip("triack is not installed")
    if any(file.startswith("__editable__") for file in installed):
        pytest.skip("triack is installed editable")
    modules = {file for file in installed if file.endswith(".py")}
    pages = {"triack/docs/__init__.py"}  # beside which the wheel has the pages that `triack help` prints
    assert modules == pages | {f"{source.module.replace('.', '/')}{file_tail(source)}" for source in code()}
    beside = {file for file in installed if not file.startswith(("triack/", "triack-")) and "__mypyc." not in file}
    assert {Path(file).stem for file in beside} == {"triack"}, beside


def file_tail(source: Source) -> str:
    """What turns a module's name into its file again."""
    return "/__init__.py" if source.path.endswith("__init__.py") else ".py"


# Every rule bites.


@pytest.mark.parametrize(
    ("path", "text", "reason"),
    [
        ("session/a.py", "import triack.node.node", "session may not import triack.node.node"),
        ("session/a.py", "from triack import ordering", "session may not import triack.ordering"),
        ("session/a.py", "from ..transport import udp", "session may not import triack.transport.udp"),
        ("transport/a.py", "def f():\n    import triack.ordering", "transport may not import triack.ordering"),
        ("ordering/a.py", "from triack.session.sending import SendWindow", "ordering may not import triack.session"),
        ("queues/a.py", "from triack.store.rows import TABLES", "queues may not import triack.store.rows"),
        ("store/a.py", "from triack.queues import engine", "store may not import triack.queues.engine"),
        ("node/a.py", "from triack import open", "node may not import triack.open, which is part of api"),
        ("node/deep/a.py", "from ...tools import cli", "node may not import triack.tools.cli"),
        ("api/__init__.py", "from .tools import cli", "api may not import triack.tools.cli"),
        ("base/errors.py", "from triack.session import rtt", "base may not import triack.session.rtt"),
        ("node/a.py", "from triack.testing import World", "node may not import triack.testing.World, which is part of"),
        (
            "session/a.py",
            "if TYPE_CHECKING:\n    from triack.node.node import Node",
            "session may not import triack.node",
        ),
        ("tools/a.py", "from session import rtt", "write triack.session"),
        ("tools/a.py", "from triack.tools.testing import World", "write triack.testing.World"),
        ("tools/a.py", "from proof.planted import BUGS", "the product may not import proof.planted.BUGS"),
    ],
)
def test_room_rule_bites(path: str, text: str, reason: str) -> None:
    """An import against the grain is found, absolute or relative, at any depth."""
    findings = list(room_rule(Source(path, text)))
    assert [finding for finding in findings if reason in finding]
    assert findings[0].startswith(f"{path}:{2 if chr(10) in text else 1}: ")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("session/a.py", "from . import rtt\nfrom triack.base.errors import ProtocolError"),
        ("transport/a.py", "from triack.base import errors\nimport socket"),
        ("queues/a.py", "from triack.session import x\nfrom triack.ordering import wire\nfrom .engine import Engine"),
        ("node/a.py", "from triack.store.store import Store\nfrom ..transport import udp"),
        ("api/__init__.py", "from .node.node import Node\nfrom .base import errors"),
        ("api/__main__.py", "from triack.tools.cli import main"),
        (
            "tools/testing/a.py",
            "from triack.testing.loop import VirtualLoop\nfrom .loop import Process\nimport triack.tools.cli",
        ),
        ("tools/replay/a.py", "import triack\nfrom triack import Node\nfrom ..cli import main"),
    ],
)
def test_room_rule_lets_the_grain_be(path: str, text: str) -> None:
    """An import that the table allows is not found."""
    assert list(room_rule(Source(path, text))) == []


@pytest.mark.parametrize(
    ("path", "text", "reason"),
    [
        ("queues/peers/a.py", "from triack.queues.streams.inbox import Inbox", "queues/peers may not import triack"),
        ("queues/mailboxes/a.py", "from triack.queues.peers import link", "which is part of queues/peers"),
        ("queues/a.py", "from ..queues.mailboxes import line", "which is part of queues/mailboxes"),
        ("session/path/a.py", "import triack.session.session", "which is part of session"),
        ("node/node.py", "from triack.node.sync.sync import Node", "which is part of node/sync"),
    ],
)
def test_wall_rule_bites(path: str, text: str, reason: str) -> None:
    """An import through a wall is found; one along the stairs, or into another big room, is not."""
    assert [finding for finding in wall_rule(Source(path, text)) if reason in finding]
    assert list(wall_rule(Source("queues/manager/a.py", "from triack.queues.streams.inbox import Inbox"))) == []
    assert list(wall_rule(Source("session/session.py", "from triack.session.path import sizing"))) == []
    assert list(wall_rule(Source("queues/a.py", "from triack.session.path import sizing"))) == []


def test_crowd_rule_bites() -> None:
    """One module over is over; the package's own file counts for nothing."""
    room = [f"store/a{number}.py" for number in range(MAX_MODULES)]
    assert list(crowd_rule([*room, "store/__init__.py", "tests/store/test_a.py"])) == []
    over = f"store:1: has {MAX_MODULES + 1} modules, over {MAX_MODULES}"
    assert list(crowd_rule([*room, "store/one_more.py"])) == [over]


def test_level_rule_bites() -> None:
    """A chain of one module too many is found, and what other rooms add to it is not counted."""
    chain = [Source(f"store/a{number}.py", f"from triack.store.a{number + 1} import x") for number in range(MAX_LEVELS)]
    assert list(level_rule(chain)) == []
    last = Source(f"store/a{MAX_LEVELS}.py", "from triack.base.units import MS")
    assert list(level_rule([*chain, last])) == [f"store:1: has {MAX_LEVELS + 1} levels of imports, over {MAX_LEVELS}"]


def test_circle_rule_bites() -> None:
    """A circle is found, also one that only the type checker goes round; a straight line is not."""
    one = Source("session/one.py", "from triack.session.two import Two")
    two = Source("session/two.py", "if TYPE_CHECKING:\n    from triack.session.one import One")
    assert list(circle_rule([one, two])) == [
        "session/one.py:1: imports itself by way of triack.session.two -> triack.session.one"
    ]
    assert list(circle_rule([one, Source("session/two.py", "import struct")])) == []


@pytest.mark.parametrize(
    ("path", "text", "reason"),
    [
        ("session/a.py", "import time", "may not import time"),
        ("ordering/a.py", "from os.path import join", "may not import os.path.join"),
        ("session/a.py", "def f():\n    import asyncio.events", "may not import asyncio.events"),
        ("queues/engine.py", "import random", "may not import random"),
        ("session/a.py", "with open('x') as f: pass", "may not call open()"),
    ],
)
def test_purity_rule_bites(path: str, text: str, reason: str) -> None:
    """A clock, a socket or a file in a pure module is found."""
    assert [finding for finding in purity_rule(Source(path, text)) if reason in finding]


def test_purity_rule_lets_others_be() -> None:
    """Transport and the queue manager's shell do the input and output."""
    assert list(purity_rule(Source("node/driver.py", "import asyncio, time\nopen('x')"))) == []
    assert list(purity_rule(Source("session/a.py", "import struct\nself.open()"))) == []
    typed = "if TYPE_CHECKING:\n    from random import Random"
    assert list(purity_rule(Source("session/a.py", typed))) == []
    assert list(purity_rule(Source("session/a.py", typed.replace("if ", "if not ")))) != []


def test_size_rule_bites() -> None:
    """One line over is over."""
    assert list(size_rule(Source("session/a.py", "x = 1\n" * MAX_FILE_LINES))) == []
    assert f"{MAX_FILE_LINES + 1} lines" in next(size_rule(Source("session/a.py", "x = 1\n" * (MAX_FILE_LINES + 1))))
    body = "    x = 1\n" * (MAX_FUNCTION_LINES - 1)
    assert list(size_rule(Source("tests/a.py", f"async def f():\n{body}"))) == []
    assert "f has 71 lines" in next(size_rule(Source("tests/a.py", f"class C:\n def f():\n{body}    x = 1\n")))


def test_method_rule_bites() -> None:
    """One method over is over; functions within methods are none of the class's own."""
    first = "    @property\n    def f(self):\n        def g(): ...\n"
    methods = first + "    async def h(self): ...\n" * (MAX_METHODS - 1)
    assert list(method_rule(Source("session/a.py", f"class C:\n{methods}"))) == []
    over = f"class C:\n{methods}    def one_more(self): ...\n"
    assert list(method_rule(Source("session/a.py", over))) == [
        f"session/a.py:1: C has {MAX_METHODS + 1} methods, over {MAX_METHODS}"
    ]


def test_what_fits_leaves_the_lists_of_what_is_too_large() -> None:
    """An exception that nothing needs any more would let the house grow again, as would one for what is gone."""
    longer, larger = next(iter(LONGER_FILES)), next(iter(LARGER_CLASSES))
    path, name = larger.split()
    assert "fits" in next(size_rule(Source(longer, "x = 1")))
    assert "fits" in next(method_rule(Source(path, f"class {name}:\n    def f(self): ...")))
    there = {source.path: source for source in house()}
    assert not LONGER_FILES.keys() - there.keys()
    assert all(f"class {name}" in there[path].text for path, name in map(str.split, LARGER_CLASSES))


def test_attribute_rule_bites() -> None:
    """Fields, slots and what methods assign count together, each once; what belongs to another object does not."""
    fields = "\n".join(f"    a{number}: int = 0" for number in range(10))
    method = "    def f(me):\n        me.a1 = me.x[0] = other.y = 1\n"
    more = "        " + ", ".join(f"me.b{number}" for number in range(MAX_ATTRIBUTES - 11)) + " = range(99)\n"
    full = f"class C:\n    __slots__ = ('a1', 'c')\n    z: ClassVar[int] = 1\n{fields}\n{method}{more}"
    assert list(attribute_rule(Source("tests/a.py", full))) == []
    over = full + "        with open() as me.last:\n            pass\n"
    assert list(attribute_rule(Source("tests/a.py", over))) == [
        f"tests/a.py:1: C sets {MAX_ATTRIBUTES + 1} attributes, over {MAX_ATTRIBUTES}"
    ]


@pytest.mark.parametrize(
    ("text", "finds"),
    [
        ("LIMIT = 7", True),
        ("_LIMIT: Final = 7  # noqa: X1", True),
        ("# of something else\n\nLIMIT = 7", True),
        ("LIMIT = 7\nNEXT = 8  # of the next\n", True),
        ("LIMIT = 7\nLAST = -3 * LIMIT\n'''of the last'''", True),
        ("limit = 7\nLIMIT = {1: 7}\nSIZE = LIMIT\nHEAD = Struct('B')", False),
        ('LIMIT = 7\n"""RFC 1, section 2."""', False),
        ("LIMIT = 7  # RFC 1, section 2", False),
        ("# RFC 1, section 2.\nLIMIT = 7", False),
        ("LIMITS = {\n    1: 7,  # RFC 1, section 2\n}", False),
    ],
)
def test_constant_rule_bites(text: str, finds: bool) -> None:
    """A bare number is found in the core; tools and tests may have them."""
    assert [finding.split()[0] for finding in constant_rule(Source("session/a.py", text))] == [
        f"session/a.py:{text[: text.index('LIMIT = 7') if '# of s' in text else 0].count(chr(10)) + 1}:"
    ] * finds
    assert list(constant_rule(Source("tools/a.py", text))) == []


@pytest.mark.parametrize("word", LEFTOVERS)
def test_leftover_rule_bites(word: str) -> None:
    """The word is found in a comment and left alone inside another word."""
    assert list(leftover_rule(Source("api/a.py", f"x = 1\ny = 2  # {word}: later"))) == [
        f"api/a.py:2: {word} left in the source"
    ]
    assert list(leftover_rule(Source("api/a.py", f"{word}S = 1"))) == []


@pytest.mark.parametrize(
    ("handler", "reason"),
    [
        ("except:\n    raise", "a bare except"),
        ("except Exception:\n    pass", "except Exception that does nothing"),
        ("except (OSError, BaseException):\n    ...", "except BaseException that does nothing"),
    ],
)
def test_except_rule_bites(handler: str, reason: str) -> None:
    """A swallowed failure is found, a handled or a narrow one is not."""
    assert list(except_rule(Source("api/a.py", f"try:\n    f()\n{handler}"))) == [f"api/a.py:3: {reason}"]
    for fine in ("except OSError:\n    pass", "except Exception:\n    count += 1"):
        assert list(except_rule(Source("api/a.py", f"try:\n    f()\n{fine}"))) == []
    assert list(except_rule(Source("api/a.py", "with contextlib.suppress(Exception): f()"))) != []


def test_package_rule_bites(tmp_path: Path) -> None:
    """A package that is not listed, not typed or listed by half is found."""
    for file in ("api/__init__.py", "session/__init__.py", "session/py.typed", "new/__init__.py", "tests/__init__.py"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    settings = {"packages": ["triack", "triack.session", "triack.x"], "package-dir": {"triack": "api"}}
    settings["package-dir"] |= {"triack.session": "session"}  # type: ignore[operator]
    assert [finding.partition(":1: ")[::2] for finding in package_rule(tmp_path, settings)] == [
        ("pyproject.toml", "triack.x is in only one of packages and package-dir"),
        ("new/__init__.py", "pyproject.toml does not say that triack.new is new"),
        ("api/py.typed", "missing, although pyproject.toml lists triack"),
    ]


def test_folder_rule_bites(tmp_path: Path) -> None:
    """A folder with a test file and no ``__init__.py`` is found."""
    (tmp_path / "tests/deep").mkdir(parents=True)
    for file in ("tests/__init__.py", "tests/deep/test_a.py"):
        (tmp_path / file).touch()
    assert list(folder_rule(tmp_path)) == ["tests/deep/__init__.py:1: missing in a folder with tests"]


def test_place_rule_bites() -> None:
    """A room without tests and tests of no room are found."""
    fine = ["session/rtt.py", "tests/session/test_times.py", "tests/session/stories/test_any.py", "tests/test_docs.py"]
    fine += ["api/__init__.py", "tests/api/test_api.py", "tests/session/pair.py", "docs/plot.py"]
    fine += ["tests/fuzz/targets.py", "tests/fuzz/test_targets.py", "tests/attacks/test_memory.py"]
    fine += ["tests/mission/test_msmq.py"]
    assert list(place_rule([*fine, "proof/disk/run.py", "tests/proof/disk/deep/test_any.py"])) == [
        "tests/proof/disk/deep/test_any.py:1: proof/disk/deep is no room"
    ]
    wrong = ["proof/disk/run.py", "tests/proof/test_real.py", "tests/no/stories/test_any.py"]
    assert list(place_rule([*fine, *wrong])) == [
        "proof/disk:1: has no tests in tests/proof/disk",
        "tests/no/stories/test_any.py:1: no is no room",
        "tests/proof/test_real.py:1: proof is no room",
    ]


def test_error_rule_bites() -> None:
    """A hidden error, a stray one and a name without a class are found."""
    text = '__all__ = ["A", "Gone", "TriackError"]\nclass TriackError(Exception): ...\n'
    source = Source("api/errors.py", text + "class A(TriackError): ...\nclass B(A): ...\nclass C(ValueError): ...\n")
    assert [finding.partition(": ")[2] for finding in error_rule(source)] == [
        "B is not in __all__",
        "C is not in __all__",
        "C does not derive from TriackError",
        "__all__ names Gone, which is no class of this file",
    ]


def test_dependency_rule_bites() -> None:
    """An import that no installation brings is found."""
    source = Source("queues/a.py", "import apsw, numpy.linalg, json\nfrom triack.base import errors")
    assert list(dependency_rule(source, {"apsw"})) == ["queues/a.py:1: pyproject.toml does not declare numpy"]
    assert "apsw" in declared(extras=False)
    assert "pyspark" in declared() - declared(extras=False)


def test_a_check_takes_the_tests_of_each_room_that_has_changed() -> None:
    """A new room has none yet: those of the room around it are taken."""
    changed = ["queues/transit/transits.py", "tests/api/test_api.py", "README.md", "node/new/room.py"]
    assert folders_for(changed) == sorted([*CORE, "tests/queues/transit", "tests/api", "tests/node"])
