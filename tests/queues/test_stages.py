"""Which stage a message has reached, for those who ask."""

import pytest

from triack.base.delivery import FREED_BY, Ack, Delivery, Role
from triack.ordering.outgoing import StreamPacket, StreamPacketState
from triack.queues import stages
from triack.queues.stages import DONE_MAX, PRUNE_AT, STAGES, Stage, StageTracker
from triack.session.protocol.frames import Ask

STAGE_OF = {Ack.SESSION: Stage.RECEIVED, Ack.STORE: Stage.STORED, Ack.ORDER: Stage.ORDERED}


class Book:
    """A receipt book with packets of ``tickets`` messages each."""

    def __init__(self, packets: int, tickets: int = 1) -> None:
        self.book = StageTracker()
        self.entries = [StreamPacket(at + 1, b"", 0, tickets, at * tickets, tickets) for at in range(packets)]
        for entry in self.entries:
            self.book.add([entry])
        self.book.handle_queued(packets * tickets)

    def wait(self, ticket: int, stage: Stage = Stage.ORDERED) -> list[str | None]:
        said: list[str | None] = []
        self.book.wait(ticket, stage, said.append)
        return said

    def finish(self, at: int) -> None:
        self.entries[at].state = StreamPacketState.DONE
        self.book.handle_progress([self.entries[at]], Stage.ORDERED)

    def remove(self, at: int, reason: str) -> None:
        self.entries[at].state = StreamPacketState.DONE
        self.book.handle_removed(self.entries[at], reason)


def test_every_class_ends_with_the_ack_that_frees_it() -> None:
    """The two tables agree."""
    assert {delivery: STAGE_OF[ack] for (delivery, role), ack in FREED_BY.items() if role is Role.ORIGIN} == STAGES
    assert set(STAGES) == set(Delivery)


def test_stages_come_one_after_the_other() -> None:
    """Each waiter hears of its own stage, once, and only then."""
    book = Book(1)
    entry = book.entries[0]
    received, stored, ordered = (book.wait(0, stage) for stage in (Stage.RECEIVED, Stage.STORED, Stage.ORDERED))
    assert book.wait(0, Stage.QUEUED) == [None]
    entry.received = True
    book.book.handle_progress([entry], Stage.RECEIVED)
    assert (received, stored, ordered) == ([None], [], [])
    entry.stored = True
    book.book.handle_progress([entry], Stage.STORED)
    assert (received, stored, ordered) == ([None], [None], [])
    book.finish(0)
    book.finish(0)
    assert (received, stored, ordered) == ([None], [None], [None])


def test_nothing_is_reached_before_it_is_queued() -> None:
    """A message whose commit has not returned has no stage at all."""
    book = StageTracker()
    said: list[str | None] = []
    assert book.wait(0, Stage.QUEUED, said.append) == []
    assert said == []
    book.handle_queued(1)
    assert said == [None]


def test_a_packet_speaks_for_its_own_messages_only() -> None:
    """Ten messages a packet: the third packet is done, tickets 20 to 29 are."""
    book = Book(5, tickets=10)
    waiting = [book.wait(ticket) for ticket in range(50)]
    book.finish(2)
    assert [ticket for ticket in range(50) if waiting[ticket]] == list(range(20, 30))


def test_a_large_message_is_there_with_its_last_fragment() -> None:
    """All its packets have the same ticket."""
    book = StageTracker()
    entries = [StreamPacket(number, b"", 0, int(number == 3), 0, 1) for number in (1, 2, 3)]
    for entry in entries:
        book.add([entry])
    book.handle_queued(1)
    said: list[str | None] = []
    assert book.wait(0, Stage.ORDERED, said.append) == entries[::-1]
    for entry in entries:
        assert said == []
        entry.state = StreamPacketState.DONE
        book.handle_progress([entry], Stage.ORDERED)
    assert said == [None]


def test_who_waits_for_less_comes_before_who_waits_for_more() -> None:
    """However they came: what is asked for alone, and what is asked for beside, or after, something later."""
    for first, second in ((Stage.ORDERED, Stage.RECEIVED), (Stage.RECEIVED, Stage.ORDERED)):
        book = Book(3)
        said = {(at, stage): book.wait(at, stage) for at, stage in ((0, first), (0, second), (1, first), (2, second))}
        for entry in book.entries:
            entry.received = True
            book.book.handle_progress([entry], Stage.RECEIVED)
        assert {key for key, told in said.items() if told} == {key for key in said if key[1] is Stage.RECEIVED}
        for at in range(3):
            book.finish(at)
        assert set(map(tuple, said.values())) == {(None,)}
        later = book.wait(5, Stage.QUEUED)
        book.book.handle_queued(6)
        assert later == [None]


def test_who_no_longer_waits_hears_nothing() -> None:
    """A wait that timed out leaves nothing behind, and others still hear."""
    book = Book(1)
    said, other = book.wait(0), book.wait(0)
    gone: list[str | None] = []
    book.book.wait(0, Stage.ORDERED, gone.append)
    waiter = gone.append
    book.book.wait(0, Stage.ORDERED, waiter)
    book.book.forget(0, waiter)
    book.book.forget(7, waiter)
    assert book.book.awaits(book.entries[0], book.entries[0])
    book.finish(0)
    assert (said, other) == ([None], [None])
    assert len(gone) == 1
    assert not book.book.awaits(book.entries[0], book.entries[0])


