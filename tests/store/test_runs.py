"""Consecutive packets as one row, and the rest of a row after some are gone."""

from pathlib import Path
from random import Random

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triack.base.commit import CARES, HEAD_BYTES, Commit, MessageRow, OutgoingRow, Read, key_of
from triack.base.errors import StoreDamaged
from triack.store.folder import STORE_FILE
from triack.store.runs import RUN_BYTES, RUN_PACKETS, RUN_PACKETS_MIN, bits_in, every_bit, fold_messages, fold_outgoing
from triack.store.store import Store

ORIGIN = b"o" * 16


def message(number: int, queue: int = 1, stream: int = 1, size_bytes: int = 50) -> MessageRow:
    return MessageRow(key_of(queue, number), ORIGIN, stream, 1, 100 + number, (bytes([number % 256]) * size_bytes,))


def rows_in(folder: Path, table: str) -> list[tuple[int, ...]]:
    """All rows of a closed store, as another program would see them: what is their key, and how many packets."""
    columns = "key, length(packets)" if table == "freed" else "key, packets"
    database = apsw.Connection(str(folder / STORE_FILE))
    found = list(database.execute(f"SELECT {columns} FROM {table} ORDER BY key"))
    database.close()
    return found


def test_neighbours_of_one_stream_share_a_row() -> None:
    """Another queue, stream or number begins one; so does a row that is large enough. A few are rows of their own."""
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
    """Whatever is asked for beside them."""
    wanted = sum(1 << place for place in range(packets) if first <= key + place <= last)
    assert bits_in(key, packets, first, last) == wanted <= every_bit(packets)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_packets_come_and_go_one_by_one(tmp_path: Path, seed: int) -> None:
    """In any spans and order, with restarts between: what is there is there, nothing else is, and at last no row."""
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
    """Without their bodies, singly and in a row of many."""
    bodies = [bytes([CARES | 2]), b"\x02", *[bytes([kind]) for kind in (CARES | 2, 1) * 20]]
    store = Store(tmp_path)
    store.load(b"n" * 16, 1)
    store.apply(Commit(outgoing=[OutgoingRow(key_of(1, at), 1, 0, body) for at, body in enumerate(bodies[:2], 1)]))
    store.apply(Commit(outgoing=[OutgoingRow(key_of(1, at), 1, 0, body) for at, body in enumerate(bodies[2:], 9)]))
    store.close()
    found = Store(tmp_path).load(b"n" * 16, 2).outgoing
    assert [index.cares for index in found] == [body[0] >= CARES for body in bodies]


@pytest.mark.slow
def test_a_row_goes_with_the_last_of_its_packets(tmp_path: Path) -> None:
    """Those of other streams stay; nothing is left of it."""
    rows = [OutgoingRow(key_of(stream, number), 1, 0, b"b") for stream in (1, 2) for number in range(1, 31)]
    for number in (0, 3, 1, 4, *range(5, 31), 2):
        store = Store(tmp_path)
        store.load(b"n" * 16, 1 + number)
        span = (key_of(1, number), key_of(1, number))
        store.apply(Commit(outgoing_deletes=[span]) if number else Commit(outgoing=rows))
        store.close()
        first = [] if number == 2 else [(key_of(1, 1), 30)]
        assert rows_in(tmp_path, "outgoing") == [*first, (key_of(2, 1), 30)]
        assert len(rows_in(tmp_path, "freed")) == (number not in (0, 2))


def test_keys_of_packets_that_are_gone_may_be_used_again(tmp_path: Path) -> None:
    """A queue goes on behind the last packet that it has, also when that is not the last of its row."""
    store = Store(tmp_path)
    store.load(b"n" * 16, 1)
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
    store = Store(tmp_path)
    store.load(b"n" * 16, 1)
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
