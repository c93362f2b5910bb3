"""How long an end may be silent, must be, and what counts as a sign of life."""

from triack.base.units import MS
from triack.tools.replay.checks.silence_check import Silence, judge_patience, judge_timeout


def at(ms: int) -> dict[str, int]:
    return {"at_ns": ms * MS}


def test_silence_begins_with_what_waits_first() -> None:
    silence = Silence()
    assert "nothing unacknowledged" in judge_timeout(silence, at(1), 10 * MS, "ack")
    silence.send(2, at(1_000))
    silence.send(3, at(1_005))
    assert "closed after 9 ms" in judge_timeout(silence, at(1_009), 10 * MS, "ack")
    assert judge_timeout(silence, at(1_010), 10 * MS, "ack") == ""
    silence.hear(at(1_010), acked=2)
    assert "closed after 9 ms" in judge_timeout(silence, at(1_019), 10 * MS, "ack")


def test_an_initiator_waits_for_its_confirmation() -> None:
    """Packets that it sends meanwhile do not begin the wait anew; any sign of life ends it."""
    silence = Silence()
    silence.ask(at(1_000))
    silence.send(1, at(1_006))
    assert judge_timeout(silence, at(1_010), 10 * MS, "ack") == ""
    silence.hear(at(1_010), acked=1)
    assert "nothing unacknowledged" in judge_timeout(silence, at(1_030), 10 * MS, "ack")


def test_the_longest_silence_counts_only_while_something_waits() -> None:
    silence = Silence()
    silence.send(1, at(1_000))
    silence.hear(at(1_300), acked=1)
    silence.hear(at(9_000))
    assert silence.longest_ns == 300 * MS
    assert judge_patience(silence, 150 * MS) == ""
    assert "open for 300 ms" in judge_patience(silence, 149 * MS)


def test_a_ping_waits_for_its_answer() -> None:
    """As a packet waits for its ack; one that an initiator sends before it was heard waits as its connect does."""
    silence = Silence()
    silence.ping(at(1_000))
    silence.ping(at(1_200))
    assert judge_timeout(silence, at(1_300), 300 * MS, "ack") == ""
    silence.hear(at(1_300))
    assert "open for 300 ms" in judge_patience(silence, 149 * MS)
    assert "nothing unacknowledged" in judge_timeout(silence, at(9_000), 300 * MS, "ack")
    initiator = Silence()
    initiator.ask(at(1_000))
    initiator.ping(at(1_200))
    initiator.hear(at(9_000))
    assert judge_patience(initiator, MS) == ""


def test_a_packet_of_an_initiator_that_was_not_heard_yet_waits_from_when_it_left() -> None:
    """A request from before may wait as a connect does; the session closes no sooner than that allows, and no later."""
    silence = Silence()
    silence.ask(at(1_000))
    silence.ping(at(1_200))
    silence.send(1, at(1_600))
    silence.send(1, at(1_800))
    assert judge_timeout(silence, at(1_900), 900 * MS, "ack") == ""
    silence.hear(at(1_900), acked=1)
    assert (judge_patience(silence, 150 * MS), silence.longest_ns) == ("", 300 * MS)
    silence.end(at(2_250))
    assert "open for 350 ms" in judge_patience(silence, 199 * MS)
