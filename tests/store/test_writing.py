"""Writing: the log of SQLite, runs of rows, the latest of them."""

import struct
from itertools import pairwise
from pathlib import Path
from random import Random

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triack.base import commit as rows_of_commits
from triack.base.commit import CARES, HEAD_BYTES, Commit, MessageRow, OutgoingRow, PeerRow, Read, key_of
from triack.base.delivery import Delivery
from triack.base.errors import StoreDamaged
from triack.store.brief import BRIEF_BYTES, BRIEF_ROWS, is_brief
from triack.store.folder import STORE_FILE
from triack.store.latest import LATEST_BYTES, LatestRows
from triack.store.rows import TABLES, Tallies
from triack.store.runs import RUN_BYTES, RUN_PACKETS, RUN_PACKETS_MIN, bits_in, every_bit, fold_messages, fold_outgoing
from triack.store.store import Store

# Consecutive packets as one row, and the rest of a row after some are gone.

ORIGIN = b"o" * 16


def message(number: int, queue: int = 1, stream: int = 1, size_bytes: int = 50) -> MessageRow:
    return MessageRow(key_of(queue, number), ORIGIN, stream, 1, 100 + number, (bytes([number % 256]) * size_bytes,))


def begun(folder: Path) -> Store:
    store = Store(folder)
    store.load(b"n" * 16, 1)
    return store


def rows_in(folder: Path, table: str) -> list[tuple[int, ...]]:
    """All rows of a closed store, as another program would see them: what is their key, and how many packets."""
    columns = "key, length(packets)" if table == "freed" else "key, packets"
    database = apsw.Connection(str(folder / STORE_FILE))
    found = list(database.execute(f"SELECT {columns} FROM {table} ORDER BY key"))
    database.close()
    return found


