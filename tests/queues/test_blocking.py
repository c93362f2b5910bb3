"""The conditions that ``send`` waits for, by class."""

import pytest

from triack.base.delivery import Delivery
from triack.base.errors import UsageError
from triack.queues.blocking import Blocking
from triack.queues.stages import Stage


def test_each_class_has_its_own_stage() -> None:
    blocking = Blocking(durable="stored", express=Stage.RECEIVED)
    assert [blocking.stage_of(delivery) for delivery in Delivery] == [Stage.RECEIVED, "stored", "stored"]
    assert [Blocking().stage_of(delivery) for delivery in Delivery] == [None, None, None]


def test_a_stage_that_a_class_lacks_is_refused() -> None:
    """Recoverable messages are durable, and nobody orders them."""
    with pytest.raises(UsageError, match="durable messages do not all have the stage ordered"):
        Blocking(durable="ordered")
    with pytest.raises(UsageError, match="express messages do not all have the stage stored"):
        Blocking(express="stored")
    with pytest.raises(UsageError, match="wait for 'arrived': stages are queued, received, stored, onward, ordered"):
        Blocking(durable="arrived")  # type: ignore[arg-type]
