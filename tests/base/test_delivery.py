"""The three classes: their codes on the wire, their names, and what frees a packet of each."""

from triack.base.delivery import DURABLE, FREED_BY, Ack, Delivery


def test_codes_and_names_are_those_of_the_wire_and_of_the_log() -> None:
    """Other nodes and old logs have them."""
    assert [(int(delivery), delivery.label) for delivery in Delivery] == [
        (0, "express"),
        (1, "recoverable"),
        (2, "transactional"),
    ]


def test_what_is_worth_more_waits_for_a_later_acknowledgement() -> None:
    """Each class is freed by one of its own; what is on disk here is not freed before it is on disk there."""
    assert [FREED_BY[delivery] for delivery in Delivery] == [Ack.SESSION, Ack.STORE, Ack.ORDER]
    assert {delivery for delivery in Delivery if FREED_BY[delivery] >= Ack.STORE} == DURABLE
