"""A table of moves, and what a candidate gets before it has answered."""

from itertools import count

import pytest

from triack.base.errors import ProtocolError
from triack.base.reasons import DropReason
from triack.base.units import MS
from triack.queues.peers.path import ANSWERS_MAX, CHALLENGE_BYTES, GIVE_UP_NS, REPEAT_NS, Paths, PathState

HOME, NEW, THIRD = "udp://a:1", "udp://a:2", "udp://evil:1"
SIZE = 44
"""A challenge as a datagram."""


class Seen:
    """The paths of a conversation at ``HOME``, and a clock."""

    def __init__(self) -> None:
        self.paths = Paths()
        self.now_ns = 0
        self._draws = count(1)

    def come(self, sender: str, size_bytes: int = 100, *, newest: bool = True) -> None:
        self.paths.handle_datagram(HOME, sender, size_bytes, newest=newest, draw=self._draw, now_ns=self.now_ns)

    def _draw(self, size_bytes: int) -> bytes:
        return next(self._draws).to_bytes(size_bytes, "big")

    def ask(self, later_ns: int = 0) -> tuple[str, bytes] | None:
        self.now_ns += later_ns
        return self.paths.poll_challenge(SIZE, self.now_ns)


def question(number: int) -> bytes:
    return number.to_bytes(CHALLENGE_BYTES, "big")


@pytest.fixture
def seen() -> Seen:
    return Seen()


def test_who_stays_where_it_is_is_asked_nothing(seen: Seen) -> None:
    seen.come(HOME)
    assert (seen.ask(), seen.paths.next_deadline(), seen.paths.state) == (None, None, PathState.SETTLED)


def test_the_newest_from_elsewhere_is_asked_once(seen: Seen) -> None:
    seen.come(NEW)
    assert seen.ask() == (NEW, question(1))
    assert seen.ask() is None
    assert seen.paths.next_deadline() == REPEAT_NS


def test_it_is_there_when_it_answers_from_there(seen: Seen) -> None:
    seen.come(NEW)
    seen.ask()
    seen.paths.handle_response(question(1), NEW)
    assert (seen.paths.state, seen.paths.candidate, seen.paths.next_deadline()) == (PathState.SETTLED, "", None)


@pytest.mark.parametrize(
    ("answer", "sender"), [(question(1), HOME), (question(1), THIRD), (question(2), NEW), (b"", NEW)]
)
def test_no_other_answer_counts(seen: Seen, answer: bytes, sender: str) -> None:
    seen.come(NEW)
    seen.ask()
    with pytest.raises(ProtocolError) as caught:
        seen.paths.handle_response(answer, sender)
    assert caught.value.reason is DropReason.UNEXPECTED_RESPONSE
    assert seen.paths.candidate == NEW


def test_nothing_is_an_answer_when_nothing_was_asked(seen: Seen) -> None:
    with pytest.raises(ProtocolError):
        seen.paths.handle_response(b"", "")


def test_an_old_datagram_from_elsewhere_says_nothing(seen: Seen) -> None:
    """It was under way, or somebody has kept it."""
    seen.come(NEW, newest=False)
    assert seen.paths.state is PathState.SETTLED


def test_another_transport_is_another_session(seen: Seen) -> None:
    seen.come("tcp://a:1")
    assert seen.paths.state is PathState.SETTLED


def test_it_is_forgotten_when_the_peer_speaks_by_the_old_path(seen: Seen) -> None:
    """Somebody had sent its datagram on; an old one by the old path is no sign."""
    seen.come(THIRD)
    seen.come(HOME, newest=False)
    assert seen.paths.candidate == THIRD
    seen.ask()
    seen.come(HOME)
    with pytest.raises(ProtocolError):
        seen.paths.handle_response(question(1), THIRD)


def test_there_is_one_candidate_and_a_later_one_takes_its_place(seen: Seen) -> None:
    seen.come(NEW)
    seen.ask()
    seen.come(THIRD)
    assert seen.ask() == (THIRD, question(2))
    with pytest.raises(ProtocolError):
        seen.paths.handle_response(question(1), NEW)
    seen.come(NEW, newest=False)
    assert seen.paths.candidate == THIRD


def test_it_gets_three_times_what_came_from_it_and_no_more(seen: Seen) -> None:
    """However often it is asked; what comes from there later, old or new, counts too."""
    seen.come(NEW, SIZE)
    asked = [seen.ask(REPEAT_NS) for _ in range(8)]
    assert sum(challenge is not None for challenge in asked) == 3
    seen.come(NEW, SIZE // 2, newest=False)
    assert [seen.ask(MS), seen.ask(REPEAT_NS)] == [(NEW, question(1)), None]


def test_who_does_not_answer_is_given_up(seen: Seen) -> None:
    """And begins again when something newer comes from there."""
    seen.come(NEW)
    seen.ask()
    seen.ask(GIVE_UP_NS)
    assert seen.paths.state is PathState.SETTLED
    seen.come(NEW)
    assert seen.ask() == (NEW, question(2))


def test_a_challenge_is_answered_to_where_it_came_from(seen: Seen) -> None:
    """Each of a few; of many that come together, the newest."""
    assert seen.paths.poll_answer() is None
    seen.paths.handle_challenge(question(1), HOME)
    seen.paths.handle_challenge(question(2), NEW)
    assert [seen.paths.poll_answer() for _ in range(3)] == [(HOME, question(1)), (NEW, question(2)), None]
    for number in range(ANSWERS_MAX + 1):
        seen.paths.handle_challenge(question(number), NEW)
    assert seen.paths.poll_answer() == (NEW, question(1))


@pytest.mark.parametrize("size_bytes", [0, CHALLENGE_BYTES - 1, CHALLENGE_BYTES + 1, 1_000])
def test_a_challenge_of_another_length_is_none(seen: Seen, size_bytes: int) -> None:
    with pytest.raises(ProtocolError) as caught:
        seen.paths.handle_challenge(bytes(size_bytes), HOME)
    assert caught.value.reason is DropReason.BAD_FRAME
    assert seen.paths.poll_answer() is None
