"""How a session depends on the traits of its path, whatever the transport is."""

import pytest

from tests.session.pair import make_session, unprobed
from triack.session.protocol.path_traits import MEMORY, TCP, UDP, PathTraits
from triack.session.protocol.settings import SessionSettings

SATELLITE = PathTraits(paced=True, reliable=False, base_bytes=600)
"""A path that no endpoint of Triack has."""


@pytest.mark.parametrize(("traits", "name"), [(UDP, "bbr"), (TCP, "stream"), (MEMORY, "none"), (SATELLITE, "bbr")])
def test_a_session_controls_congestion_where_nothing_below_it_does(traits: PathTraits, name: str) -> None:
    congestion = make_session(1, traits=traits).window.congestion
    assert ("none" if congestion is None else congestion.name) == name


@pytest.mark.parametrize(("traits", "size"), [(UDP, 1_200), (TCP, 9_000), (MEMORY, 9_000), (SATELLITE, 600)])
def test_a_session_begins_with_the_largest_datagram_that_needs_no_probe(traits: PathTraits, size: int) -> None:
    settings = unprobed(SessionSettings(max_datagram_bytes=9_000))
    assert make_session(1, settings, traits=traits).path_size.size_bytes == size
