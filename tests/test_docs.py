"""What docs/ says of the code is what the code says."""

from pathlib import Path

import pytest

from proof.docs import pages

PAGES = pages()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_is_as_the_code_has_it(path: Path) -> None:
    """Every reason, event and field is on its page, in its words."""
    assert path.read_text() == PAGES[path], f"docs/{path.name} is out of date: run `make docs`"


def test_pages_are_linked() -> None:
    """A reader finds the reasons from the first page, and from where they are written."""
    root = Path(__file__).parents[1]
    assert "](docs/reasons.md)" in (root / "README.md").read_text()
    assert "](reasons.md)" in (root / "docs" / "session-log.md").read_text()
