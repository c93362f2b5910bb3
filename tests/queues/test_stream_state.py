"""The life of an outgoing stream: what moves it, and what changes nothing."""

import pytest

from triack.queues.stream_state import TRANSITIONS, StreamEvent, StreamState, moved


@pytest.mark.parametrize("state", StreamState)
@pytest.mark.parametrize("event", StreamEvent)
def test_every_event_is_safe_in_every_state(state: StreamState, event: StreamEvent) -> None:
    """What is not in the table changes nothing; no stream ever goes back."""
    after = moved(state, event)
    assert after == TRANSITIONS[state].get(event, state)
    assert after >= state


def test_a_stream_with_a_peer_and_one_without() -> None:
    """The second has nobody to tell."""
    state = StreamState.LIVE
    for event in (StreamEvent.ENDS, StreamEvent.END_STORED, StreamEvent.FORGOTTEN, StreamEvent.ROW_DELETED):
        state = moved(state, event)
    assert state is StreamState.GONE
    here = moved(StreamState.LIVE, StreamEvent.ENDS_HERE)
    assert moved(here, StreamEvent.ROW_DELETED) is StreamState.GONE


def test_an_answer_to_what_was_not_told_means_nothing() -> None:
    for state in (StreamState.LIVE, StreamState.ENDING):
        assert moved(state, StreamEvent.FORGOTTEN) is state
