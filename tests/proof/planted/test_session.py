"""The session's bugs: each is put where the session, or what opens it, has something to get wrong."""

import pytest

from proof.planted.bug import Bug
from proof.planted.catalogue import bug_named
from proof.planted.session import BUGS
from tests.proof.planted.changes import changes_of
from triack.session.congestion.rtt import RoundTrip
from triack.session.congestion.send_window import SendWindow


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_each_still_changes_something(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a name that is there, and with what can be called as the right one is."""
    assert len(changes_of(bug, monkeypatch)) == 1


def test_a_window_off_by_one_has_room_for_one_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no less than the right one has."""
    window = SendWindow(3, RoundTrip(), None)
    right = window.room
    changes_of(bug_named("the window is off by one"), monkeypatch)
    assert (right, window.room) == (3, 4)
