"""A new connection is always accepted; if necessary, the one that has waited longest ends."""

import pytest

from triack.transport.strangers import STRANGERS_MAX, STRANGERS_PER_HOST_MAX, Strangers, host_of


def test_one_host_has_only_its_share() -> None:
    """However often it knocks, it is its own oldest that goes, and others stay."""
    strangers = Strangers[str]()
    assert strangers.admit("honest", "10.0.0.1") is None
    gone = [strangers.admit(f"junk {number}", "10.0.0.2") for number in range(1_024)]
    assert gone[:STRANGERS_PER_HOST_MAX] == [None] * STRANGERS_PER_HOST_MAX
    assert gone[STRANGERS_PER_HOST_MAX:] == [f"junk {number}" for number in range(1_024 - STRANGERS_PER_HOST_MAX)]
    assert "honest" in strangers
    assert len(strangers) == 1 + STRANGERS_PER_HOST_MAX


def test_many_hosts_have_a_share_of_all_places() -> None:
    """A host with one connection is not the one that pays for a crowd."""
    strangers = Strangers[str]()
    strangers.admit("honest", "10.0.0.1")
    for number in range(10_000):
        strangers.admit(f"junk {number}", f"10.1.0.{number % 100}")
    assert "honest" in strangers
    assert len(strangers) == STRANGERS_MAX
    assert strangers.admit("newcomer", "10.0.0.3") not in {None, "honest", "newcomer"}


def test_who_was_vouched_for_takes_no_place() -> None:
    strangers = Strangers[int]()
    for number in range(STRANGERS_PER_HOST_MAX):
        strangers.admit(number, "h")
    strangers.forget(0)
    strangers.forget(0)
    assert strangers.admit(99, "h") is None
    assert strangers.admit(100, "h") == 1
    assert list(strangers) == [*range(2, STRANGERS_PER_HOST_MAX), 99, 100]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (("10.0.0.1", 1), ("10.0.0.1", 2), True),
        (("10.0.0.1", 1), ("10.0.0.2", 1), False),
        (("10.0.0.1", 1), ("::ffff:10.0.0.1", 1, 0, 0), True),
        (("::ffff:10.0.0.1", 1, 0, 0), ("::ffff:10.0.0.2", 1, 0, 0), False),
        (("2001:db8::1", 1, 0, 0), ("2001:db8::ffff:2", 1, 0, 0), True),
        (("2001:db8::1", 1, 0, 0), ("2001:db8:0:1::1", 1, 0, 0), False),
        (("fe80::1%eth0", 1, 0, 3), ("fe80::2", 1, 0, 3), True),
    ],
)
def test_what_counts_as_one_host(one: tuple[object, ...], other: tuple[object, ...], same: bool) -> None:
    """An IPv6 host has 2^64 addresses."""
    assert (host_of(one) == host_of(other)) is same
