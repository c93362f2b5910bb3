"""Sizes and durations are read as people write them."""

import pytest

from triack.node.config.quantities import SECONDS, SIZES, read_quantity, write_quantity


@pytest.mark.parametrize(
    ("text", "size_bytes"), [("8 GiB", 8 * 2**30), ("64KiB", 65_536), ("1.5 MiB", 1_572_864), ("2 MB", 2_000_000)]
)
def test_a_size_has_a_unit(text: str, size_bytes: int) -> None:
    assert read_quantity(text, SIZES) == size_bytes


@pytest.mark.parametrize(
    ("text", "seconds"), [("500 ms", 0.5), ("30 s", 30), ("5 min", 300), ("6 h", 21_600), ("1 d", 86_400)]
)
def test_a_duration_has_a_unit(text: str, seconds: float) -> None:
    assert read_quantity(text, SECONDS) == seconds


@pytest.mark.parametrize("text", ["8 Gib", "8", "GiB", "-1 s", "1 s s", "", "1e3 s"])
def test_what_is_no_quantity_is_none(text: str) -> None:
    """``Gib`` could be bits."""
    assert read_quantity(text, SIZES) is None
    assert read_quantity(text, SECONDS) is None


def test_a_whole_number_of_a_large_unit_is_written_with_it() -> None:
    assert [write_quantity(size, SIZES) for size in (2**30, 3 * 2**20, 1_000, 0)] == ["1 GiB", "3 MiB", None, None]
    assert write_quantity(7_200, SECONDS) == "2 h"


def test_a_text_of_very_many_digits_is_no_quantity() -> None:
    """Python reads no number of so many, and none of them is a float."""
    for text in (f"{'9' * 20_000} s", f"{'9' * 400} ms", f"{'9' * 400}.5 d"):
        assert read_quantity(text, SECONDS) is None
