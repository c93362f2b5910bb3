"""The history finds each kind of broken promise, and nothing where none is broken."""

from typing import Any, Self

import pytest

from triack.tools.chaos.history import READ, SENT, History, Part, StreamHistory, body_of, identify

SIZE = 40


class Told:
    """What applications saw, step by step."""

    def __init__(self, accepted: int = 0, *, ordered: bool = True, durable: bool = True, **marks: Any) -> None:
        expires, journals = marks.pop("expires", False), marks.pop("journals", frozenset())
        self.seen = History([StreamHistory("s", ordered, durable, expires, journals=journals)])
        for name, value in marks.items():
            setattr(self.seen.streams[0], name, value)
        if accepted:
            self.accept(0, accepted)

    def accept(self, first: int, end: int) -> Self:
        self.seen.accepted(self.seen.submitted([Part(0, first, end)]))
        return self

    def submit(self, first: int, end: int) -> Self:
        """Whether it was accepted stays unknown."""
        self.seen.submitted([Part(0, first, end)])
        return self

    def hand(self, *numbers: int, again: bool = False, reader: int | None = None, at_ms: int = 0) -> Self:
        for number in numbers:
            self.seen.handed(0, number, body_of(0, number, SIZE), redelivered=again, reader=reader, at_ms=at_ms)
        return self

    def ack(self, *numbers: int) -> Self:
        self.seen.acknowledged(0, [*numbers])
        return self

    def back(self, number: int) -> Self:
        self.seen.gave_back(0, number)
        return self

    def limit(self, number: int, at_ms: int) -> Self:
        self.seen.limited(0, number, at_ms)
        return self

    def bury(self, number: int, *reason: str, maybe: bool = True) -> Self:
        self.seen.buried(0, number, body_of(0, number, SIZE), *reason, maybe_delivered=maybe)
        return self

    def claim(self, number: int, stage: str) -> Self:
        self.seen.claimed(0, number, stage)
        return self

    def copy(self, kind: str, *numbers: int, again: bool = False) -> Self:
        for number in numbers:
            self.seen.copied(0, number, body_of(0, number, SIZE), kind, redelivered=again)
        return self


def handed_back(*, set_so: bool, maybe: bool) -> Told:
    return Told(1, hands_back=set_so).bury(0, "session-lost", maybe=maybe)


EXPRESS: dict[str, Any] = {"durable": False, "ordered": False}
FULL: dict[str, Any] = {"refusals": frozenset({"queue-full"})}
STALE: dict[str, Any] = {"ordered": False, "relayed": True}
BAD: dict[str, Any] = {"suspected": frozenset({"bad-seal"})}
TWICE = {"unknown-outcome", "total-queue"}


def refused(*handed: int, maybe: bool = False) -> Told:
    """The second of three has no room."""
    return Told(3, **FULL).hand(*handed).bury(1, "queue-full", maybe=maybe)


STORIES: dict[str, tuple[Told, set[str]]] = {
    "all in order": (Told(10).hand(*range(10)).ack(*range(10)), set()),
    "never sent": (Told().hand(3), {"queue"}),
    "lost": (Told(2).hand(0), {"total-queue", "unknown-outcome"}),
    "a dead letter": (Told(2, expires=True).hand(0).bury(1, "reach-queue-timeout"), set()),
    "a dead letter without a reason": (Told(1).bury(0), {"total-queue"}),
    "handed back in doubt": (handed_back(set_so=True, maybe=True), set()),
    "handed back without doubt": (handed_back(set_so=True, maybe=False), {"total-queue"}),
    "handed back though not set so": (handed_back(set_so=False, maybe=True), {"total-queue"}),
    "received in time": (Told(1).limit(0, 1_000).hand(0, at_ms=999), set()),
    "received late": (Told(1).limit(0, 1_000).hand(0, at_ms=1_000), {"in-time"}),
    "refused": (refused(0, 2), set()),
    "refused and perhaps delivered": (refused(0, 2, maybe=True), {"refusals"}),
    "refused and handed out": (refused(0, 1, 2), {"refusals"}),
    "refused and claimed": (refused(0, 2).claim(1, "ordered"), {"claims"}),
    "refused by a later process": (Told(1, **EXPRESS, **FULL).hand(0).bury(0, "queue-full"), set()),
    "refused for a reason that nobody has": (Told(1, expires=True).bury(0, "queue-full", maybe=False), {"total-queue"}),
    "an ended stream at a relay": (Told(1, **STALE).hand(0).bury(0, "stale-sequence", maybe=True), set()),
    "that for certain": (Told(1, **STALE).hand(0).bury(0, "stale-sequence", maybe=False), {"total-queue"}),
    "kept back by a relay": (Told(2, **BAD).hand(1).bury(0, "bad-seal").hand(0, reader=1), set()),
    "forbidden and handed out": (Told(1, forbidden=True).hand(0), {"permission"}),
    "forbidden and claimed": (Told(1, **EXPRESS, forbidden=True).claim(0, "received"), {"claims"}),
    "express messages may be lost": (Told(2, **EXPRESS), set()),
    "so may those of an excused stream": (Told(2, excused="damage noticed"), set()),
    "and those that were never accepted": (Told().submit(0, 2), set()),
    "half a batch": (Told().submit(0, 2).hand(0), {"unknown-outcome"}),
    "a gap that is filled later": (Told(3).hand(0, 2, 1), {"prefix"}),
    "swapped": (Told(2).hand(1, 0), {"prefix"}),
    "without an order": (Told(3, ordered=False).hand(0, 2, 1), set()),
    "a gap of what was never accepted": (Told(1).submit(1, 3).accept(3, 4).hand(0, 3), set()),
    "again, and it says so": (Told(1).hand(0).hand(0, again=True), set()),
    "again without a word": (Told(1).hand(0, 0), {"hand-over"}),
    "again after its acknowledgement": (Told(1).hand(0).ack(0).hand(0, again=True), {"hand-over"}),
    "again at a reader that keeps its position": (Told(3).hand(0, reader=-1).hand(0, again=True, reader=-1), TWICE),
    "a reader whose position says more": (Told(1).hand(0, reader=-1).hand(0, again=True, reader=0), {"exactly-once"}),
    "given back": (Told(2).hand(0).back(0).hand(0, again=True).hand(1), set()),
    "given back behind a younger one": (Told(3).hand(0, 1).back(1).hand(2), {"hand-over"}),
    "a position that was stored": (Told(2).hand(0, reader=-1).ack(0).hand(1, reader=0), set()),
    "a forgotten position": (Told(3).hand(0, reader=-1).ack(0).hand(1, reader=0).hand(2, reader=-1), {"exactly-once"}),
    "a receipt that is not true": (Told(1).claim(0, "ordered"), {"claims", "total-queue"}),
}


