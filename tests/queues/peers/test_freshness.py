"""Which connects are newer than all before them."""

from triack.queues.peers.freshness import NODES_OF_ONE_MAX, Freshness, Moment


def test_only_what_is_newer_is_fresh() -> None:
    """In its start, or in a later one, whatever the clock of that shows."""
    fresh = Freshness()
    taken = [
        fresh.take("a", b"n", Moment(*moment)) for moment in ((1, 5), (1, 5), (1, 4), (1, 6), (2, 1), (1, 9), (2, 1))
    ]
    assert taken == [True, False, False, True, True, False, False]


def test_nodes_and_peers_have_nothing_to_do_with_each_other() -> None:
    """Two nodes with the key of one peer may have been started more and less often."""
    fresh = Freshness()
    assert fresh.take("a", b"n", Moment(9, 9))
    assert fresh.take("a", b"m", Moment(1, 1))
    assert fresh.take("b", b"n", Moment(1, 1))


def test_little_is_remembered_of_each() -> None:
    """The nodes that were heard last, and nothing of a peer that is trusted no more."""
    fresh = Freshness()
    for number in range(NODES_OF_ONE_MAX + 1):
        fresh.take("a", b"%d" % number, Moment(5, 5))
    assert not fresh.take("a", b"1", Moment(5, 5))
    assert fresh.take("a", b"0", Moment(5, 5))
    fresh.take("b", b"n", Moment(5, 5))
    fresh.forget(lambda peer: peer == "b")
    assert fresh.take("a", b"1", Moment(5, 5))
    assert not fresh.take("b", b"n", Moment(5, 5))
