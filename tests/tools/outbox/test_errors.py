"""The error of the outbox."""

import triack
from triack.outbox import OutboxTaken


def test_it_is_one_of_triacks() -> None:
    assert issubclass(OutboxTaken, triack.TriackError)