def test_neighbours_of_one_stream_share_a_row() -> None:
    parts = [(range(1, 31), 1, 1), (range(40, 70), 1, 1), (range(70, 100), 2, 1), (range(1, 31), 2, 2)]
    rows = [message(number, queue, stream) for numbers, stream, queue in parts for number in numbers]
    assert [row[:2] for row in fold_messages(rows)] == [
        (key_of(1, 1), 30), (key_of(1, 40), 30), (key_of(1, 70), 30), (key_of(2, 1), 30)
    ]  # fmt: skip
    many = [OutgoingRow(key, 1, 0, b"b") for key in range(1, RUN_PACKETS + 31)]
    assert [row[1] for row in fold_outgoing(many)] == [RUN_PACKETS, 30]
    large = [OutgoingRow(key, 1, 0, bytes(RUN_BYTES // 30)) for key in range(1, 61)]
    assert [row[1] for row in fold_outgoing(large)] == [30, 30]
    together = [message(1)._replace(bodies=[b"x"] * 20), message(21)._replace(bodies=[b"y"] * 400), message(421)]
    assert [(row[0], row[1], row[5]) for row in fold_messages(together)] == [
        (key_of(1, 1), RUN_PACKETS, 101), (key_of(1, RUN_PACKETS + 1), 165, 101 + RUN_PACKETS)
    ]  # fmt: skip
    few = [message(number) for number in range(1, RUN_PACKETS_MIN)]
    assert [row[1] for row in fold_messages(few)] == [1] * len(few)
    assert list(fold_outgoing([])) == []


@given(st.integers(1, 20), st.integers(1, 9), st.integers(0, 40), st.integers(0, 40))
def test_bits_are_those_of_the_keys_that_a_row_has(key: int, packets: int, first: int, last: int) -> None:
    wanted = sum(1 << place for place in range(packets) if first <= key + place <= last)
    assert bits_in(key, packets, first, last) == wanted <= every_bit(packets)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_packets_come_and_go_one_by_one(tmp_path: Path, seed: int) -> None:
    random, there = Random(seed), dict[int, bytes]()
    store, first = Store(tmp_path), 1
    store.load(b"n" * 16, 1)
    for turn in range(40):
        count = random.choice([0, 1, 5, 30, 60])
        rows = [message(number, size_bytes=random.choice([1, 20, 300])) for number in range(first, first + count)]
        there |= {row.key: row.bodies[0] for row in rows}
        first += count + random.choice([0, 0, 3])
        spans = []
        for _ in range(random.choice([0, 1, 3])):
            start = random.randrange(1, first + 1)
            spans.append((key_of(1, start), key_of(1, start + random.choice([0, 2, 40]))))
        there = {key: body for key, body in there.items() if not any(a <= key <= b for a, b in spans)}
        store.apply(Commit(messages=rows, message_deletes=spans, serial=turn + 1))
        if random.random() < 0.2:
            store.close()
            store = Store(tmp_path)
            found = store.load(b"n" * 16, turn + 2).messages
            heads = {row.key: (row.number, row.size_bytes, row.head) for row in found}
            assert heads == {
                key: (100 + key - key_of(1, 0), len(body), body[:HEAD_BYTES]) for key, body in there.items()
            }
        read = Read("messages", random.sample(range(key_of(1, 1), key_of(1, first + 5)), first))
        store.read(read)
        assert read.bodies == {key: there[key] for key in read.keys if key in there}
    store.apply(Commit(message_deletes=[(key_of(1, 0), key_of(1, first))]))
    store.close()
    assert rows_in(tmp_path, "messages") == rows_in(tmp_path, "freed") == []


def test_a_store_knows_which_outgoing_packets_care(tmp_path: Path) -> None:
    bodies = [bytes([CARES | 2]), b"\x02", *[bytes([kind]) for kind in (CARES | 2, 1) * 20]]
    store = begun(tmp_path)
    store.apply(Commit(outgoing=[OutgoingRow(key_of(1, at), 1, 0, body) for at, body in enumerate(bodies[:2], 1)]))
    store.apply(Commit(outgoing=[OutgoingRow(key_of(1, at), 1, 0, body) for at, body in enumerate(bodies[2:], 9)]))
    store.close()
    found = Store(tmp_path).load(b"n" * 16, 2).outgoing
    assert [index.cares for index in found] == [body[0] >= CARES for body in bodies]


def test_keys_of_packets_that_are_gone_may_be_used_again(tmp_path: Path) -> None:
    """A queue goes on behind the last packet that it has, also when that is not the last of its row."""
    store = begun(tmp_path)
    store.apply(Commit(messages=[message(number) for number in range(1, 31)]))
    store.apply(Commit(message_deletes=[(key_of(1, 9), key_of(1, 30))]))
    later = [message(number, size_bytes=60) for number in range(9, 12)]
    store.apply(Commit(messages=later))
    read = Read("messages", [key_of(1, number) for number in range(1, 14)])
    store.read(read)
    assert [len(body) for body in read.bodies.values()] == [50] * 8 + [60] * 3
    store.apply(Commit(message_deletes=[(key_of(1, 8), key_of(1, 10))]))
    left = [row.key for row in store.load(b"n" * 16, 2).messages]
    assert left == [key_of(1, number) for number in (*range(1, 8), 11)]
    store.close()


@pytest.mark.parametrize(
    "change", ["messages SET packets = 2", "freed SET packets = x'06'", "messages SET parts = x'00'"]
)
def test_a_damaged_row_frees_nothing(tmp_path: Path, change: str) -> None:
    """A packet that is still needed would go with it; and the store takes no commit after that."""
    store = begun(tmp_path)
    store.apply(Commit(messages=[message(number) for number in range(1, 31)]))
    store.apply(Commit(message_deletes=[(key_of(1, 2), key_of(1, 2))]))
    store.close()
    database = apsw.Connection(str(tmp_path / STORE_FILE))
    database.execute(f"UPDATE {change}")
    database.close()
    store = Store(tmp_path)
    for commit in (Commit(message_deletes=[(key_of(1, 1), key_of(1, 1))]), Commit(state={"a": b"b"})):
        with pytest.raises(StoreDamaged, match="wrong checksum"):
            store.apply(commit)
    store.close()
    assert len(rows_in(tmp_path, "messages")) == 1


def peer(number: int, name: str = "receiver") -> tuple[bytes, int, int, str]:
    return number.to_bytes(16), 1, number, name


def test_the_newest_version_of_a_row_counts() -> None:
    rows = LatestRows(LATEST_BYTES)
    assert rows.put("peers", peer(1, "old"))
    assert rows.put("peers", peer(1, "new\nest"))
    assert rows.put("streams", (1, "receiver", "orders", 3, 1, 7))
    again = LatestRows(LATEST_BYTES, rows.pack())
    assert again.over("peers", [list(peer(3)), list(peer(1, "older"))]) == [list(peer(1, "new\nest")), list(peer(3))]
    assert (again.over("positions", []), rows.take_excess()) == ([], [])


def test_all_rows_move_to_their_tables_when_they_are_too_many() -> None:
    rows, all_of_them = LatestRows(400), [peer(number, "") for number in range(9)]
    for row in all_of_them[:3]:
        assert rows.put("peers", row)
        assert not rows.take_excess()
    for row in all_of_them[3:]:
        rows.put("peers", row)
    assert rows.take_excess() == [("peers", row) for row in all_of_them]
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
    commit.streams[1] = rows_of_commits.OutgoingStreamRow(
        1, "receiver", "orders", Delivery.TRANSACTIONAL, 1, number + 1
    )
    commit.outgoing.append(OutgoingRow(key_of(1, number), 1, 0, bytes(150)))
    if number > 1:
        commit.outgoing_deletes.append((key_of(1, number - 1),) * 2)
    for one in range(peers):
        commit.peers[one.to_bytes(16)] = PeerRow(one.to_bytes(16), 7, number, f"receiver-{one}")
    return commit


@pytest.mark.parametrize("peers", [1, 3, 60])
def test_the_newest_rows_are_there_after_a_restart(tmp_path: Path, peers: int) -> None:
    store = begun(tmp_path)
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
    store = begun(tmp_path)
    written: list[int] = []
    for number in range(1, 8):
        store.apply(busy(number, 1))
        written.append(store._log_pages[0])  # noqa: SLF001 - frames of the log
    assert [later - before for before, later in pairwise(written[1:])] == [3] * 5
    store.close()


# Rows that prove that they are unchanged, and the sums that show that none is missing.

PACKET = (5, b"o" * 16, 1, 2, 3, b"a body that is longer than what is read of it at the start")


def test_a_row_of_one_table_is_none_of_another() -> None:
    """The same values have another checksum there."""
    assert len({table.checksum((1, 2, 3)) for table in TABLES.values()}) == len(TABLES)


@pytest.mark.parametrize(
    "values", [(1, "a"), ("1", "a"), (1, b"a"), (1.0, "a"), (1, None), ("a", 1), (1, "a", 0), (1, "ä")]
)
def test_order_number_and_type_of_the_values_count(values: tuple[object, ...]) -> None:
    checksum = TABLES["queues"].checksum(values)
    assert (checksum == TABLES["queues"].checksum((1, "a"))) == (values == (1, "a") and isinstance(values[0], int))


def test_a_packet_is_known_by_all_of_it() -> None:
    table = TABLES["messages"]
    stored = table.with_checksums(PACKET)
    assert table.is_intact(stored)
    for place, value in enumerate(stored):
        for other in (value + b"x" if isinstance(value, bytes) else value + 1, None, "text", -1):
            assert not table.is_intact((*stored[:place], other, *stored[place + 1 :]))
    assert not table.is_intact((*stored[:-1], stored[-1][:-1] + b"?"))


def test_tallies_come_back_and_tell_which_table_differs() -> None:
    """By a row too few, or one in place of another; what was removed counts no more.

    A damaged row that is deleted takes away more than was ever added, and that can still be written down.
    """
    tallies = Tallies()
    tallies.change("streams", 2, 7 + 9)
    tallies.change("state", 1, 4)
    again = Tallies(tallies.pack())
    assert again.differing(tallies) == []
    again.change("streams", -1, -7)
    again.change("state", 1, 5)
    again.change("state", -1, -5)
    assert again.differing(tallies) == ["streams"]
    again.change("streams", 1, 8)
    assert again.differing(tallies) == ["streams"]
    below = Tallies()
    below.change("streams", -1, -1)
    assert Tallies(below.pack()).differing(Tallies()) == ["streams"]
    with pytest.raises(struct.error):
        Tallies(b"short")


def outgoing_rows(count: int, size_bytes: int = 100) -> list[OutgoingRow]:
    return [OutgoingRow(key, 1, 0, bytes(size_bytes)) for key in range(1, count + 1)]


def test_a_few_messages_and_what_they_take_along_are_brief() -> None:
    assert is_brief(Commit())
    assert is_brief(Commit(outgoing=outgoing_rows(BRIEF_ROWS), outgoing_deletes=[(1, BRIEF_ROWS)]))


@pytest.mark.parametrize(
    "commit",
    [
        Commit(outgoing=outgoing_rows(BRIEF_ROWS + 1)),
        Commit(outgoing=outgoing_rows(1, BRIEF_BYTES + 1)),
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
    store, was_brief = Store(tmp_path, checkpoint_pages=70), []
    store.load(b"n" * 16, 1)
    for key in range(1, 60):
        commit = Commit(outgoing=[OutgoingRow(key, 1, 0, b"body")])
        was_brief.append(store.is_brief(commit))
        store.apply(commit)
    store.close()
    assert was_brief.index(True) == 0
    assert True in was_brief[was_brief.index(False) :]
