"""Blocks of records come back as they were, and neighbours that differ in little take little."""

from struct import Struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triack.base.columns import Columns

RECORD = Struct("<QQH")
COLUMNS = Columns(RECORD.size, 16, 64)
Records = list[tuple[int, int, int]]


def block(records: Records) -> bytearray:
    return bytearray(b"".join(RECORD.pack(*record) for record in records))


@pytest.mark.gate
@given(st.lists(st.tuples(*[st.integers(0, 2**64 - 1)] * 2, st.integers(0, 2**16 - 1)), min_size=1, max_size=64))
def test_a_block_comes_back_as_it_was(records: Records) -> None:
    """Whether its fields rise or fall, and however many records it has."""
    for some in (records, sorted(records, key=lambda it: it[1])):
        assert COLUMNS.unpack(COLUMNS.pack(block(some))) == block(some)


def test_fields_that_rise_by_little_take_little() -> None:
    records = [(2**40 + 3 * at, 2**50 + at, 7) for at in range(64)]
    assert len(COLUMNS.pack(block(records))) < 64 * RECORD.size // 12
