"""How far lines have come, and what the report says of those that have not."""

import pytest

import triack
from triack.node.control.intake import Chunk
from triack.tools.commands.pipes import LineTooLong
from triack.tools.commands.tally import RANGES_SHOWN, STORED, Tally, stored_but


def chunk(first: int, count: int) -> Chunk:
    """A chunk of ``count`` lines."""
    return Chunk(first, [b"x"] * count, count)


@pytest.fixture
def tally() -> Tally:
    return Tally(triack.Stage.ORDERED)


def test_all_is_done_when_the_input_has_ended_and_every_line_is_decided(tally: Tally) -> None:
    """Whichever comes last."""
    tally.handle_input(chunk(1, 3))
    tally.handle_finished(3, [])
    assert not tally.done.is_set()
    tally.handle_input(chunk(4, 2))
    tally.handle_input(None)
    assert not tally.done.is_set()
    assert (tally.read, tally.finished, tally.ended) == (5, 3, True)
    tally.handle_finished(5, [])
    assert tally.done.is_set()
    assert tally.problems("never said", 100) == []


def test_no_lines_are_done_at_once(tally: Tally) -> None:
    tally.handle_input(None)
    assert tally.done.is_set()


def test_failures_are_listed_by_their_reason(tally: Tally) -> None:
    """Those that touch as one range, even when they came apart."""
    tally.handle_input(chunk(1, 20))
    tally.handle_finished(10, [(2, 2, "expired"), (5, 6, "expired")])
    tally.handle_finished(20, [(7, 7, "expired"), (8, 8, "refused"), (20, 20, "expired")])
    tally.handle_input(None)
    assert tally.done.is_set()
    assert tally.problems("", 100) == ["lines 2, 5-7, 20 not ordered: expired", "line 8 not ordered: refused"]


def test_what_is_not_decided_has_the_reason_of_the_end(tally: Tally) -> None:
    """Read and not finished, or not read at all."""
    tally.handle_input(chunk(1, 5))
    tally.handle_finished(3, [(1, 1, "expired")])
    assert tally.problems("the node is gone", 100) == [
        "line 1 not ordered: expired",
        "lines 4-5 not ordered: the node is gone",
        "what follows line 5 was not sent: the node is gone",
    ]


def test_when_nothing_was_read_it_is_said_so(tally: Tally) -> None:
    assert tally.problems("the node is gone", 100) == [
        "nothing was read, and what comes was not sent: the node is gone"
    ]


def test_a_line_that_is_too_long_ends_the_input(tally: Tally) -> None:
    """The lines before it are waited for."""
    tally.handle_input(chunk(1, 2))
    tally.handle_input(LineTooLong(3))
    assert not tally.done.is_set()
    tally.handle_finished(2, [])
    assert tally.done.is_set()
    assert tally.problems("", 4_000) == ["line 3 is over the limit of 4000 bytes; it and what follows was not sent"]


def test_no_more_ranges_are_listed_than_can_be_read(tally: Tally) -> None:
    tally.handle_input(chunk(1, 100))
    tally.handle_finished(100, [(number, number, "expired") for number in range(1, 100, 2)])
    tally.handle_input(None)
    (said,) = tally.problems("", 100)
    assert said.startswith("lines 1, 3, 5, ")
    assert said.endswith(f", {2 * RANGES_SHOWN - 1} and {50 - RANGES_SHOWN} more ranges not ordered: expired")


def test_how_it_ended_is_also_said_as_json() -> None:
    """A file is counted as a line is."""
    tally = Tally(triack.Stage.ORDERED, "file")
    tally.handle_input(chunk(1, 5))
    tally.handle_finished(4, [(1, 2, "expired")])
    tally.handle_input(None)
    failures = [{"first": 1, "last": 2, "reason": "expired"}]
    assert tally.to_json() == {"read": 5, "stored": 0, "stage": "ordered", "reached": 2, "failures": failures}
    assert tally.problems("interrupted", 100) == ["files 1-2 not ordered: expired", "file 5 not ordered: interrupted"]


def test_what_is_stored_must_not_be_sent_again(tally: Tally) -> None:
    """Only then is the command late and no more: not with a line that nobody has, nor with one that failed."""
    tally.handle_input(chunk(1, 5))
    tally.handle_stored(3)
    tally.handle_finished(1, [])
    late = "lines 2-3 not yet ordered: not after 1 s; on the node's disk, and sent when it runs: do not send this again"
    assert tally.problems("not after 1 s", 100)[:2] == ["lines 4-5 not ordered: not after 1 s", late]
    tally.handle_stored(5)
    assert not tally.only_late
    tally.handle_input(None)
    assert tally.only_late
    assert len(tally.problems("not after 1 s", 100)) == 1
    tally.handle_finished(2, [(2, 2, "expired")])
    assert not tally.only_late


@pytest.mark.parametrize(
    ("waits_for", "what"),
    [
        ("", STORED),
        ("answer", "sent when this node runs and the peer answers, which it does not now"),
        ("restart", "not sent to that peer until the right stores are there and both nodes were started again"),
        ("key", "sent when this node trusts the peer"),
        ("address", "sent when the peer calls this node"),
        ("queue-full", "sent when there is room for it at its destination (queue-full)"),
    ],
)
def test_what_is_stored_says_what_it_waits_for(tally: Tally, waits_for: str, what: str) -> None:
    """That the node runs is not all that it takes."""
    tally.handle_input(chunk(1, 1))
    tally.handle_stored(1)
    tally.waits_for = waits_for
    told = tally.problems("suspended", 100)[0]
    assert what in told
    assert told.endswith(stored_but(waits_for))
    assert told.endswith("do not send this again")
