"""The life of an outgoing stream."""

from triack.base.transitions import next_state
from triack.queues.streams.stream_state import TRANSITIONS, StreamEvent, StreamState


def test_no_stream_goes_back() -> None:
    assert all(after > state for state, row in TRANSITIONS.items() for after in row.values())


def test_a_stream_with_a_peer_and_one_without() -> None:
    """The second has nobody to tell."""
    state = StreamState.LIVE
    for event in (StreamEvent.ENDS, StreamEvent.END_STORED, StreamEvent.FORGOTTEN, StreamEvent.ROW_DELETED):
        state = next_state(TRANSITIONS, state, event)
    assert state is StreamState.GONE
    here = next_state(TRANSITIONS, StreamState.LIVE, StreamEvent.ENDS_HERE)
    assert next_state(TRANSITIONS, here, StreamEvent.ROW_DELETED) is StreamState.GONE
