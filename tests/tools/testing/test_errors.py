"""The errors of a simulated world: public, of Triack's own kind, and distinct from those of services."""

import pytest

import triack.testing
from triack.base.errors import TriackError
from triack.testing import errors


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_is_public_and_says_what_it_is(name: str) -> None:
    error = getattr(errors, name)
    assert issubclass(error, TriackError)
    assert getattr(triack.testing, name) is error
    assert name in triack.testing.__all__
    assert str(error("what happened")) == "what happened"


def test_what_is_not_simulated_is_not_implemented() -> None:
    """Libraries that try a socket and can do without one look for just that."""
    assert issubclass(errors.NotSimulated, NotImplementedError)
    assert not any(
        issubclass(getattr(errors, name), OSError | RuntimeError) for name in ("MachineCrashed", "ServiceDied")
    )
