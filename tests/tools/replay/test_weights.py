"""Weights behave like a dictionary that keeps the larger of two claims."""

from hypothesis import given
from hypothesis import strategies as st

from triack.tools.replay.weights import Weights


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 3)), max_size=40), st.integers(1, 30), st.integers(0, 9))
def test_weights_are_a_dictionary(put: list[tuple[int, int]], first: int, length: int) -> None:
    weights, plain = Weights(), dict[int, int]()
    for number, count in put:
        weights.put(number, count)
        plain[number] = max(plain.get(number, count), count)
    assert [weights.get(number) for number in range(32)] == [plain.get(number) for number in range(32)]
    asked = [plain[number] for number in range(first, first + length + 1) if number in plain]
    assert weights.total(first, first + length) == (len(asked), sum(asked))
