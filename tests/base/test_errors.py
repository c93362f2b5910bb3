"""The error tree: the errors that a user may catch, and their messages."""

import pytest

import triack
from triack.base import errors
from triack.base.errors import DeliveryFailed, ProtocolError, RollbackDetected
from triack.base.reasons import DropReason


def test_all_errors_are_public_and_in_the_picture() -> None:
    """``triack.X`` is the same class, and the module's first text shows each."""
    for name in errors.__all__:
        assert getattr(triack, name) is getattr(errors, name)
        assert f"{name} " in f"{errors.__doc__}".replace("\n", " ")


@pytest.mark.parametrize(
    ("error", "caught"),
    [("UsageError", ValueError), ("WaitTimeout", TimeoutError), ("StoreDamaged", errors.StoreError)],
)
def test_errors_are_what_python_calls_them(error: str, caught: type[Exception]) -> None:
    """A handler of the usual error catches ours."""
    assert issubclass(getattr(errors, error), caught)


def test_a_failed_delivery_is_not_a_rollback() -> None:
    """After the one a message is in the dead-letter queue, after the other it is still queued."""
    assert DeliveryFailed("lost", reason="queue-not-found").reason == "queue-not-found"
    rolled = RollbackDetected("older", peer="ab" * 16, rolled_back="own")
    assert (rolled.peer, rolled.rolled_back) == ("ab" * 16, "own")
    assert not isinstance(rolled, DeliveryFailed | errors.StoreError)


def test_a_breach_of_the_protocol_has_its_name_first() -> None:
    """The name under which it is counted; then what was seen, if that says more."""
    assert str(ProtocolError(DropReason.BAD_TAG)) == "bad-tag"
    assert str(ProtocolError(DropReason.BAD_VERSION, "7")) == "bad-version: 7"
