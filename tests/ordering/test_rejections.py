"""The rejections of a destination, until its origin has confirmed them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ordering.pair import make_header
from triack.base.errors import StoreDamaged
from triack.ordering import rejections
from triack.ordering.rejections import Rejections


def refuse(*numbers: int, reason: str = "no", sequence: int = 1) -> Rejections:
    found = Rejections()
    for number in numbers:
        found.add(make_header(number, number - 1, sequence), reason)
    return found


def test_neighbours_with_one_reason_are_one_run() -> None:
    """In whatever order they came."""
    found = refuse(5, 3, 4, 9)
    assert found.spans == [(3, 5, "no"), (9, 9, "no")]
    found.add(make_header(6, 5), "another")
    found.add(make_header(8, 7), "no")
    assert found.spans == [(3, 5, "no"), (6, 6, "another"), (8, 9, "no")]
    assert found.lowest == 3
    assert [found.reason_of(make_header(number, 0)) for number in (2, 3, 5, 6, 7, 8)] == [
        None, "no", "no", "another", None, "no",
    ]  # fmt: skip


def test_what_its_origin_wants_no_more_is_forgotten() -> None:
    """A part of a run, too; numbers outside are remembered."""
    found = refuse(1, 2, 3, 4, 5, 8)
    assert not found.forget_unwanted(1, 6, 7)
    assert not found.forget_unwanted(1, 4, 3)
    assert found.forget_unwanted(1, 2, 3)
    assert found.spans == [(1, 1, "no"), (4, 5, "no"), (8, 8, "no")]
    assert found.forget_unwanted(1, 0, 9)
    assert not found
    assert found.lowest is None


def test_another_sequence_begins_anew() -> None:
    """Nobody will ask for packets that were refused of an older one."""
    found = refuse(1, 2)
    assert not found.forget_unwanted(0, 0, 9)
    assert found.reason_of(make_header(1, 0, 2)) is None
    assert found.forget_unwanted(2, 5, 4)
    assert not found
    found = refuse(1, 2)
    found.add(make_header(7, 6, 2), "no")
    assert found.spans == [(7, 7, "no")]


def test_it_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """By runs, and not by numbers: a destination that refuses a queue refuses runs."""
    monkeypatch.setattr(rejections, "SPANS_MAX", 2)
    assert not refuse(*range(1, 1_000)).full
    assert refuse(1, 3).full


@given(st.lists(st.tuples(st.integers(1, 40), st.sampled_from(["a", "bä"]))), st.integers(0, 45), st.integers(0, 45))
def test_it_says_what_a_dictionary_says(refused: list[tuple[int, str]], first: int, last: int) -> None:
    """Whatever was refused and settled, and after a restart."""
    found, model = Rejections(), dict[int, str]()
    for number, reason in refused:
        if number not in model:
            model[number] = reason
            found.add(make_header(number, 0), reason)
    found.forget_unwanted(1, first, last)
    left = {number: reason for number, reason in model.items() if not first <= number <= last}
    for again in (found, Rejections.decode(found.encode())):
        assert {n: again.reason_of(make_header(n, 0)) for n in range(1, 41)} == {n: left.get(n) for n in range(1, 41)}
        assert again.lowest == min(left, default=None)


def test_what_is_no_row_is_damage() -> None:
    """Never an error of another kind, and never believed."""
    row = refuse(1, 2, 9).encode()
    assert refuse().encode() == b""
    for cut in (*range(1, 8), *range(9, len(row) - 21), len(row) - 1):
        with pytest.raises(StoreDamaged, match="rejections"):
            Rejections.decode(row[:cut])
    with pytest.raises(StoreDamaged, match="rejections"):
        Rejections.decode(row[:-1] + b"\xff")
