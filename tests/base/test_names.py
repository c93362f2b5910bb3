"""Names of queues and nodes."""

import pytest

from triack.base.errors import AddressError
from triack.base.names import check_name, nearest


@pytest.mark.parametrize("name", ["orders", "a.b_c-$1", "bestellungen-süd", "注文", "ü" * 62])
def test_a_name_is_given_back(name: str) -> None:
    """Letters and digits of any script; 124 bytes are a name."""
    assert check_name(name) == name


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "must not be empty"),
        (".hidden", "must not start with '.'"),
        ("a/b", "'/' is not a letter"),
        ("a b", "' ' is not a letter"),
        ("a\nb", "is not a letter"),
        ("ü" * 62 + "x", "longer than 124 bytes"),
    ],
)
def test_what_is_no_name_is_told(name: str, why: str) -> None:
    """With the first thing that is wrong; what would be a path or a line of its own among them."""
    with pytest.raises(AddressError, match=why):
        check_name(name)


def test_what_is_no_text_is_no_name() -> None:
    for wrong in (None, 5, b"orders", ["orders"]):
        with pytest.raises(AddressError, match=r"^a name is text, not "):
            check_name(wrong)


def test_what_was_most_likely_meant() -> None:
    """One that is near, if any is."""
    known = ["invoices", "orders", "dead-letter"]
    assert (nearest("ordres", known), nearest("orders2", known), nearest("stock", known)) == ("orders", "orders", None)
