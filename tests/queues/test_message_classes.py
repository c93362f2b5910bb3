"""The classes of messages and the flags that ask for them have MSMQ's numbers."""

import pytest

from triack.base.errors import UsageError
from triack.base.reasons import DeadReason, RejectReason
from triack.queues.message_classes import Acks, MessageClass, as_acks, class_at_queue, class_on_the_way


def test_each_class_is_asked_for_by_one_flag() -> None:
    """As the upper bits of its number say."""
    for message_class in MessageClass:
        asked_by = {0x0000: 0, 0x4000: 2, 0x8000: 4, 0xC000: 8}[message_class & 0xC000]
        assert message_class.asked_by == (1 if message_class == 0x0002 else asked_by)
        assert message_class.is_negative == (asked_by > 2)
    assert MessageClass.ACK_REACH_QUEUE.label == "ack-reach-queue"


def test_the_flags_of_dot_net_are_sums() -> None:
    assert Acks.FULL_REACH_QUEUE == Acks.POSITIVE_ARRIVAL | Acks.NOT_ACKNOWLEDGE_REACH_QUEUE
    assert Acks.NOT_ACKNOWLEDGE_RECEIVE == Acks.NOT_ACKNOWLEDGE_REACH_QUEUE | Acks.NEGATIVE_RECEIVE
    assert Acks.FULL_RECEIVE == Acks.NOT_ACKNOWLEDGE_RECEIVE | Acks.POSITIVE_RECEIVE


@pytest.mark.parametrize("value", [-1, 16, True, "5", None])
def test_what_is_no_flag_is_refused(value: object) -> None:
    with pytest.raises(UsageError, match=r"^send to q: acks must be"):
        as_acks("send to q", value)


def test_each_end_of_a_message_has_a_class() -> None:
    """On its way 0x8000 and further, in its queue 0xC000 and further."""
    for reason in (*RejectReason, *DeadReason):
        assert 0x8000 <= class_on_the_way(reason) <= 0x8005
        assert 0xC001 <= class_at_queue(reason) <= 0xC004
    assert class_on_the_way(RejectReason.HOP_COUNT_EXCEEDED) == 0x8005
    assert class_on_the_way(DeadReason.PURGED) == 0x8001
    assert class_at_queue(DeadReason.READER_REFUSED) == 0xC004
    assert class_at_queue(DeadReason.PURGED) == 0xC001
