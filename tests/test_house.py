"""The rules of the house, checked on the source itself.

One test for each rule of ``house`` on the whole house, and one that shows the rule its own bad example and sees it
bite.
"""

from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from tests import house as rules
from tests.changed import CORE, folders_for
from tests.house import Source

Rule = Callable[[Source], Iterator[str]]
FILE_RULES: list[Rule] = [
    rules.room_rule,
    rules.wall_rule,
    rules.purity_rule,
    rules.size_rule,
    rules.method_rule,
    rules.attribute_rule,
    rules.constant_rule,
    rules.leftover_rule,
    rules.except_rule,
]


def no_findings(findings: Iterable[str]) -> None:
    """Fail with all findings, one a line."""
    found = list(findings)
    if found:
        pytest.fail(f"{len(found)} findings:\n" + "\n".join(found), pytrace=False)


@pytest.mark.parametrize("rule", FILE_RULES)
def test_every_file_keeps_the_rule(rule: Rule) -> None:
    """The layer and purity rules are for code; sizes, leftovers and excepts for the tests too."""
    sources = rules.code() if rule in (rules.room_rule, rules.wall_rule, rules.purity_rule) else rules.house()
    assert len(sources) > 1
    no_findings(finding for source in sources for finding in rule(source))


def test_no_module_imports_itself() -> None:
    """There is an order in which the product can be read."""
    no_findings(rules.circle_rule(rules.code()))


def test_every_room_is_small() -> None:
    """A stranger finds a rule by reading the names of folders, and then those of a few files."""
    no_findings(rules.crowd_rule(source.path for source in rules.code()))
    no_findings(rules.level_rule(rules.code()))


