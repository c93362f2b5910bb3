"""What names of MSMQ are here."""

import pytest

from triack.base.errors import AddressError
from triack.queues.format_names import DEAD_LETTER_QUEUE, msmq_name, read_format_name
from triack.queues.mailboxes import system_queues

GUID = "2b4fdb20-8d2b-4d1e-9f0c-6a8b7f4d9e11"


@pytest.mark.parametrize(
    ("name", "destination"),
    [
        (r"DIRECT=OS:plant-b\private$\orders", "plant-b/orders"),
        (r"direct = os:plant-b\PRIVATE$\Orders", "plant-b/Orders"),
        (r"DIRECT=OS:plant-b.example.com\orders", "plant-b.example.com/orders"),
        (r"DIRECT=TCP:10.0.0.5\private$\orders", "10.0.0.5/orders"),
        (r"DIRECT=OS:.\private$\orders", "orders"),
        (r".\private$\orders", "orders"),
        (r"plant-b\private$\orders", "plant-b/orders"),
        (r"plant-b\orders", "plant-b/orders"),
        (r"DIRECT=OS:plant-b\private$\orders;JOURNAL", "plant-b/$journal.orders"),
        (r".\private$\orders;journal", "$journal.orders"),
        (f"MACHINE={GUID};JOURNAL", "$journal"),
        (r"DIRECT=OS:plant-b\system$;JOURNAL", "plant-b/$journal"),
        (r"plant-b\Journal$", "plant-b/$journal"),
        (r"DIRECT=OS:.\SYSTEM$;DEADLETTER", "dead-letter"),
        (r"DIRECT=OS:.\SYSTEM$;DEADXACT", "dead-letter"),
        (r".\XactDeadLetter$", "dead-letter"),
        (f"MACHINE={GUID};DEADLETTER", "dead-letter"),
        (f"MACHINE={GUID};DEADXACT", "dead-letter"),
        (r"FormatName:DIRECT=OS:plant-b\private$\orders", "plant-b/orders"),
        (r"formatname: direct=tcp:10.0.0.5\private$\orders", "10.0.0.5/orders"),
    ],
)
def test_a_name_of_one_queue_is_a_destination(name: str, destination: str) -> None:
    """Whatever the case of its words is."""
    assert msmq_name(name) == destination


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("DIRECT=HTTP://plant-b/msmq/private$/orders", "do not go over HTTP"),
        ("DIRECT=HTTPS://plant-b/msmq/private$/orders", "do not go over HTTP"),
        (f"PUBLIC={GUID}", "directory service"),
        (f"FormatName:PUBLIC={GUID}", "directory service"),
        ("Label:orders", "a label is looked up"),
        (f"PRIVATE={GUID}\\0000000a", "by the number"),
        (f"DL={GUID}", "list of destinations"),
        ("MULTICAST=234.1.1.1:8001", "publish to a topic"),
        (f"CONNECTOR={GUID};XACTONLY", "no connector queues"),
        (f"MACHINE={GUID}", "no queue of it"),
    ],
)
def test_what_has_no_meaning_here_is_refused_with_the_reason(name: str, why: str) -> None:
    """And with what to do instead."""
    with pytest.raises(AddressError, match=why):
        msmq_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "orders",
        "DIRECT=orders",
        "DIRECT=OS:plant-b",
        r"DIRECT=OS:plant-b\other$\orders",
        r"DIRECT=OS:plant-b\private$\a b",
        r"DIRECT=OS:plant-b\private$\orders;LATER",
        "QUEUE=orders",
        "FormatName:",
        "FormatName:orders",
        r"\private$\orders",
    ],
)
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(AddressError):
        msmq_name(name)


def test_a_name_of_several_queues_has_an_element_for_each() -> None:
    """It is no destination by itself: one sends to a list of them."""
    name = rf"DIRECT=OS:a\private$\x, PUBLIC={GUID},.\private$\y"
    assert [queue.destination for queue in read_format_name(name)] == ["a/x", None, "y"]
    with pytest.raises(AddressError, match="names 3 queues"):
        msmq_name(name)


def test_the_dead_letter_queue_is_that_of_the_nodes() -> None:
    assert DEAD_LETTER_QUEUE == system_queues.DEAD_LETTER_QUEUE
