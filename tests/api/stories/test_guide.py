"""Every name that the guide uses exists."""

import re
from pathlib import Path

import pytest

import triack
import triack.outbox  # a package that programs import by its own name

GUIDE = Path(__file__).parents[3] / "docs" / "guide.md"
OBJECTS = {
    "node": triack.Node,
    "receipt": triack.Receipt,
    "reader": triack.Consumer,
    "message": triack.Message,
    "tx": triack.Transaction,
    "triack": triack,
}


def code() -> str:
    """Code blocks and code spans of the guide, strings left out."""
    text = GUIDE.read_text(encoding="utf-8")
    found = re.findall(r"^    .*$", text, re.MULTILINE) + re.findall(r"`([^`]+)`", text)
    return re.sub(r'"[^"]*"', '""', "\n".join(found))


def test_every_class_and_constant_of_the_guide_is_exported() -> None:
    names = set(re.findall(r"(?<![\w.])[A-Z]\w+", code())) - {"True", "False", "None"}
    assert {"NodeSettings", "AckTrigger", "WaitTimeout"} <= names
    assert names <= set(triack.__all__)


@pytest.mark.parametrize("owner", OBJECTS)
def test_every_method_of_the_guide_is_there(owner: str) -> None:
    names = set(re.findall(rf"\b{owner}\.([a-z]\w+)", code()))
    assert names
    for name in names:
        assert hasattr(OBJECTS[owner], name) or name in getattr(OBJECTS[owner], "__slots__", ()), name
