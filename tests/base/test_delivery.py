"""Classes and acknowledgements: the tables that everything else follows."""

import pytest

from triack.base.delivery import DURABLE, FREED_BY, Ack, Delivery, Role, check_sent
from triack.base.errors import UsageError


def test_each_class_is_freed_by_the_ack_that_proves_as_much() -> None:
    """Arrival for what is in memory, the next hop's disk, or the destination's."""
    assert {delivery: FREED_BY[delivery, Role.ORIGIN] for delivery in Delivery} == {
        Delivery.EXPRESS: Ack.SESSION,
        Delivery.RECOVERABLE: Ack.STORE,
        Delivery.TRANSACTIONAL: Ack.ORDER,
    }


def test_a_relay_answers_for_a_packet_until_the_next_hop_has_it() -> None:
    """On its disk, if the class is durable. Only the origin waits for the destination."""
    freed = {delivery: FREED_BY[delivery, Role.TRANSIT] for delivery in Delivery}
    assert freed == {delivery: Ack.STORE if delivery in DURABLE else Ack.SESSION for delivery in Delivery}


def test_what_is_freed_by_less_than_a_disk_is_not_durable() -> None:
    """And everything else is."""
    assert {delivery for delivery in Delivery if FREED_BY[delivery, Role.ORIGIN] is not Ack.SESSION} == DURABLE


def test_codes_and_labels_stay() -> None:
    """The wire, the store and the log have them."""
    assert {int(delivery): delivery.label for delivery in Delivery} == {
        0: "express",
        1: "recoverable",
        2: "transactional",
    }


@pytest.mark.parametrize(
    ("destination", "delivery", "told"),
    [
        (7, Delivery.EXPRESS, "send to 7: a destination is text"),
        ("q", "express", "send to q as 'express': a class is a triack.Delivery, such as triack.TRANSACTIONAL"),
    ],
)
def test_the_argument_of_a_wrong_type_is_named_and_no_other(destination: object, delivery: object, told: str) -> None:
    """A user has no use for the code of a class, as in <Delivery.EXPRESS: 0>."""
    with pytest.raises(UsageError) as caught:
        check_sent("send to", destination, delivery)
    assert str(caught.value) == told