def test_the_page_for_makers_says_the_limits_and_draws_a_short_way() -> None:
    """A dozen stops out, a dozen in, eight for an acknowledgement: each kind of those has one of the first three."""
    page = (rules.ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    said = " ".join(page.split())
    assert f"more than {rules.MAX_MODULES} modules, or more than {rules.MAX_LEVELS} levels" in said
    assert f"No function over {rules.MAX_FUNCTION_LINES} lines, no file over {rules.MAX_FILE_LINES}" in said
    assert f"no class over {rules.MAX_METHODS} methods or {rules.MAX_ATTRIBUTES} attributes" in said
    drawn = page.split("```text\n")[1].split("```")[0].strip().split("\n\n")
    ways = [[line.split()[0].rstrip(",") for line in way.splitlines()[1:]] for way in drawn]
    assert all(len(way) <= most for way, most in zip(ways, (12, 12, 8 + 2), strict=True))
    assert not [stop for way in ways for stop in way if not (rules.ROOT / stop).is_file()]


def test_walls_have_no_circle_and_no_exception_too_many() -> None:
    """Each room stands above all that it may import, and what is excepted from that is still imported."""
    for room, others in rules.WALLS.items():
        assert not [
            other for other in others if room in rules.WALLS[other] or rules.around(other) != rules.around(room)
        ], room
    met = {(source.path, found.module) for source in rules.code() for found in rules.imports(source)}
    assert not rules.WALL_EXCEPTIONS - met


def test_packages_are_listed_and_typed() -> None:
    """Folders, pyproject.toml and type markers agree."""
    no_findings(rules.package_rule(rules.ROOT, rules.project()["tool"]["setuptools"]))


def test_test_folders_are_packages() -> None:
    """A missing ``__init__.py`` makes test names collide."""
    no_findings(rules.folder_rule(rules.ROOT))


def test_every_room_has_its_tests() -> None:
    """They are found by its name."""
    no_findings(rules.place_rule(source.path for source in rules.house()))


def test_errors_are_one_public_tree() -> None:
    """``except triack.TriackError`` catches everything Triack raises on purpose."""
    no_findings(rules.error_rule(next(source for source in rules.house() if source.path == "base/errors.py")))


def test_imports_are_declared() -> None:
    """Layers below the tools need only the plain installation; tools may need an extra."""
    for source in rules.code():
        no_findings(rules.dependency_rule(source, rules.declared(extras=source.room == "tools")))


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
    assert modules == pages | set(map(file_of, rules.code()))
    beside = {file for file in installed if not file.startswith(("triack/", "triack-")) and "__mypyc." not in file}
    assert {Path(file).stem for file in beside} == {"triack"}, beside


def file_of(source: Source) -> str:
    return source.module.replace(".", "/") + ("/__init__.py" if source.path.endswith("__init__.py") else ".py")


BITES: dict[Any, list[tuple[str, str, str]]] = {
    rules.room_rule: [
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
    rules.wall_rule: [
        ("queues/peers/a.py", "from triack.queues.streams.inbox import Inbox", "queues/peers may not import triack"),
        ("queues/mailboxes/a.py", "from triack.queues.peers import link", "which is part of queues/peers"),
        ("queues/a.py", "from ..queues.mailboxes import line", "which is part of queues/mailboxes"),
        ("session/path/a.py", "import triack.session.session", "which is part of session"),
        ("node/node.py", "from triack.node.sync.sync import Node", "which is part of node/sync"),
    ],
    rules.purity_rule: [
        ("session/a.py", "import time", "may not import time"),
        ("ordering/a.py", "from os.path import join", "may not import os.path.join"),
        ("session/a.py", "def f():\n    import asyncio.events", "may not import asyncio.events"),
        ("queues/engine.py", "import random", "may not import random"),
        ("session/a.py", "with open('x') as f: pass", "may not call open()"),
        ("session/a.py", "if not TYPE_CHECKING:\n    from random import Random", "may not import random"),
    ],
}
"""A file that breaks a rule, and what is said of that."""


@pytest.mark.parametrize(
    ("rule", "path", "text", "reason"), [(rule, *case) for rule, cases in BITES.items() for case in cases]
)
def test_a_rule_of_imports_bites(rule: Rule, path: str, text: str, reason: str) -> None:
    """An import against the grain is found, absolute or relative, at any depth; as is a clock in a pure module."""
    findings = [finding for finding in rule(Source(path, text)) if reason in finding]
    assert findings[0].startswith(f"{path}:{2 if chr(10) in text else 1}: ")


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        *(
            (rules.room_rule, path, text)
            for path, text in [
                ("session/a.py", "from . import rtt\nfrom triack.base.errors import ProtocolError"),
                ("transport/a.py", "from triack.base import errors\nimport socket"),
                (
                    "queues/a.py",
                    "from triack.session import x\nfrom triack.ordering import wire\nfrom .engine import Engine",
                ),
                ("node/a.py", "from triack.store.store import Store\nfrom ..transport import udp"),
                ("api/__init__.py", "from .node.node import Node\nfrom .base import errors"),
                ("api/__main__.py", "from triack.tools.cli import main"),
                (
                    "tools/testing/a.py",
                    "from triack.testing.loop import VirtualLoop\nfrom .loop import Process\nimport triack.tools.cli",
                ),
                ("tools/replay/a.py", "import triack\nfrom triack import Node\nfrom ..cli import main"),
            ]
        ),
        (rules.wall_rule, "queues/manager/a.py", "from triack.queues.streams.inbox import Inbox"),
        (rules.wall_rule, "session/session.py", "from triack.session.path import sizing"),
        (rules.wall_rule, "queues/a.py", "from triack.session.path import sizing"),
        (rules.purity_rule, "node/driver.py", "import asyncio, time\nopen('x')"),
        (rules.purity_rule, "session/a.py", "import struct\nself.open()"),
        (rules.purity_rule, "session/a.py", "if TYPE_CHECKING:\n    from random import Random"),
    ],
)
def test_a_rule_of_imports_lets_others_be(rule: Rule, path: str, text: str) -> None:
    """What the tables allow; along the stairs, or into another big room; in transport and the manager's shell."""
    assert list(rule(Source(path, text))) == []


def test_crowd_rule_bites() -> None:
    """One module over is over; the package's own file counts for nothing."""
    room = [f"store/a{number}.py" for number in range(rules.MAX_MODULES)]
    assert list(rules.crowd_rule([*room, "store/__init__.py", "tests/store/test_a.py"])) == []
    over = f"store:1: has {rules.MAX_MODULES + 1} modules, over {rules.MAX_MODULES}"
    assert list(rules.crowd_rule([*room, "store/one_more.py"])) == [over]


def test_level_rule_bites() -> None:
    """A chain of one module too many is found, and what other rooms add to it is not counted."""
    chain = [
        Source(f"store/a{number}.py", f"from triack.store.a{number + 1} import x") for number in range(rules.MAX_LEVELS)
    ]
    assert list(rules.level_rule(chain)) == []
    last = Source(f"store/a{rules.MAX_LEVELS}.py", "from triack.base.units import MS")
    assert list(rules.level_rule([*chain, last])) == [
        f"store:1: has {rules.MAX_LEVELS + 1} levels of imports, over {rules.MAX_LEVELS}"
    ]


