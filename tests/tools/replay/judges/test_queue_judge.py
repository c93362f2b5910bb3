"""What a queue of one node promises over its streams: the higher priority is handed out first."""

from typing import Any

from triack.tools.replay.checks.findings import Output
from triack.tools.replay.judges.queue_judge import QueueJudge, is_judged, queue_unit

NODE = "be" * 16


class Case:
    """A judge, and records of its queue; every record has a moment of its own."""

    def __init__(self) -> None:
        self.out = Output()
        self.judge = QueueJudge(NODE, self.out)
        self.n = 0
        self.start = 0
        self.begin()

    def begin(self, start: int | None = None) -> None:
        self.start = self.start + 1 if start is None else start
        self._see("life")

    def _see(self, event: str, *, at_ns: int | None = None, **fields: Any) -> None:
        self.n += 1
        common = {"event": event, "node": NODE, "incarnation": self.start, "n": self.n, "wall_ns": self.n}
        self.judge.see({**common, "at_ns": self.n if at_ns is None else at_ns, **fields})

    def _of(self, priority: int) -> dict[str, Any]:
        return {"origin": "a1" * 16, "stream": priority, "sequence": 1, "class": "recoverable", "priority": priority}

    def come(self, priority: int, first: int, last: int) -> None:
        self._see("committed", **self._of(priority), first=first, last=last, count=last - first + 1, queue="q")

    def hand(self, priority: int, number: int, *, again: bool = False, at_ns: int | None = None) -> None:
        fields = {**self._of(priority), "number": number, "place": 0, "counts": [[1, 1]], "redelivered": again}
        self._see("handed", at_ns=at_ns, **fields)

    def take_back(self, priority: int, number: int) -> None:
        # Such a record does not say the priority.
        fields = {name: value for name, value in self._of(priority).items() if name != "priority"}
        self._see("returned", **fields, number=number, place=0, counts=[[1, 1]])

    @property
    def found(self) -> list[tuple[str, int, int]]:
        return [(it.violation.check, it.violation.stream, it.violation.number) for it in self.out.findings]


def test_a_high_priority_that_is_passed_by_lower_ones_is_found() -> None:
    """Once for the message that waited."""
    case = Case()
    case.come(7, 1, 1)
    case.come(0, 1, 3)
    for number in (1, 2, 3):
        case.hand(0, number)
    case.hand(7, 1)
    assert case.found == [("priority_order", 7, 1)]


def test_what_was_drawn_before_the_commit_accuses_nobody() -> None:
    """The records of what was drawn are written later, in one batch."""
    case = Case()
    case.come(0, 1, 3)
    case.come(7, 1, 1)
    for number in (1, 2, 3):
        case.hand(0, number, at_ns=100)
    case.hand(7, 1, at_ns=101)
    assert case.found == []


def test_lower_priorities_before_and_after_are_right() -> None:
    """And those that are equal, or higher."""
    case = Case()
    case.come(0, 1, 9)
    for number in (1, 2, 3):
        case.hand(0, number)
    case.come(3, 1, 2)
    case.come(7, 1, 2)
    for priority, number in ((7, 1), (7, 2), (3, 1), (3, 2), (0, 4), (0, 5)):
        case.hand(priority, number)
    assert case.found == []


def test_a_message_that_left_in_another_way_accuses_nobody() -> None:
    """It may have expired long before its record says so."""
    case = Case()
    case.come(7, 1, 1)
    case.come(0, 1, 3)
    for number in (1, 2, 3):
        case.hand(0, number)
    case.come(7, 2, 2)
    case.hand(7, 2)
    assert case.found == []


def test_a_priority_with_a_message_that_waits_for_its_next_attempt_is_not_judged() -> None:
    """The others of its priority may have to wait with it."""
    case = Case()
    case.come(7, 1, 2)
    case.come(0, 1, 4)
    case.hand(7, 1)
    case.take_back(7, 1)
    for number in (1, 2, 3, 4):
        case.hand(0, number)
    case.hand(7, 1, again=True)
    case.hand(7, 2)
    assert case.found == []


def test_what_an_earlier_start_handed_out_may_wait_in_the_next_one() -> None:
    """Its reader may have died with it. A priority that is new is judged."""
    case = Case()
    case.come(7, 1, 1)
    case.hand(7, 1)
    case.begin()
    case.come(7, 2, 2)
    case.come(5, 1, 1)
    case.come(0, 1, 3)
    for number in (1, 2, 3):
        case.hand(0, number)
    case.hand(7, 2)
    assert case.found == []
    case.hand(5, 1)
    assert case.found == [("priority_order", 5, 1)]


def test_after_a_start_without_a_log_nothing_is_judged() -> None:
    """Nobody knows what waits since then."""
    case = Case()
    case.begin(3)
    case.come(7, 1, 1)
    case.come(0, 1, 3)
    for number in (1, 2, 3):
        case.hand(0, number)
    case.hand(7, 1)
    assert case.found == []


def test_a_large_message_waits_since_its_last_packet_came() -> None:
    """That may be one in its middle."""
    case = Case()
    case.come(7, 1, 1)
    case.come(7, 3, 3)
    case.come(0, 1, 3)
    for number in (1, 2):
        case.hand(0, number)
    case.come(7, 2, 2)
    case.hand(0, 3)
    case.hand(7, 3)
    assert case.found == []


def test_system_queues_are_read_in_the_order_of_arrival() -> None:
    """And a queue has a unit of its own, whatever its name is."""
    record = {"event": "handed", "node": NODE, "queue": "dead-letter"}
    assert not is_judged(record)
    assert not is_judged({**record, "queue": "$journal"})
    assert is_judged({**record, "queue": "q"})
    assert not is_judged({**record, "queue": "q", "event": "settled"})
    assert queue_unit({**record, "queue": "a/b"}) == ("stream", NODE, "=612f62")
