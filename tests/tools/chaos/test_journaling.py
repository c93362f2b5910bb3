"""Journals of chaos runs: all kinds are drawn, and the history knows what has to be in them."""

from triack.queues.mailboxes.quotas import NO_LIMIT
from triack.queues.node_settings import Journal
from triack.tools.chaos.drawing import draw
from triack.tools.chaos.history import READ, SENT, History, Part, StreamHistory, body_of
from triack.tools.chaos.plan import DISHONEST


def test_both_kinds_are_drawn_with_all_that_may_happen_when_they_are_full() -> None:
    """Limited and not; never where a disk lies."""
    kinds: set[tuple[str, str, bool]] = set()
    for plan in map(draw, range(120)):
        limits = [host.settings.limits for host in plan.hosts]
        journals = [(READ, it) for one in limits for it in one.queue_journal.values()]
        journals += [(SENT, one.sent_journal) for one in limits if one.sent_journal != Journal()]
        if any(fault.kind in DISHONEST for fault in plan.faults):
            assert not journals
        kinds |= {(kind, journal.when_full, journal.messages == NO_LIMIT) for kind, journal in journals}
        assert any(kind == SENT for kind, _ in journals) == any(stream.journal for stream in plan.streams)
    assert kinds == {(kind, full, limit) for kind in (READ, SENT) for full in FULL for limit in (True, False)}


FULL = ("drop oldest", "stop", "hold")


def history() -> History:
    """One stream with three messages that arrived and were acknowledged."""
    seen = History([StreamHistory("s", ordered=True, durable=True, expires=False, journals=frozenset({READ, SENT}))])
    seen.accepted(seen.submitted([Part(0, 0, 3)]))
    for number in range(3):
        seen.handed(0, number, body_of(0, number, 20), redelivered=False, reader=None)
    seen.acknowledged(0, [0, 1, 2])
    return seen


def copied(seen: History, *numbers: int, kind: str, redelivered: bool = False) -> None:
    for number in numbers:
        seen.copied(0, number, body_of(0, number, 20), kind, redelivered=redelivered)


def said(seen: History) -> list[str]:
    seen.finish()
    return [sentence.partition(": ")[2] for rule, sentence in seen.violations if rule == "journal"]


def test_complete_journals_are_no_violation() -> None:
    """A copy that comes again is marked."""
    seen = history()
    for kind in (READ, SENT):
        copied(seen, 0, 1, 2, kind=kind)
        copied(seen, 0, kind=kind, redelivered=True)
    assert said(seen) == []


def test_a_missing_copy_is_found() -> None:
    seen = history()
    copied(seen, 0, 2, kind=READ)
    copied(seen, 0, 1, kind=SENT)
    assert said(seen) == [
        "1 messages that were read are in no journal, the first is 1",
        "1 messages that were sent are in no journal, the first is 2",
    ]


def test_a_dead_letter_was_not_sent() -> None:
    seen = history()
    seen.buried(0, 1, body_of(0, 1, 20))
    copied(seen, 0, 1, 2, kind=READ)
    copied(seen, 0, 2, kind=SENT)
    assert said(seen) == []


def test_two_copies_and_altered_and_unread_ones_are_found() -> None:
    seen = history()
    seen.submitted([Part(0, 3, 4)])
    copied(seen, 0, 1, 2, 2, kind=SENT)
    copied(seen, 0, 1, 2, 3, kind=READ)
    seen.copied(0, 0, b"000:00000000: nonsense", SENT, redelivered=True)
    seen.copied(0, 9, b"", SENT, redelivered=False)
    assert said(seen) == [
        "2 is in a journal of messages that were sent twice",
        "3 is in the journal of its queue and was never handed out",
        "0 was altered on its way to a journal",
        "9 is in a journal but was never sent",
    ]
