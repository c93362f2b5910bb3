"""Machines and their work: every setting that a node can have is drawn now and then."""

from random import Random

from triack.tools.chaos.machines import draw_host, draw_stream, draw_streams


def test_machines_differ_in_what_their_settings_allow() -> None:
    """From a window of one packet to one that follows its path, from no cache to a large one."""
    hosts = [draw_host(Random(seed), "a", "udp") for seed in range(60)]
    assert {host.address for host in hosts} == {"udp://a:1"}
    assert {host.settings.session.max_unacked_packet for host in hosts} >= {1, 2, 3, 8, 64, "auto"}
    assert {host.settings.body_cache_bytes for host in hosts} >= {0, 4_000}
    assert {host.transactional for host in hosts} == {True, False}


def test_each_stream_has_a_queue_and_two_ends() -> None:
    """A forwarding one has its source before it."""
    for seed in range(60):
        streams = draw_streams(Random(seed), 3)
        assert len({stream.queue for stream in streams}) == len(streams)
        for index, stream in enumerate(streams):
            assert stream.sender != stream.receiver
            assert stream.source < index


def test_a_stream_goes_where_it_should() -> None:
    """And has a class."""
    stream = draw_stream(Random(1), 2, 0, "express")
    assert (stream.sender, stream.receiver, stream.delivery, stream.source) == (2, 0, "express", -1)