def test_circle_rule_bites() -> None:
    """A circle is found, also one that only the type checker goes round; a straight line is not."""
    one = Source("session/one.py", "from triack.session.two import Two")
    two = Source("session/two.py", "if TYPE_CHECKING:\n    from triack.session.one import One")
    assert list(rules.circle_rule([one, two])) == [
        "session/one.py:1: imports itself by way of triack.session.two -> triack.session.one"
    ]
    assert list(rules.circle_rule([one, Source("session/two.py", "import struct")])) == []


def test_size_rule_bites() -> None:
    """One line over is over."""
    assert list(rules.size_rule(Source("session/a.py", "x = 1\n" * rules.MAX_FILE_LINES))) == []
    assert f"{rules.MAX_FILE_LINES + 1} lines" in next(
        rules.size_rule(Source("session/a.py", "x = 1\n" * (rules.MAX_FILE_LINES + 1)))
    )
    body = "    x = 1\n" * (rules.MAX_FUNCTION_LINES - 1)
    assert list(rules.size_rule(Source("tests/a.py", f"async def f():\n{body}"))) == []
    assert "f has 71 lines" in next(rules.size_rule(Source("tests/a.py", f"class C:\n def f():\n{body}    x = 1\n")))


def test_method_rule_bites() -> None:
    """One method over is over; functions within methods are none of the class's own."""
    first = "    @property\n    def f(self):\n        def g(): ...\n"
    methods = first + "    async def h(self): ...\n" * (rules.MAX_METHODS - 1)
    assert list(rules.method_rule(Source("session/a.py", f"class C:\n{methods}"))) == []
    over = f"class C:\n{methods}    def one_more(self): ...\n"
    assert list(rules.method_rule(Source("session/a.py", over))) == [
        f"session/a.py:1: C has {rules.MAX_METHODS + 1} methods, over {rules.MAX_METHODS}"
    ]


def test_what_fits_leaves_the_lists_of_what_is_too_large() -> None:
    """An exception that nothing needs any more would let the house grow again, as would one for what is gone."""
    longer, larger = next(iter(rules.LONGER_FILES)), next(iter(rules.LARGER_CLASSES))
    path, name = larger.split()
    assert "fits" in next(rules.size_rule(Source(longer, "x = 1")))
    assert "fits" in next(rules.method_rule(Source(path, f"class {name}:\n    def f(self): ...")))
    there = {source.path: source for source in rules.house()}
    assert not rules.LONGER_FILES.keys() - there.keys()
    assert all(f"class {name}" in there[path].text for path, name in map(str.split, rules.LARGER_CLASSES))


