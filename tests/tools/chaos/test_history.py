"""The history finds each kind of broken promise, and nothing where none is broken."""

import pytest

from triack.tools.chaos.history import Batch, History, Part, StreamHistory, body_of, identify

SIZE = 40


def history(accepted: int = 0, *, ordered: bool = True, durable: bool = True, expires: bool = False) -> History:
    seen = History([StreamHistory("s", ordered, durable, expires)])
    if accepted:
        accept(seen, 0, accepted)
    return seen


def accept(seen: History, first: int, end: int) -> Batch:
    batch = seen.submitted([Part(0, first, end)])
    seen.accepted(batch)
    return batch


def hand(seen: History, *numbers: int, again: bool = False, reader: int | None = None) -> None:
    for number in numbers:
        seen.handed(0, number, body_of(0, number, SIZE), redelivered=again, reader=reader)


def rules(seen: History) -> set[str]:
    seen.finish()
    return {rule for rule, _ in seen.violations}


def test_a_good_story_has_no_violations() -> None:
    """Accepted, handed out in order, acknowledged."""
    seen = history(10)
    hand(seen, *range(10))
    seen.acknowledged(0, list(range(10)))
    assert rules(seen) == set()


def test_bodies_say_which_they_are() -> None:
    """At any size, and nothing else passes for one."""
    assert identify(body_of(3, 17, 200)) == (3, 17)
    assert identify(body_of(3, 17, 1)) == (3, 17)
    assert identify(b"what is this?") == (-1, -1)
    assert identify(b"") == (-1, -1)


def test_what_was_never_sent() -> None:
    """Neither from a stream that exists, nor from one that does not."""
    for stream in (0, 5):
        seen = history()
        seen.handed(stream, 3, body_of(stream, 3, SIZE), redelivered=False, reader=None)
        assert rules(seen) == {"queue"}


def test_what_was_altered() -> None:
    """A single byte is enough."""
    seen = history(1)
    seen.handed(0, 0, body_of(0, 0, SIZE)[:-1] + b"!", redelivered=False, reader=None)
    assert rules(seen) == {"queue"}


@pytest.mark.parametrize("size_bytes", [SIZE - 1, SIZE + 32, 0])
def test_what_was_cut_or_made_longer(size_bytes: int) -> None:
    """The bytes that are there are right. Of a large dead letter only the beginning is."""
    seen = history(1)
    seen.sized(0, 0, SIZE)
    seen.handed(0, 0, body_of(0, 0, size_bytes), redelivered=False, reader=None)
    assert rules(seen) == {"queue"}
    seen.violations.clear()
    seen.copied(0, 0, body_of(0, 0, size_bytes), "read", redelivered=False)
    assert bool(seen.violations) == bool(size_bytes)


def test_what_was_lost() -> None:
    """Accepted and nowhere; a dead letter is somewhere, if there was a reason."""
    seen = history(2)
    hand(seen, 0)
    assert seen.missing(0) == [1]
    assert rules(seen) == {"total-queue", "unknown-outcome"}
    seen = history(2, expires=True)
    hand(seen, 0)
    seen.buried(0, 1, body_of(0, 1, SIZE), "reach-queue-timeout")
    assert rules(seen) == set()
    seen = history(1)
    seen.buried(0, 0, body_of(0, 0, SIZE))
    assert "total-queue" in rules(seen)


def test_what_is_handed_back_is_in_doubt() -> None:
    """And only where the sender's node is set so."""
    for hands_back, maybe, broken in (
        (True, True, set()),
        (True, False, {"total-queue"}),
        (False, True, {"total-queue"}),
    ):
        seen = history(1)
        seen.streams[0].hands_back = hands_back
        seen.buried(0, 0, body_of(0, 0, SIZE), "session-lost", maybe_delivered=maybe)
        assert rules(seen) - {"unknown-outcome"} == broken


def test_what_is_to_be_received_in_time() -> None:
    """Is handed out before, or a dead letter; what was given back and has expired comes no more."""
    for at_ms, broken in ((999, set()), (1_000, {"in-time"})):
        seen = history(1)
        seen.limited(0, 0, 1_000)
        seen.handed(0, 0, body_of(0, 0, SIZE), redelivered=False, reader=None, at_ms=at_ms)
        assert rules(seen) == broken
    seen = history(3, expires=True)
    seen.limited(0, 0, 1_000)
    for number, at_ms in ((0, 500), (1, 1_500)):
        seen.handed(0, number, body_of(0, number, SIZE), redelivered=False, reader=None, at_ms=at_ms)
        seen.gave_back(0, 0)
    seen.buried(0, 0, body_of(0, 0, SIZE), "receive-timeout")
    seen.buried(0, 2, body_of(0, 2, SIZE), "receive-timeout")
    assert seen.violations[0][0] == "total-queue"
    assert len(seen.violations) == 1


def test_what_is_refused_is_a_dead_letter_and_nothing_else() -> None:
    """For a reason that its destination may have, never called perhaps delivered, handed out, or claimed."""
    for maybe, handed, claimed, broken in (
        (False, False, False, set()),
        (True, False, False, {"refusals"}),
        (False, True, False, {"refusals"}),
        (False, False, True, {"claims"}),
    ):
        seen = history(3)
        seen.streams[0].refusals = frozenset({"queue-full"})
        hand(seen, *range(3) if handed else (0, 2))
        seen.buried(0, 1, body_of(0, 1, SIZE), "queue-full", maybe_delivered=maybe)
        if claimed:
            seen.claimed(0, 1, "ordered")
        assert rules(seen) == broken
    seen = history(1, durable=False, ordered=False)
    seen.streams[0].refusals = frozenset({"queue-full"})
    hand(seen, 0)
    seen.buried(0, 0, body_of(0, 0, SIZE), "queue-full", maybe_delivered=True)
    assert rules(seen) == set()
    seen = history(1, expires=True)
    seen.buried(0, 0, body_of(0, 0, SIZE), "queue-full", maybe_delivered=False)
    assert rules(seen) == {"total-queue"}


