"""Newest versions of rows, kept together."""

from itertools import pairwise
from pathlib import Path

import pytest

from triack.base.commit import Commit, OutgoingRow, OutgoingStreamRow, PeerRow, key_of
from triack.base.delivery import Delivery
from triack.store.latest import LATEST_BYTES, LatestRows
from triack.store.store import Store


def peer(number: int, name: str = "receiver") -> tuple[bytes, int, int, str]:
    return number.to_bytes(16), 1, number, name


def test_the_newest_version_of_a_row_counts() -> None:
    rows = LatestRows(LATEST_BYTES)
    assert rows.put("peers", peer(1, "old"))
    assert rows.put("peers", peer(1, "new\nest"))
    assert rows.put("streams", (1, "receiver", "orders", 3, 1, 7))
    again = LatestRows(LATEST_BYTES, rows.pack())
    in_table = [list(peer(3)), list(peer(1, "older"))]
    assert again.over("peers", in_table) == [list(peer(1, "new\nest")), list(peer(3))]
    assert again.over("positions", []) == []
    assert rows.take_excess() == []


def test_a_deleted_row_is_not_kept() -> None:
    rows = LatestRows(LATEST_BYTES)
    rows.put("peers", peer(1))
    rows.remove("peers", [(peer(1)[0],), (peer(2)[0],)])
    assert rows.pack() == b""


def test_all_rows_move_to_their_tables_when_they_are_too_many() -> None:
    rows = LatestRows(400)
    kept = [peer(number, "") for number in range(3)]
    for row in kept:
        assert rows.put("peers", row)
        assert not rows.take_excess()
    more = [peer(number, "") for number in range(3, 9)]
    for row in more:
        rows.put("peers", row)
    assert rows.take_excess() == [("peers", row) for row in kept + more]
    assert rows.pack() == b""


def test_a_long_row_goes_to_its_table_and_takes_its_place() -> None:
    """With it would go the room of all others, in every commit."""
    rows = LatestRows(400)
    assert rows.put("peers", peer(1))
    assert not rows.put("peers", peer(1, "r" * 200))
    assert rows.over("peers", []) == []


def busy(number: int, peers: int) -> Commit:
    """A commit as a sender makes it for a single message, with acknowledgements of several peers."""
    commit = Commit(serial=number, clock=bytes(40), records=number)
    commit.streams[1] = OutgoingStreamRow(1, "receiver", "orders", Delivery.TRANSACTIONAL, 1, number + 1)
    commit.outgoing.append(OutgoingRow(key_of(1, number), 1, 0, bytes(150)))
    if number > 1:
        commit.outgoing_deletes.append((key_of(1, number - 1),) * 2)
    for one in range(peers):
        commit.peers[one.to_bytes(16)] = PeerRow(one.to_bytes(16), 7, number, f"receiver-{one}")
    return commit


@pytest.mark.parametrize("peers", [1, 3, 60])
def test_the_newest_rows_are_there_after_a_restart(tmp_path: Path, peers: int) -> None:
    """As few as stay together, and as many as move to their tables again and again."""
    store = Store(tmp_path)
    store.load(b"n" * 16, 1)
    for number in range(1, 20):
        store.apply(busy(number, peers if number % 3 else 1))
    store.apply(Commit(stream_deletes=[1]))
    store.close()
    store = Store(tmp_path, latest_bytes=0)
    found = store.load(b"n" * 16, 2)
    assert found.streams == []
    assert [row.serial for row in found.peers.values()] == [19, *[19 for _ in range(peers - 1)]]
    store.apply(busy(20, 1))
    store.close()
    store = Store(tmp_path)
    found = store.load(b"n" * 16, 3)
    assert [row.next_number for row in found.streams] == [21]
    assert found.peers[bytes(16)].serial == 20
    store.close()


def test_a_commit_of_one_message_writes_three_pages(tmp_path: Path) -> None:
    """The row that counts all others, the newest rows together, and the packet."""
    store = Store(tmp_path)
    store.load(b"n" * 16, 1)
    written: list[int] = []
    for number in range(1, 8):
        store.apply(busy(number, 1))
        written.append(store._log_pages[0])  # noqa: SLF001 - frames of the log
    assert [later - before for before, later in pairwise(written[1:])] == [3] * 5
    store.close()
