"""Bodies that say which they are."""

import pytest

from triack.tools.demo.bodies import SIZE_MIN, Bodies


@pytest.mark.parametrize("size", [SIZE_MIN, SIZE_MIN + 1, 100, 5000])
def test_a_body_has_its_size_and_its_index(size: int) -> None:
    """Whatever the noise is, percent signs among it."""
    bodies = Bodies(size, seed=7)
    for index in (0, 1, 99_999, 10**SIZE_MIN - 1):
        body = bodies.make(index)
        assert len(body) == size
        assert bodies.index_of(body) == index


def test_both_ends_make_the_same() -> None:
    """From the same seed; every index has its own body, and every seed its own noise."""
    assert Bodies(100, 1).make(5) == Bodies(100, 1).make(5)
    assert Bodies(100, 1).make(5) != Bodies(100, 1).make(6)
    assert Bodies(100, 1).make(5)[:SIZE_MIN] == Bodies(100, 2).make(5)[:SIZE_MIN]
    assert Bodies(100, 1).make(5) != Bodies(100, 2).make(5)


@pytest.mark.parametrize("body", [b"", b"7", b"0" * (SIZE_MIN - 1), b"0" * (SIZE_MIN - 1) + b"x", b" " * SIZE_MIN])
def test_a_body_of_somebody_else_has_no_index(body: bytes) -> None:
    assert Bodies.index_of(body) is None
