"""Datagrams that came together: only what has opened counts."""

from typing import Any, cast

from triack.base.datagram import Header, Kind, Opened
from triack.queues.manager.burst import Burst


def test_the_newest_header_is_that_of_what_has_opened() -> None:
    """The counter of a datagram that has not opened is no fact."""
    burst = Burst(cast(Any, None), Header(Kind.DATA, 7, 99, 0))
    assert burst.newest.counter == -1
    burst.add(Opened([4, 3], [b"abc", b"de"], []), 10)
    burst.add(Opened([], [], []), 10)
    assert (burst.payloads, burst.counters, burst.size_bytes) == ([b"abc", b"de"], [4, 3], 25)
    assert (burst.newest.counter, burst.newest.connection_id) == (4, 7)
