"""States of one outgoing stream, from its first packet until neither end knows of it any more.

    LIVE --ends, and has a peer--> ENDING --that is on the disk--> TOLD --the peer has forgotten it--> OVER
    LIVE --ends, and has none--> OVER --its row is deleted--> GONE

A stream ends only while nothing of it is outstanding, and nothing is sent in any state from ENDING on. What the two
ends do in each state, and why no copy of an old packet can begin a stream again, is in ``queues.streams.retirement``.
"""

from enum import IntEnum

EXPRESS_STREAMS = 1 << 31
"""Express streams are numbered from here in each life of the process; only durable ones are remembered."""


class StreamState(IntEnum):
    """State of a stream."""

    LIVE = 0
    ENDING = 1
    """No more packets will be sent; the commit that says so has not returned."""
    TOLD = 2
    """Each session tells its destination that it has ended, until the destination answers."""
    OVER = 3
    """Its destination has forgotten it; the commit that deletes its row has not returned."""
    GONE = 4


class StreamEvent(IntEnum):
    """Event of a stream."""

    ENDS = 0
    ENDS_HERE = 1
    """The same, for a stream that no other node knows of."""
    END_STORED = 2
    FORGOTTEN = 3
    ROW_DELETED = 4


TRANSITIONS: dict[StreamState, dict[StreamEvent, StreamState]] = {
    StreamState.LIVE: {StreamEvent.ENDS: StreamState.ENDING, StreamEvent.ENDS_HERE: StreamState.OVER},
    StreamState.ENDING: {StreamEvent.END_STORED: StreamState.TOLD},
    StreamState.TOLD: {StreamEvent.FORGOTTEN: StreamState.OVER},
    StreamState.OVER: {StreamEvent.ROW_DELETED: StreamState.GONE},
    StreamState.GONE: {},
}
