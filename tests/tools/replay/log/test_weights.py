"""Weights behave like a dictionary that keeps the larger of two claims."""

from hypothesis import given
from hypothesis import strategies as st

from triack.tools.replay.log.weights import Weights

PUT = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 8), st.integers(0, 3)), max_size=40)


@given(PUT, st.integers(1, 30), st.integers(0, 9))
def test_weights_are_a_dictionary(put: list[tuple[int, int, int]], first: int, length: int) -> None:
    weights, plain = Weights(), dict[int, int]()
    for number, more, count in put:
        weights.put(number, number + more, count)
        for each in range(number, number + more + 1):
            plain[each] = max(plain.get(each, count), count)
    assert [weights.get(number) for number in range(42)] == [plain.get(number) for number in range(42)]
    asked = [plain[number] for number in range(first, first + length + 1) if number in plain]
    within = [(each, count) for low, high, count in weights.within(1, 42) for each in range(low, high + 1)]
    assert within == sorted(plain.items())
    assert weights.total(first, first + length) == (len(asked), sum(asked))


def test_join_tells_what_had_a_lower_count() -> None:
    mine, other = Weights(), Weights()
    for first, last, count in ((1, 4, 2), (5, 6, 3)):
        mine.put(first, last, count)
    for first, last, count in ((2, 2, 1), (4, 4, 5), (7, 9, 1)):
        other.put(first, last, count)
    assert mine.join(other) == [(4, 4)]
    assert Weights().join(other) == []
