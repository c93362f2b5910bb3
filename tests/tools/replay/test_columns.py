"""Records as columns, and back."""

import io
from pathlib import Path

import pytest

from tests.tools.replay.builder import healthy
from triack.base.errors import ReplayError
from triack.tools.replay.files import find_logs, read_content, read_records

pytest.importorskip("pyarrow")


def test_what_was_columns_is_the_same_record_again(tmp_path: Path) -> None:
    """Each field with its value, and none that it had not."""
    from triack.tools.replay.columns import pack, unpack

    healthy().save(tmp_path)
    for log in find_logs([tmp_path]):
        records = list(read_records(log))
        assert unpack(pack(records)) == records


def test_what_no_column_holds_is_named(tmp_path: Path) -> None:
    from triack.tools.replay.columns import pack

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
        read_content("x.parquet", content)


def test_a_record_that_is_none_is_named_with_its_line() -> None:
    from triack.tools.replay.columns import write_parquet

    out = io.BytesIO()
    write_parquet(iter([{"v": 2, "event": "queue", "node": "a"}]), out)
    records, _ = read_content("x.parquet", out.getvalue())
    with pytest.raises(ReplayError, match=r"^x\.parquet line 1 is damaged: "):
        next(records)
