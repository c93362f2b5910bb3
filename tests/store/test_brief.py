"""Which commits have hardly more to do than to sync."""

from pathlib import Path

import pytest

from triack.base.commit import Commit, MessageRow, OutgoingRow
from triack.store.brief import BRIEF_BYTES, BRIEF_ROWS, is_brief
from triack.store.store import Store


def rows(count: int, size_bytes: int = 100) -> list[OutgoingRow]:
    """Packets that leave."""
    return [OutgoingRow(key, 1, 0, bytes(size_bytes)) for key in range(1, count + 1)]


def test_a_few_messages_and_what_they_take_along_are_brief() -> None:
    """The commits of messages one by one, with what became of those before them."""
    assert is_brief(Commit())
    assert is_brief(Commit(outgoing=rows(BRIEF_ROWS), outgoing_deletes=[(1, BRIEF_ROWS)]))


@pytest.mark.parametrize(
    "commit",
    [
        Commit(outgoing=rows(BRIEF_ROWS + 1)),
        Commit(outgoing=rows(1, BRIEF_BYTES + 1)),
        Commit(messages=[MessageRow(1, b"o" * 16, 1, 1, 1, [b"body"] * (BRIEF_ROWS + 1))]),
        Commit(messages=[MessageRow(1, b"o" * 16, 1, 1, 1, [bytes(BRIEF_BYTES // 2 + 1)] * 2)]),
        Commit(message_deletes=[(1, BRIEF_ROWS + 1)]),
        Commit(outgoing_deletes=[(key, key) for key in range(BRIEF_ROWS + 1)]),
        Commit(state={"key": bytes(BRIEF_BYTES + 1)}),
        Commit(progress=dict.fromkeys(range(BRIEF_ROWS + 1), b"")),
    ],
    ids=["rows", "bytes", "messages", "message bytes", "deletes", "spans", "state", "progress"],
)
def test_much_of_anything_is_not(commit: Commit) -> None:
    assert not is_brief(commit)


def test_none_is_before_a_checkpoint(tmp_path: Path) -> None:
    """Which is done with a commit, and takes much longer; after it they are brief again."""
    store = Store(tmp_path / "data", checkpoint_pages=70)
    store.load(b"n" * 16, 1)
    was_brief = []
    for key in range(1, 60):
        commit = Commit(outgoing=[OutgoingRow(key, 1, 0, b"body")])
        was_brief.append(store.is_brief(commit))
        store.apply(commit)
    store.close()
    assert was_brief[0]
    assert not all(was_brief)
    first = was_brief.index(False)
    assert any(was_brief[first:])
