"""The settings of a session with a peer that follow from the settings of a node."""

import pytest

from tests.queues.world import PlainWorld, World
from triack.base.checks import LONGEST_LIFE_S
from triack.base.units import SECOND, in_ns
from triack.node.handles.policies import MSMQ
from triack.queues.node_settings import NodeSettings
from triack.queues.peers.session_settings import session_settings, traits_of
from triack.session.protocol.path_traits import MEMORY, TCP, UDP, PathTraits
from triack.session.protocol.settings import SessionSettings


def test_streams_take_larger_datagrams_and_a_try_is_no_longer_than_it_may_be() -> None:
    settings = NodeSettings(stream_datagram_bytes=50_000)
    assert session_settings(settings, "udp://a:1") == settings.session
    assert session_settings(settings, "tcp://a:1").max_datagram_bytes == 50_000
    assert session_settings(settings, "udp://a:1", 3 * SECOND).connect_timeout_s == 3
    assert session_settings(settings, "udp://a:1", 300 * SECOND) == settings.session


def test_a_peer_without_a_name_is_granted_twice_the_silence_with_msmq() -> None:
    """Fixed or by the round trip; by default it is as any other."""
    assert session_settings(MSMQ, "udp://a:1", direct=True).ack_timeout_s == 40
    assert session_settings(MSMQ, "udp://a:1").ack_timeout_s == 20
    thrice = NodeSettings(session=SessionSettings(direct_ack_timeouts=3))
    found = session_settings(thrice, "udp://a:1", direct=True)
    assert (found.ack_timeout_s, found.ack_timeout_min_s, found.ack_timeout_max_s) == (None, 6, 360)
    assert session_settings(NodeSettings(), "udp://a:1", direct=True) == SessionSettings()


def test_any_number_of_timeouts_is_no_longer_than_the_longest() -> None:
    """Settings that are accepted make a session, however much they come to."""
    settings = NodeSettings(session=SessionSettings(direct_ack_timeouts=10**9, ack_timeout_s=60))
    assert session_settings(settings, "udp://a:1", direct=True).ack_timeout_s == LONGEST_LIFE_S


@pytest.mark.parametrize(("make", "seconds"), [(PlainWorld, 40), (World, 20)])
def test_it_is_in_force_at_both_ends(make: type[World], seconds: int) -> None:
    """With keys each node has a name for the other, and without them an address."""
    world = make(1)
    a, b = world.node("a", MSMQ), world.node("b", MSMQ)
    a.send(b, "q", b"x")
    world.run(SECOND)
    for node in (a, b):
        (opened,) = node.log("session_opened")
        assert opened["ack_timeout_min_ns"] == in_ns(seconds)


@pytest.mark.parametrize(
    ("address", "traits"),
    [("udp://x:1", UDP), ("tcp://x:1", TCP), ("memory://x", MEMORY), ("udp:", UDP), ("x", MEMORY)],
)
def test_the_scheme_of_an_address_says_what_its_path_is(address: str, traits: PathTraits) -> None:
    assert traits_of(address) == traits