def test_what_a_relay_holds_of_an_ended_stream_may_have_arrived() -> None:
    """It is a dead letter there, and never called not delivered."""
    for maybe, broken in ((True, set()), (False, {"total-queue"})):
        seen = history(1, ordered=False)
        seen.streams[0].relayed = True
        hand(seen, 0)
        seen.buried(0, 0, body_of(0, 0, SIZE), "stale-sequence", maybe_delivered=maybe)
        assert rules(seen) == broken


def test_what_a_relay_has_kept_back_may_come_late() -> None:
    """Its origin had given it up, as the relay had changed it on its way."""
    seen = history(2)
    seen.streams[0].suspected = frozenset({"bad-seal"})
    hand(seen, 1)
    seen.buried(0, 0, body_of(0, 0, SIZE), "bad-seal")
    hand(seen, 0, reader=1)
    assert rules(seen) == set()


def test_what_is_forbidden_is_never_handed_out() -> None:
    """Whatever became of it besides; and no receipt says that it arrived."""
    seen = history(1)
    seen.streams[0].forbidden = True
    hand(seen, 0)
    assert rules(seen) == {"permission"}
    seen = history(1, durable=False, ordered=False)
    seen.streams[0].forbidden = True
    seen.claimed(0, 0, "received")
    assert rules(seen) == {"claims"}


def test_what_may_be_lost() -> None:
    """Express messages, those of an excused stream, and those that were never accepted."""
    seen = history(2, durable=False, ordered=False)
    assert rules(seen) == set()
    seen = history(2)
    seen.streams[0].excused = "damage noticed"
    assert rules(seen) == set()
    seen = history()
    seen.submitted([Part(0, 0, 2)])
    assert rules(seen) == set()


def test_a_batch_of_unknown_outcome_is_there_as_a_whole_or_not_at_all() -> None:
    seen = history()
    seen.submitted([Part(0, 0, 2)])
    hand(seen, 0)
    assert rules(seen) == {"unknown-outcome"}


@pytest.mark.parametrize("numbers", [[0, 2, 1], [1, 0]], ids=["a gap that is filled later", "swapped"])
def test_disorder(numbers: list[int]) -> None:
    """Of a transactional stream; the others have no order."""
    seen = history(3)
    hand(seen, *numbers)
    assert "prefix" in rules(seen)
    seen = history(3, ordered=False)
    hand(seen, 0, 2, 1)
    assert rules(seen) == set()


def test_a_gap_of_what_was_never_accepted_is_none() -> None:
    """A batch that a crash took with it leaves its numbers behind."""
    seen = history(1)
    seen.submitted([Part(0, 1, 3)])
    accept(seen, 3, 4)
    hand(seen, 0, 3)
    assert rules(seen) == set()


def test_repetition() -> None:
    """A message that comes again must say so, and must not come after its acknowledgement is on disk."""
    seen = history(1)
    hand(seen, 0)
    hand(seen, 0, again=True)
    assert rules(seen) == set()
    hand(seen, 0)
    assert rules(seen) == {"hand-over"}
    seen = history(1)
    hand(seen, 0)
    seen.acknowledged(0, [0])
    hand(seen, 0, again=True)
    assert rules(seen) == {"hand-over"}


def test_a_reader_that_keeps_its_position_sees_everything_once() -> None:
    """Whatever the node says of redelivery."""
    seen = history(3)
    hand(seen, 0, reader=-1)
    hand(seen, 0, again=True, reader=-1)
    assert rules(seen) == {"unknown-outcome", "total-queue"}
    hand(seen, 0, again=True, reader=0)
    assert "exactly-once" in rules(seen)


def test_what_was_given_back_comes_before_anything_younger() -> None:
    """And may come again as often as it is given back."""
    seen = history(3)
    hand(seen, 0)
    seen.gave_back(0, 0)
    hand(seen, 0, again=True)
    hand(seen, 1)
    assert not seen.violations
    seen.gave_back(0, 1)
    hand(seen, 2)
    assert rules(seen) == {"hand-over"}


def test_a_position_that_was_stored_is_not_forgotten() -> None:
    """The store must say at least what was committed."""
    seen = history(3)
    hand(seen, 0, reader=-1)
    seen.acknowledged(0, [0])
    hand(seen, 1, reader=0)
    assert not seen.violations
    hand(seen, 2, reader=-1)
    assert "exactly-once" in rules(seen)


def test_a_receipt_must_be_true() -> None:
    """A message that it said is ordered has arrived."""
    seen = history(1)
    seen.claimed(0, 0, "ordered")
    assert "claims" in rules(seen)


def test_a_reader_that_was_taken_back() -> None:
    """May see again what came after the copy, and must see it."""
    seen = history(4)
    hand(seen, 0, 1)
    mark = seen.handed_out(0)
    hand(seen, 2)
    seen.acknowledged(0, [0, 1, 2])
    seen.take_back_reader(0, mark)
    assert seen.missing(0) == [2, 3]
    hand(seen, 2, 3)
    assert rules(seen) == set()


def test_a_sender_that_was_taken_back() -> None:
    """Messages that it accepted since may be gone; those that it accepts from now on may not."""
    seen = history(2)
    mark = seen.accepted_up_to(0)
    accept(seen, 2, 4)
    seen.take_back_sender(0, mark)
    accept(seen, 4, 5)
    hand(seen, 0, 1)
    assert seen.missing(0) == [4]
    hand(seen, 4)
    assert rules(seen) == set()