def test_what_was_given_up_never_counts_as_delivered() -> None:
    """However many messages were given up since."""
    packets = 2 * PRUNE_AT + 100
    book = Book(packets)
    early = book.wait(0)
    for at in range(packets):
        book.remove(at, "queue-not-found")
    assert early == ["queue-not-found"]
    for ticket in (0, 1, PRUNE_AT // 2, PRUNE_AT, packets - 1):
        assert book.wait(ticket) == ["queue-not-found"], ticket
        assert book.wait(ticket, Stage.RECEIVED) == ["queue-not-found"], ticket


def test_failures_among_deliveries_never_count_as_delivered() -> None:
    """Every second message was given up, more than the book remembers one by one: it never claims too much."""
    packets = 4 * PRUNE_AT
    book = Book(packets)
    for at in range(packets):
        if at % 2:
            book.finish(at)
        else:
            book.remove(at, "expired")
    for ticket in range(0, packets, 2):
        (said,) = book.wait(ticket)
        assert said is not None, ticket
    assert book.wait(packets - 1) == [None]


@pytest.mark.parametrize(("packets", "ahead"), [(1_000, 1), (5_000, 5_000), (5_000, 300)])
def test_of_what_is_done_little_is_kept(packets: int, ahead: int) -> None:
    """However many packets a queue has sent, and however many wait: some tens of them, or an eighth."""
    book, shelf = StageTracker(), Book(packets).entries
    for at in range(packets + ahead):
        if at < packets:
            book.add([shelf[at]])
        if at >= ahead:
            shelf[at - ahead].state = StreamPacketState.DONE
            book.handle_progress([shelf[at - ahead]], Stage.ORDERED)
            waiting = min(at + 1, packets) - (at - ahead + 1)
            assert len(book._entries) - waiting <= max(DONE_MAX, len(book._entries) // 8), at  # noqa: SLF001
    assert len(book._entries) <= DONE_MAX  # noqa: SLF001


def test_what_was_delivered_long_ago_still_counts_as_delivered() -> None:
    """The book forgets old packets, not what became of them."""
    packets = 3 * PRUNE_AT
    book = Book(packets)
    for at in range(packets - 1):
        book.finish(at)
    assert book.wait(0) == [None]
    assert book.wait(packets - 2) == [None]
    assert book.wait(packets - 1) == []


@pytest.mark.parametrize("stage", [Stage.RECEIVED, Stage.STORED, Stage.ORDERED])
def test_everyone_hears_of_the_end(stage: Stage) -> None:
    """Once, with the reason."""
    book = Book(3)
    waiting = [book.wait(ticket, stage) for ticket in range(3)]
    book.book.fail_all("node closed")
    book.book.fail_all("again")
    assert waiting == [["node closed"]] * 3


def test_packets_someone_waits_for_are_known() -> None:
    """So that they can ask for their acks."""
    book = Book(3, tickets=4)
    book.wait(5)
    assert [book.book.awaits(entry, entry) for entry in book.entries] == [False, True, False]


@pytest.mark.parametrize("backwards", [False, True])
def test_a_large_message_is_looked_at_once_for_each_of_its_packets(
    monkeypatch: pytest.MonkeyPatch, *, backwards: bool
) -> None:
    """In whatever order they are acknowledged."""
    reached, looked = stages._reached, []  # noqa: SLF001 - what is counted

    def count(entry: StreamPacket, stage: Stage) -> bool:
        looked.append(entry)
        return reached(entry, stage)

    monkeypatch.setattr(stages, "_reached", count)
    book = StageTracker()
    fragments = [StreamPacket(number, b"", 0, int(number == 500), 0, 1) for number in range(1, 501)]
    for fragment in fragments:
        book.add([fragment])
    book.handle_queued(1)
    said: list[str | None] = []
    book.wait(0, Stage.RECEIVED, said.append)
    for fragment in reversed(fragments) if backwards else fragments:
        assert not said
        fragment.received = True
        book.handle_progress([fragment], Stage.RECEIVED)
    assert said == [None]
    assert len(looked) <= 2 * len(fragments)


def test_a_row_has_come_as_far_as_the_first_that_has_not() -> None:
    """Whole packets are looked at, and a row may begin and end in the midst of one."""
    book = Book(4, tickets=10)
    row = range(5, 35)
    assert book.book.reached_until(row, Stage.QUEUED) == 35
    assert book.book.reached_until(row, Stage.ORDERED) == 5
    book.finish(0)
    book.finish(2)
    assert book.book.reached_until(row, Stage.ORDERED) == 10
    book.entries[1].stored = True
    assert book.book.reached_until(row, Stage.STORED) == 30
    book.finish(1)
    book.finish(3)
    assert book.book.reached_until(row, Stage.ORDERED) == 35
    assert book.book.reached_until(range(7, 7), Stage.ORDERED) == 7
    assert book.book.reached_until(range(30, 45), Stage.QUEUED) == 40


def test_a_row_has_not_come_past_one_that_failed() -> None:
    book = Book(3, tickets=10)
    for at in (0, 2):
        book.finish(at)
    book.remove(1, "expired")
    assert book.book.reached_until(range(30), Stage.QUEUED) == 10
    assert book.book.reached_until(range(15, 30), Stage.ORDERED) == 15
    assert book.book.reached_until(range(20, 30), Stage.ORDERED) == 30


def test_a_waiter_for_an_arrival_alone_wants_its_ack_before_the_disk_has_it() -> None:
    """All others hear more of the acks that follow the commit."""
    book = Book(3)
    book.wait(0, Stage.ORDERED)
    book.wait(0, Stage.STORED)
    book.wait(1, Stage.ORDERED)
    book.wait(1, Stage.RECEIVED)
    assert [book.book.ask_of(entry) for entry in book.entries] == [Ask.WITH_STORE, Ask.AT_ONCE, Ask.NO]
