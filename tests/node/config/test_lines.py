"""The line of every key of a file, however it is written."""

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triack.node.config.lines import DEPTH_MAX, line_too_deep, lines_of

WRITTEN = '''
# [commented]
top = 1
[a.b]            # 4
"quoted.key" = """
x = 1
"""
'literal' = '[no]'   # 8
c.d = { e = [1, { f = 2.5 }], "g" = "}" }
list = [
  1, # one
  [ 2 ],
  { h = 3 },
]
[[tables]]       # 15
i = 1979-05-27 07:32:00
[[tables]]
i = inf
[tables.inner]
j = "a\\"b = c"
'''


def test_each_key_has_its_line() -> None:
    """Those in inline tables and lists, too; tables of a list have numbers for names."""
    found = {".".join(path): line for path, line in lines_of(WRITTEN).items()}
    assert found == {
        "top": 3, "a.b": 4, "a.b.quoted.key": 5, "a.b.literal": 8, "a.b.c": 9, "a.b.c.d": 9, "a.b.c.d.e": 9,
        "a.b.c.d.e.1.f": 9, "a.b.c.d.g": 9, "a.b.list": 10, "a.b.list.2.h": 13, "tables.0": 15, "tables.0.i": 16,
        "tables.1": 17, "tables.1.i": 18, "tables.inner": 19, "tables.inner.j": 20,
    }  # fmt: skip


KEYS = st.text('ab."= #\n', min_size=1, max_size=3)
VALUES = st.recursive(
    st.integers() | st.text("a\"'[]{}=,\n#\\", max_size=6) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.slow
@pytest.mark.gate
@given(st.dictionaries(KEYS, VALUES, max_size=5), st.integers(0, 3))
def test_whatever_a_file_has_each_key_is_found_at_its_line(table: dict[str, Any], gap: int) -> None:
    """Strings with quotes, brackets and comments in them, and keys with dots, lead nobody astray."""
    text, lines = "", {}
    for name, value in table.items():
        text += "\n" * gap + "# x = [\n" * (gap > 1)
        lines[name] = text.count("\n") + 1
        text += f"{quoted(name)} = {written(value)}\n"
    assert tomllib.loads(text) == table
    found = lines_of(text)
    assert {path[0]: line for path, line in found.items() if len(path) == 1} == lines
    assert all(line == lines[path[0]] for path, line in found.items())


def written(value: Any) -> str:
    """A value as TOML, on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quoted(name)} = {written(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else quoted(value) if isinstance(value, str) else str(value)


def quoted(text: str) -> str:
    """A text in quotes."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def test_what_is_too_deep_has_its_line_whatever_follows() -> None:
    """Dots and brackets in texts and comments do not count, nor does what comes after a mistake."""
    deep = "[" * (DEPTH_MAX + 1)
    assert line_too_deep(f"a = 1\nb = {deep}") == 2
    assert line_too_deep(f"a{'.a' * (DEPTH_MAX + 1)} = 1") == 1
    for harmless in (f'a = "{deep}"', f"a = '''\n{deep}'''", f"# {deep}", f'a = """{deep}', "a = [1.5]\n" * 100):
        assert line_too_deep(harmless) is None
