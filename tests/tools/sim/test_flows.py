"""A middle box lets in answers from the address that was called, for as long as it remembers."""

from triack.tools.sim.flows import FlowTable

INSIDE, OUTSIDE, OTHER = "udp://a:1", "udp://b:1", "udp://c:1"


def test_a_host_that_is_not_hidden_is_where_it_is() -> None:
    flows = FlowTable()
    assert flows.handle_leaving(INSIDE, OUTSIDE, 0) == ""
    assert flows.inside_of(INSIDE, OUTSIDE, 0) == INSIDE


def test_a_flow_lets_in_answers_from_where_it_goes_until_it_is_forgotten() -> None:
    flows = FlowTable()
    flows.hide(INSIDE, 100)
    seen = flows.handle_leaving(INSIDE, OUTSIDE, 0)
    assert seen.startswith("udp://a:")
    assert [flows.inside_of(seen, OUTSIDE, at) for at in (0, 99, 100)] == [INSIDE, INSIDE, None]
    assert flows.inside_of(seen, OTHER, 0) is None
    assert flows.inside_of(INSIDE, OUTSIDE, 0) is None


def test_what_leaves_keeps_a_flow_and_what_arrives_does_not() -> None:
    """RFC 4787, section 4.3: nobody outside can keep a hole open."""
    flows = FlowTable()
    flows.hide(INSIDE, 100)
    seen = flows.handle_leaving(INSIDE, OUTSIDE, 0)
    assert flows.handle_leaving(INSIDE, OUTSIDE, 90) == seen
    assert flows.inside_of(seen, OUTSIDE, 189) == INSIDE
    assert flows.inside_of(seen, OUTSIDE, 190) is None
    assert flows.handle_leaving(INSIDE, OUTSIDE, 190) != seen


def test_each_address_outside_has_a_flow_of_its_own() -> None:
    flows = FlowTable()
    flows.hide(INSIDE, 100)
    assert flows.handle_leaving(INSIDE, OUTSIDE, 0) != flows.handle_leaving(INSIDE, OTHER, 0)


def test_whose_flow_it_is_stays_known() -> None:
    """A cut is between two hosts, wherever they are seen."""
    flows = FlowTable()
    flows.hide(INSIDE, 100)
    seen = flows.handle_leaving(INSIDE, OUTSIDE, 0)
    flows.hide(INSIDE, 0)
    assert (flows.home_of(seen), flows.home_of(OUTSIDE)) == (INSIDE, OUTSIDE)
    assert flows.inside_of(INSIDE, OUTSIDE, 1) == INSIDE
