"""One packet that passes through."""

import pytest

from triack.ordering.transit_packet import TransitPacket


@pytest.mark.parametrize(("number", "previous", "before"), [(7, 6, 6), (7, 3, 3), (7, 9, 6), (1, 0, 0)])
def test_what_its_origin_has_given_up_lies_before_it(number: int, previous: int, before: int) -> None:
    """Whatever a neighbour says, no packet follows one that has a greater number."""
    assert TransitPacket(number, b"", 0, 1, previous, 0).before == before
