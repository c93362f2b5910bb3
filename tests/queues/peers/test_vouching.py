"""Streams with open conversations are vouched for, once, and released when the last of those is gone."""

from triack.queues.peers.vouching import DropConnection, KeepConnection, Vouching

PATH = "tcp://192.0.2.1:9"


def test_the_first_vouches_and_the_last_releases() -> None:
    vouching = Vouching()
    vouching.add(PATH)
    vouching.add(PATH)
    assert vouching.take() == ([KeepConnection(PATH)], [])
    vouching.remove(PATH)
    assert vouching.take() == ([], [])
    vouching.remove(PATH)
    assert vouching.take() == ([], [DropConnection(PATH)])
    assert vouching.take() == ([], [])


def test_what_comes_and_goes_between_two_looks_has_not_changed() -> None:
    vouching = Vouching()
    vouching.add(PATH)
    vouching.remove(PATH)
    assert vouching.take() == ([], [])
    vouching.add(PATH)
    vouching.take()
    vouching.remove(PATH)
    vouching.add(PATH)
    assert vouching.take() == ([], [])


def test_nobody_vouches_for_what_has_no_streams() -> None:
    vouching = Vouching()
    vouching.add("udp://192.0.2.1:9")
    vouching.add("memory://b")
    assert vouching.take() == ([], [])
