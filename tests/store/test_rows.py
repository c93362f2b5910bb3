"""Rows that prove that they are unchanged, and the sums that show that none is missing."""

import struct

import pytest

from triack.store.rows import TABLES, Tallies

PACKET = (5, b"o" * 16, 1, 2, 3, b"a body that is longer than what is read of it at the start")


def test_a_row_of_one_table_is_none_of_another() -> None:
    """The same values have another checksum there."""
    assert len({table.checksum((1, 2, 3)) for table in TABLES.values()}) == len(TABLES)


@pytest.mark.parametrize(
    "values", [(1, "a"), ("1", "a"), (1, b"a"), (1.0, "a"), (1, None), ("a", 1), (1, "a", 0), (1, "ä")]
)
def test_order_number_and_type_of_the_values_count(values: tuple[object, ...]) -> None:
    """Not only what they look like."""
    checksum = TABLES["queues"].checksum(values)
    assert (checksum == TABLES["queues"].checksum((1, "a"))) == (values == (1, "a") and isinstance(values[0], int))


def test_a_packet_is_known_by_all_of_it() -> None:
    """Its columns, each byte of its body, both checksums; a row of other types is damaged, and not an accident."""
    table = TABLES["messages"]
    stored = table.with_checksums(PACKET)
    assert table.is_intact(stored)
    for place, value in enumerate(stored):
        for other in (value + b"x" if isinstance(value, bytes) else value + 1, None, "text", -1):
            assert not table.is_intact((*stored[:place], other, *stored[place + 1 :]))
    assert not table.is_intact((*stored[:-1], stored[-1][:-1] + b"?"))


def test_tallies_come_back_and_tell_which_table_differs() -> None:
    """By a row too few, or one in place of another; what was removed counts no more."""
    tallies = Tallies()
    tallies.add("streams", [7, 9])
    tallies.add("state", [4])
    again = Tallies(tallies.pack())
    assert again.differing(tallies) == []
    again.remove("streams", [7])
    again.add("state", [5])
    again.remove("state", [5])
    assert again.differing(tallies) == ["streams"]
    again.add("streams", [8])
    assert again.differing(tallies) == ["streams"]
    with pytest.raises(struct.error):
        Tallies(b"short")


def test_a_damaged_row_that_is_deleted_shows_later() -> None:
    """It takes away more than was ever added, and that can still be written down."""
    tallies = Tallies()
    tallies.remove("streams", [1])
    assert Tallies(tallies.pack()).differing(Tallies()) == ["streams"]
