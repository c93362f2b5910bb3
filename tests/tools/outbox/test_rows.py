"""What the pump reads of a table."""

import pytest

from tests.tools.outbox.conftest import Connect
from tests.tools.outbox.test_pump import put
from triack.outbox.rows import BATCH_BYTES, BATCH_ROWS, Rows


def test_a_batch_is_limited_in_rows_and_bytes(connect: Connect) -> None:
    """A body of any size is read, alone if it must be."""
    put(connect, *(b"%d" % number for number in range(BATCH_ROWS + 1)))
    db = connect()
    rows = Rows(db, "triack_outbox", "node")
    name = rows.claim()
    assert rows.claim() == name
    first = rows.step([], [], [], [])
    assert [row.body for row in first] == [b"%d" % number for number in range(BATCH_ROWS)]
    assert [row.body for row in rows.step([row.id for row in first], [], [], [])] == [b"%d" % BATCH_ROWS]
    put(connect, bytes(BATCH_BYTES - 1), bytes(BATCH_BYTES), b"next", to="large")
    assert [len(row.body) for row in rows.step([], [], ["orders"], [])] == [BATCH_BYTES - 1, BATCH_BYTES]
    db.close()


def test_times_to_live_go_on_in_the_table(sqlite: Connect) -> None:
    put(sqlite, b"x", time_to_reach_queue=10)
    db = sqlite()
    rows = Rows(db, "triack_outbox", "node")
    rows.claim()
    (row,) = rows.step([], [], [], [])
    assert row.properties_at(row.enqueued_ms + 4_000) == {"time_to_reach_queue": pytest.approx(6)}
    assert row.properties_at(row.enqueued_ms - 4_000) == {"time_to_reach_queue": 10}
    assert not row.is_plain
    db.close()


def test_of_destinations_that_are_held_only_the_first_row_is_read_and_only_when_they_are_tried(
    connect: Connect,
) -> None:
    put(connect, b"1", b"2", to="full")
    put(connect, b"3", to="other")
    put(connect, b"4", b"5")
    db = connect()
    rows = Rows(db, "triack_outbox", "node")
    rows.claim()
    held = ["full", "other"]
    assert [row.body for row in rows.step([], [], held, [])] == [b"4", b"5"]
    assert [row.body for row in rows.step([], [], held, ["full", "none"])] == [b"1", b"4", b"5"]
    db.close()