def test_attribute_rule_bites() -> None:
    """Fields, slots and what methods assign count together, each once; what belongs to another object does not."""
    fields = "\n".join(f"    a{number}: int = 0" for number in range(10))
    method = "    def f(me):\n        me.a1 = me.x[0] = other.y = 1\n"
    more = "        " + ", ".join(f"me.b{number}" for number in range(rules.MAX_ATTRIBUTES - 11)) + " = range(99)\n"
    full = f"class C:\n    __slots__ = ('a1', 'c')\n    z: ClassVar[int] = 1\n{fields}\n{method}{more}"
    assert list(rules.attribute_rule(Source("tests/a.py", full))) == []
    over = full + "        with open() as me.last:\n            pass\n"
    assert list(rules.attribute_rule(Source("tests/a.py", over))) == [
        f"tests/a.py:1: C sets {rules.MAX_ATTRIBUTES + 1} attributes, over {rules.MAX_ATTRIBUTES}"
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
    assert [finding.split()[0] for finding in rules.constant_rule(Source("session/a.py", text))] == [
        f"session/a.py:{text[: text.index('LIMIT = 7') if '# of s' in text else 0].count(chr(10)) + 1}:"
    ] * finds
    assert list(rules.constant_rule(Source("tools/a.py", text))) == []


@pytest.mark.parametrize("word", rules.LEFTOVERS)
def test_leftover_rule_bites(word: str) -> None:
    """The word is found in a comment and left alone inside another word."""
    assert list(rules.leftover_rule(Source("api/a.py", f"x = 1\ny = 2  # {word}: later"))) == [
        f"api/a.py:2: {word} left in the source"
    ]
    assert list(rules.leftover_rule(Source("api/a.py", f"{word}S = 1"))) == []


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
    assert list(rules.except_rule(Source("api/a.py", f"try:\n    f()\n{handler}"))) == [f"api/a.py:3: {reason}"]
    for fine in ("except OSError:\n    pass", "except Exception:\n    count += 1"):
        assert list(rules.except_rule(Source("api/a.py", f"try:\n    f()\n{fine}"))) == []
    assert list(rules.except_rule(Source("api/a.py", "with contextlib.suppress(Exception): f()"))) != []


def test_package_rule_bites(tmp_path: Path) -> None:
    """A package that is not listed, not typed or listed by half is found."""
    for file in ("api/__init__.py", "session/__init__.py", "session/py.typed", "new/__init__.py", "tests/__init__.py"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    settings = {"packages": ["triack", "triack.session", "triack.x"], "package-dir": {"triack": "api"}}
    settings["package-dir"] |= {"triack.session": "session"}  # type: ignore[operator]
    assert [finding.partition(":1: ")[::2] for finding in rules.package_rule(tmp_path, settings)] == [
        ("pyproject.toml", "triack.x is in only one of packages and package-dir"),
        ("new/__init__.py", "pyproject.toml does not say that triack.new is new"),
        ("api/py.typed", "missing, although pyproject.toml lists triack"),
    ]


def test_folder_rule_bites(tmp_path: Path) -> None:
    """A folder with a test file and no ``__init__.py`` is found."""
    (tmp_path / "tests/deep").mkdir(parents=True)
    for file in ("tests/__init__.py", "tests/deep/test_a.py"):
        (tmp_path / file).touch()
    assert list(rules.folder_rule(tmp_path)) == ["tests/deep/__init__.py:1: missing in a folder with tests"]


def test_place_rule_bites() -> None:
    """A room without tests and tests of no room are found."""
    fine = ["session/rtt.py", "tests/session/test_times.py", "tests/session/stories/test_any.py", "tests/test_docs.py"]
    fine += ["api/__init__.py", "tests/api/test_api.py", "tests/session/pair.py", "docs/plot.py"]
    fine += ["tests/fuzz/targets.py", "tests/fuzz/test_targets.py", "tests/attacks/test_memory.py"]
    fine += ["tests/mission/test_msmq.py"]
    assert list(rules.place_rule([*fine, "proof/disk/run.py", "tests/proof/disk/deep/test_any.py"])) == [
        "tests/proof/disk/deep/test_any.py:1: proof/disk/deep is no room"
    ]
    wrong = ["proof/disk/run.py", "tests/proof/test_real.py", "tests/no/stories/test_any.py"]
    assert list(rules.place_rule([*fine, *wrong])) == [
        "proof/disk:1: has no tests in tests/proof/disk",
        "tests/no/stories/test_any.py:1: no is no room",
        "tests/proof/test_real.py:1: proof is no room",
    ]


def test_error_rule_bites() -> None:
    """A hidden error, a stray one and a name without a class are found."""
    text = '__all__ = ["A", "Gone", "TriackError"]\nclass TriackError(Exception): ...\n'
    source = Source("api/errors.py", text + "class A(TriackError): ...\nclass B(A): ...\nclass C(ValueError): ...\n")
    assert [finding.partition(": ")[2] for finding in rules.error_rule(source)] == [
        "B is not in __all__",
        "C is not in __all__",
        "C does not derive from TriackError",
        "__all__ names Gone, which is no class of this file",
    ]


def test_dependency_rule_bites() -> None:
    """An import that no installation brings is found."""
    source = Source("queues/a.py", "import apsw, numpy.linalg, json\nfrom triack.base import errors")
    assert list(rules.dependency_rule(source, {"apsw"})) == ["queues/a.py:1: pyproject.toml does not declare numpy"]
    assert "apsw" in rules.declared(extras=False)
    assert "pyspark" in rules.declared() - rules.declared(extras=False)


def test_a_check_takes_the_tests_of_each_room_that_has_changed() -> None:
    """A new room has none yet: those of the room around it are taken."""
    changed = ["queues/transit/transits.py", "tests/api/test_api.py", "README.md", "node/new/room.py"]
    assert folders_for(changed) == sorted([*CORE, "tests/queues/transit", "tests/api", "tests/node"])
