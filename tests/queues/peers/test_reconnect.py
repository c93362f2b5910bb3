"""The waits between attempts to connect, those of MSMQ among them."""

from random import Random

import pytest

from tests.base.refusals import refuse_wrong_values
from triack.base.errors import UsageError
from triack.base.units import SECOND
from triack.queues.node_settings import Reconnect
from triack.queues.peers.link import Link


def waits_s(reconnect: Reconnect, count: int, *, unanswered: bool = False) -> list[float]:
    """The waits of a link that never succeeds."""
    link = Link("udp://b:1", reconnect, Random(1))
    waits: list[float] = []
    for _ in range(count):
        link.handle_closed(0, unanswered=unanswered)
        waits.append(link.retry_at_ns / SECOND)
    return waits


def test_what_cannot_be_is_refused() -> None:
    refuse_wrong_values(Reconnect)
    with pytest.raises(UsageError, match="jitter must be between 0 and 1, not 2"):
        Reconnect(jitter=2)
    with pytest.raises(UsageError, match="first_s is 5, more than most_s, 1"):
        Reconnect(first_s=5)


@pytest.mark.parametrize("unanswered", [False, True])
def test_waits_of_msmq_grow_by_half_a_minute_to_five(unanswered: bool) -> None:
    """``WaitTime``: 60 s, 30 s more each time, at most 300 s; exactly, whether the peer has answered or not."""
    msmq = Reconnect(first_s=60, step_s=30, most_s=300, unanswered_most_s=300, jitter=0)
    assert waits_s(msmq, 11, unanswered=unanswered) == [60, 90, 120, 150, 180, 210, 240, 270, 300, 300, 300]


def test_a_constant_wait_is_constant() -> None:
    """MSMQ's ``TryConnectInterval``: 5 s, and not something between 2.5 and 5."""
    assert waits_s(Reconnect(first_s=5, most_s=5, unanswered_most_s=5, jitter=0), 40) == [5.0] * 40


def test_waits_double_when_no_step_is_set() -> None:
    assert waits_s(Reconnect(jitter=0), 6) == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert waits_s(Reconnect(jitter=0), 3, unanswered=True) == [0.1, 0.1, 0.1]


def test_jitter_is_a_share_of_the_wait() -> None:
    """With a tenth, five seconds are 4.5 to 5."""
    waits = waits_s(Reconnect(first_s=5, most_s=5, jitter=0.1), 100)
    assert (min(waits) >= 4.5, max(waits) <= 5, max(waits) - min(waits) > 0.4) == (True, True, True)