@pytest.mark.parametrize(("told", "broken"), STORIES.values(), ids=STORIES)
def test_each_story_breaks_what_it_breaks(told: Told, broken: set[str]) -> None:
    told.seen.finish()
    assert {rule for rule, _ in told.seen.violations} == broken


def test_bodies_say_which_they_are() -> None:
    bodies = body_of(3, 17, 200), body_of(3, 17, 1), b"what is this?", b""
    assert [*map(identify, bodies)] == [(3, 17), (3, 17), (-1, -1), (-1, -1)]


@pytest.mark.parametrize(
    "body", [body_of(0, 0, SIZE)[:-1] + b"!", *(body_of(0, 0, it) for it in (SIZE - 1, SIZE + 32, 0))]
)
def test_what_was_altered_cut_or_made_longer(body: bytes) -> None:
    """A single byte is enough. Of a large dead letter only the beginning is there."""
    seen = Told(1).seen
    seen.sized(0, 0, SIZE)
    seen.handed(0, 0, body, redelivered=False, reader=None)
    assert [rule for rule, _ in seen.violations] == ["queue"]
    seen.copied(0, 0, body, READ, redelivered=False)
    assert len(seen.violations) == 1 + (body != body_of(0, 0, 0))


def test_a_message_of_a_stream_that_does_not_exist() -> None:
    seen = Told().seen
    seen.handed(5, 3, body_of(5, 3, SIZE), redelivered=False, reader=None)
    assert [rule for rule, _ in seen.violations] == ["queue"]


def test_what_was_given_back_and_has_expired_comes_no_more() -> None:
    told = Told(3, expires=True).limit(0, 1_000).hand(0, at_ms=500).back(0).hand(1, at_ms=1_500).back(0)
    told.bury(0, "receive-timeout").bury(2, "receive-timeout")
    assert [rule for rule, _ in told.seen.violations] == ["total-queue"]


def test_a_reader_that_was_taken_back() -> None:
    """May see again what came after the copy, and must see it."""
    told = Told(4).hand(0, 1)
    mark = told.seen.handed_out(0)
    told.hand(2).ack(0, 1, 2)
    told.seen.take_back_reader(0, mark)
    assert told.seen.missing(0) == [2, 3]
    told.hand(2, 3).seen.finish()
    assert told.seen.violations == []


def test_a_sender_that_was_taken_back() -> None:
    """Messages that it accepted since may be gone; those that it accepts from now on may not."""
    told = Told(2)
    mark = told.seen.accepted_up_to(0)
    told.accept(2, 4).seen.take_back_sender(0, mark)
    told.accept(4, 5).hand(0, 1)
    assert told.seen.missing(0) == [4]
    told.hand(4).seen.finish()
    assert told.seen.violations == []


def read() -> Told:
    """Three messages that arrived and were acknowledged."""
    return Told(3, journals=frozenset({READ, SENT})).hand(0, 1, 2).ack(0, 1, 2)


def odd() -> Told:
    told = read().submit(3, 4).copy(SENT, 0, 1, 2, 2).copy(READ, 0, 1, 2, 3)
    told.seen.copied(0, 0, b"000:00000000: nonsense", SENT, redelivered=True)
    told.seen.copied(0, 9, b"", SENT, redelivered=False)
    return told


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (read().copy(READ, 0, 1, 2).copy(SENT, 0, 1, 2).copy(READ, 0, again=True).copy(SENT, 0, again=True), []),
        (read().bury(1).copy(READ, 0, 1, 2).copy(SENT, 0, 2), []),  # a dead letter was not sent
        (
            read().copy(READ, 0, 2).copy(SENT, 0, 1),
            [
                "1 messages that were read are in no journal, the first is 1",
                "1 messages that were sent are in no journal, the first is 2",
            ],
        ),
        (
            odd(),
            [
                "2 is in a journal of messages that were sent twice",
                "3 is in the journal of its queue and was never handed out",
                "0 was altered on its way to a journal",
                "9 is in a journal but was never sent",
            ],
        ),
    ],
    ids=["whole", "dead", "missing", "twice, unread, altered, unsent"],
)
def test_each_copy_is_in_its_journal_once(told: Told, said: list[str]) -> None:
    told.seen.finish()
    assert [sentence.partition(": ")[2] for rule, sentence in told.seen.violations if rule == "journal"] == said
