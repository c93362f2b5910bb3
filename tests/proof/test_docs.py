"""What docs/ says of the code is what the code says."""

from pathlib import Path

import pytest

import proof.docs
from proof.docs import pages
from triack.base.reasons import DeadReason, DropReason, FreedReason, RejectReason
from triack.base.session_log import COMMON, EVENTS, FIELDS, Event
from triack.session.protocol.states import CloseReason

PAGES = pages()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_is_as_the_code_has_it(path: Path) -> None:
    """Every reason, event and field is on its page, in its words."""
    assert path.read_text() == PAGES[path], f"docs/{path.name} is out of date: run `make docs`"


def test_pages_are_linked() -> None:
    """A reader finds the reasons from the first page, and from where they are written."""
    root = Path(__file__).parents[2]
    assert "](docs/reasons.md)" in (root / "README.md").read_text()
    assert "](reasons.md)" in (root / "docs" / "session-log.md").read_text()


def test_every_reason_is_on_the_page_once_in_its_table() -> None:
    """With its sentence."""
    (page,) = (text for path, text in PAGES.items() if path.name == "reasons.md")
    for reason in [*DropReason, *RejectReason, *FreedReason, *DeadReason]:
        assert page.count(f"| `{reason.value}` | {reason.sentence} |") == 1, reason
    for close in CloseReason:
        assert sum(page.count(f"| `{close.value}` | {failure}| {close.sentence} |") for failure in ("", "yes ")) == 1


def test_every_event_and_field_is_in_the_schema_once() -> None:
    """With its sentence."""
    (page,) = (text for path, text in PAGES.items() if path.name == "session-log.md")
    for name, field in {**COMMON, **FIELDS}.items():
        rows = [
            line
            for line in page.splitlines()
            if line.startswith(f"| `{name}` |") and line.endswith(f"{field.sentence} |")
        ]
        assert len(rows) == 1, name
    for name, event in EVENTS.items():
        rows = [
            line
            for line in page.splitlines()
            if line.startswith(f"| `{name}` |") and line.endswith(f"{event.sentence} |")
        ]
        assert len(rows) == 1, name


def test_a_change_in_the_code_changes_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table is replaced as a whole, and the text around it stays."""
    (path,) = (path for path in PAGES if path.name == "session-log.md")
    monkeypatch.setattr(proof.docs, "EVENTS", {"fell_asleep": Event("nothing happens", ("stream",), ((), ("number",)))})
    page = pages()[path]
    assert "| `fell_asleep` | `stream`; perhaps `number` | nothing happens |\n" in page
    assert "| `node_started` |" not in page
    text = [line for line in PAGES[path].splitlines() if not line.startswith("|")]
    assert [line for line in page.splitlines() if not line.startswith("|")] == text
