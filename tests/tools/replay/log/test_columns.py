"""Records as columns, and back."""

import io
from pathlib import Path

import pytest

from tests.tools.replay.builder import healthy
from triack.base.errors import ReplayError
from triack.tools.replay.log.files import Reading, columns_of, find_logs, read_records

pytest.importorskip("pyarrow")


def test_what_was_columns_is_the_same_record_again(tmp_path: Path) -> None:
    """Each field with its value, and none that it had not."""
    from triack.tools.replay.log.columns import pack, unpack

    healthy().save(tmp_path)
    for log in find_logs([tmp_path]):
        records = list(read_records(log))
        assert unpack(pack(records)) == records


def test_what_no_column_holds_is_named(tmp_path: Path) -> None:
    from triack.tools.replay.log.columns import pack

    with pytest.raises(ReplayError, match=r"^a record from 7 on is damaged: "):
        pack([{"n": 7, "at_ns": 1 << 70}])


@pytest.mark.parametrize(("content", "said"), [(b"PAR1", "is damaged"), (b"other", "has no records")])
def test_a_file_that_is_not_one_is_named(content: bytes, said: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if content == b"other":
        out = io.BytesIO()
        pq.write_table(pa.table({"a": [1]}), out)
        content = out.getvalue()
    with pytest.raises(ReplayError, match=f"^x.parquet {said}"):
        columns_of("x.parquet", content)


def parquet(**columns: list[object]) -> bytes:
    """A file that anybody may have written."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


STOPPED: dict[str, list[object]] = {
    "v": [6], "event": ["node_stopped"], "node": ["a" * 32], "incarnation": [1], "n": [1], "at_ns": [0], "wall_ns": [0],
}  # fmt: skip
ACKED: dict[str, list[object]] = {**STOPPED, "event": ["ack_received"], "session": ["b" * 16]}


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (STOPPED, ""),
        ({**ACKED, "ranges": [[[1, 2]]]}, ""),
        ({**ACKED, "ranges": [[]]}, ""),
        ({**STOPPED, "event": ["queue"]}, "line 1 is damaged: unknown event 'queue'"),
        ({**STOPPED, "event": [None]}, "line 1 is damaged: field 'v' is missing or of the wrong type"),
        ({**STOPPED, "node": [7]}, "line 1 is damaged: field 'node' is '7', and not 32 hex digits"),
        ({**STOPPED, "n": ["one"]}, "is damaged: Failed to parse string: 'one' as a scalar of type int64"),
        (ACKED, "line 1 is damaged: ack_received with the fields session"),
        ({**ACKED, "ranges": [[[1], [2, 3, 4]]]}, "line 1 is damaged: field 'ranges' is not made of pairs"),
        ({**ACKED, "ranges": [[[1, None]]]}, "line 1 is damaged: field 'ranges' is not made of pairs"),
        ({**ACKED, "ranges": [[1, 2]]}, "is damaged: Unsupported cast"),
    ],
)
def test_what_anybody_wrote_is_read_or_named(columns: dict[str, list[object]], said: str) -> None:
    """With other types, lists of something else, or without a column."""
    reading = Reading("x.parquet", parquet(**columns))
    count = sum(1 for _, records in reading.segments() for _ in records)
    assert reading.fault[: len(said)] == said
    assert (reading.fault == "") == (count == 1)
