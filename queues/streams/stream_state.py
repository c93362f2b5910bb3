"""The life of one outgoing stream, from its first packet until neither end knows of it any more.

    LIVE --ends, and has a peer--> ENDING --that is on the disk--> TOLD --the peer has forgotten it--> OVER
    LIVE --ends, and has none--> OVER --its row is deleted--> GONE

A stream ends only while nothing of it is outstanding, and nothing is sent in any state from ENDING on. What the two
ends do in each state, and why no copy of an old packet can begin a stream again, ``queues.streams.retirement`` says.
"""

from enum import IntEnum

__all__ = ["END_KEY", "EXPRESS_STREAMS", "FORGOTTEN_KEY", "TRANSITIONS", "StreamEvent", "StreamState"]

EXPRESS_STREAMS = 1 << 31
"""Express streams are numbered from here in each life of the process; only durable ones are remembered."""
END_KEY = -2
"""In place of a number, among the control packets of a stream: that it has ended."""
FORGOTTEN_KEY = -3
"""The same: the answer to that. Both ends may have a stream of the same number."""


class StreamState(IntEnum):
    """Where a stream is."""

    LIVE = 0
    """Packets may be sent in it."""
    ENDING = 1
    """None will be; the commit that says so is on its way to the disk."""
    TOLD = 2
    """Its destination is told that it has ended, in each session, until it answers."""
    OVER = 3
    """Its destination has forgotten it; the commit that deletes its row is on its way to the disk."""
    GONE = 4
    """Its stream may be used again."""


class StreamEvent(IntEnum):
    """What happens to a stream."""

    ENDS = 0
    """It is chosen to end."""
    ENDS_HERE = 1
    """The same, and no other node knows of it."""
    END_STORED = 2
    """That it ends is on the disk."""
    FORGOTTEN = 3
    """Its destination has answered."""
    ROW_DELETED = 4
    """The disk does not have it any more."""


TRANSITIONS: dict[StreamState, dict[StreamEvent, StreamState]] = {
    StreamState.LIVE: {StreamEvent.ENDS: StreamState.ENDING, StreamEvent.ENDS_HERE: StreamState.OVER},
    StreamState.ENDING: {StreamEvent.END_STORED: StreamState.TOLD},
    StreamState.TOLD: {StreamEvent.FORGOTTEN: StreamState.OVER},
    StreamState.OVER: {StreamEvent.ROW_DELETED: StreamState.GONE},
    StreamState.GONE: {},
}
"""State, then what happens, then the next state."""
