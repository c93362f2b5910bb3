"""The receiver of a sequence: once, in order, with order acks and rejections."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ordering.pair import make_entry, make_header
from triack.base.delivery import Ack, Delivery
from triack.base.errors import StoreDamaged
from triack.ordering import rejections
from triack.ordering.duplicates import MAX_RANGES, DuplicateFilter
from triack.ordering.incoming import SKIPS_MAX, IncomingSequence, Outcome, Position
from triack.ordering.order_settings import OrderSettings
from triack.ordering.outgoing import OutgoingSequence
from triack.ordering.rejections import Rejections
from triack.ordering.wire import SequenceHeader

SETTINGS = OrderSettings()


def at(sequence: int, number: int, settings: OrderSettings = SETTINGS) -> IncomingSequence[str]:
    return IncomingSequence(settings, (sequence, number))


def feed(incoming: IncomingSequence[str], sequence: int, number: int, previous: int) -> tuple[Outcome, list[Position]]:
    """Hand over a packet; its token is its name. Returns what became of it, and what came out."""
    header = make_header(number, previous, sequence)
    outcome, accepted = incoming.handle_packet(header, f"{sequence}/{number}", 0)
    assert [token for _, token in accepted] == [f"{header.sequence}/{header.number}" for header, _ in accepted]
    return outcome, [(header.sequence, header.number) for header, _ in accepted]


def test_a_held_packet_that_comes_again_is_a_duplicate() -> None:
    incoming = at(1, 1)
    feed(incoming, 1, 3, 2)
    assert feed(incoming, 1, 3, 2) == (Outcome.DUPLICATE, [])
    assert feed(incoming, 1, 2, 1)[1] == [(1, 2), (1, 3)]
    assert feed(incoming, 1, 3, 2) == (Outcome.DUPLICATE, [])


def test_what_is_held_is_bounded() -> None:
    incoming = at(1, 1, OrderSettings(max_held_packets=2))
    assert feed(incoming, 1, 3, 2)[0] is Outcome.OUT_OF_ORDER
    assert feed(incoming, 1, 4, 3)[0] is Outcome.OUT_OF_ORDER
    assert feed(incoming, 1, 5, 4)[0] is Outcome.HOLD_FULL
    assert feed(incoming, 1, 2, 1)[1] == [(1, 2), (1, 3), (1, 4)]
    assert feed(incoming, 1, 5, 4) == (Outcome.ACCEPTED, [(1, 5)])


def test_a_held_packet_that_was_given_up_does_not_block_those_after_it() -> None:
    """6 is held and then given up together with 5; 7 says so, and follows 4."""
    incoming = at(1, 3)
    feed(incoming, 1, 6, 5)
    feed(incoming, 1, 7, 6)
    feed(incoming, 1, 7, 4)
    assert feed(incoming, 1, 4, 3)[1] == [(1, 4), (1, 7)]
    assert incoming.held == 0
    assert feed(incoming, 1, 8, 7)[1] == [(1, 8)]


def test_an_older_sequence_never_replaces_what_is_held_of_a_newer() -> None:
    """Nor is it released in its place: the position never goes back."""
    incoming = at(5, 7)
    feed(incoming, 6, 3, 2)
    assert feed(incoming, 5, 10, 9) == (Outcome.HOLD_FULL, [])
    feed(incoming, 6, 10, 9)
    assert feed(incoming, 5, 10, 8) == (Outcome.HOLD_FULL, [])
    assert feed(incoming, 6, 1, 0)[1] == [(6, 1)]
    assert feed(incoming, 6, 9, 1)[1] == [(6, 9), (6, 10)]
    assert incoming.position == (6, 10)


@given(st.integers(1, 12), st.data())
def test_any_arrival_order_gives_the_sent_order_once(packets: int, data: st.DataObject) -> None:
    limit = data.draw(st.integers(1, 12))
    incoming = at(0, 0, OrderSettings(max_held_packets=limit))
    arrivals = data.draw(st.lists(st.integers(1, packets), max_size=40))
    position, held, output = 0, set[int](), list[int]()
    for number in [*arrivals, *range(1, packets + 1)]:
        outcome, accepted = feed(incoming, 1, number, number - 1)
        if number <= position or number in held:
            expected = Outcome.DUPLICATE
        elif number == position + 1:
            expected = Outcome.ACCEPTED
            held.add(number)
        elif len(held) < limit:
            expected = Outcome.OUT_OF_ORDER
            held.add(number)
        else:
            expected = Outcome.HOLD_FULL
        released = []
        while position + 1 in held:
            position += 1
            held.remove(position)
            released.append((1, position))
        assert (outcome, accepted) == (expected, released)
        assert (incoming.held, incoming.position[1]) == (len(held), position)
        output += [number for _, number in accepted]
    assert output == list(range(1, packets + 1))


STEP = st.tuples(st.sampled_from(["send", "deliver", "deliver", "remove"]), st.integers(0, 999))


@given(st.lists(STEP, max_size=80))
def test_expired_packets_leave_no_false_gap(steps: list[tuple[str, int]]) -> None:
    """A real sender gives packets up at any moment while copies of old words are under way.

    Nothing comes out twice or out of order, and when the sender has sent its last words, all it still wants is out.
    """
    out = OutgoingSequence(Delivery.TRANSACTIONAL, 1, 1, SETTINGS)
    for number in range(1, 11):
        out.append([make_entry(number)])
    incoming = at(0, 0)
    under_way: list[SequenceHeader] = []
    output: list[int] = []

    def deliver(header: SequenceHeader) -> None:
        _, accepted = incoming.handle_packet(header, "", 0)
        output.extend(accepted_header.number for accepted_header, _ in accepted)

    def send() -> None:
        entry = out.peek()
        if entry is not None:
            under_way.append(make_header(entry.number, out.previous_of(entry)))
            out.handle_sent([entry], 0)

    for step, value in steps:
        if step == "send":
            send()
        elif step == "deliver" and under_way:
            deliver(under_way[value % len(under_way)])
        elif step == "remove" and out.entries:
            out.remove(list(out.entries.values())[value % len(out.entries)])
    while out.peek() is not None:
        send()
    for header in under_way:
        deliver(header)
    assert output == sorted(set(output))
    assert set(out.entries) <= set(output)
    assert incoming.held == 0


def test_what_was_passed_over_was_never_accepted() -> None:
    """Numbers that the origin gave up are behind the position, but on no disk; only the last of them are remembered."""
    incoming = at(0, 0)
    for number, previous in ((1, 0), (5, 1), (6, 5)):
        feed(incoming, 1, number, previous)
    assert [number for number in range(1, 9) if incoming.has_accepted(make_header(number, 0, 1))] == [1, 5, 6]
    for number in range(8, 8 + 2 * SKIPS_MAX, 2):
        feed(incoming, 1, number, number - 2)
    assert [incoming.has_accepted(make_header(number, 0, 1)) for number in (3, 7, 8, 9)] == [True, False, True, False]


def test_the_first_packets_may_be_passed_over() -> None:
    incoming = at(0, 0)
    feed(incoming, 1, 5, 0)
    assert [incoming.has_accepted(make_header(number, 0, 1)) for number in (4, 5)] == [False, True]


def feed_run(incoming: IncomingSequence[str], headers: list[SequenceHeader]) -> list[Position] | None:
    """Hand over a run; the tokens are as above. Returns what came out, or None if it must be fed one by one."""
    items = [(it, f"{it.sequence}/{it.number}") for it in headers]
    judged = incoming.handle_run(headers[0], len(headers), 0, ack_requested=False, items=lambda: list(items))
    if judged is None:
        return None
    released = (items if judged[0] is Outcome.ACCEPTED else []) + judged[1]
    assert [token for _, token in released] == [f"{it.sequence}/{it.number}" for it, _ in released]
    return [(it.sequence, it.number) for it, _ in released]


RUNS = st.lists(st.tuples(st.integers(4, 6), st.integers(1, 12), st.integers(1, 3), st.integers(1, 4)), max_size=12)


@given(RUNS)
def test_a_run_is_judged_as_its_packets_would_be(runs: list[tuple[int, int, int, int]]) -> None:
    settings = OrderSettings(max_held_packets=6)
    together, alone = at(5, 2, settings), at(5, 2, settings)
    for sequence, number, step, packets in runs:
        headers = [make_header(number, max(number - step, 0), sequence)]
        headers += [make_header(it, it - 1, sequence) for it in range(number + 1, number + packets)]
        singly = [it for header in headers for it in feed(alone, sequence, header.number, header.previous)[1]]
        if (released := feed_run(together, headers)) is None:
            released = [it for header in headers for it in feed(together, sequence, header.number, header.previous)[1]]
        assert released == singly
        assert (together.position, together.held, together.held_bytes) == (alone.position, alone.held, alone.held_bytes)
        assert together.ack.pending == alone.ack.pending
        together.check_invariants()


def test_runs_are_taken_as_runs() -> None:
    incoming, headers = at(5, 7), [make_header(number, number - 1, 5) for number in range(8, 16)]
    assert feed_run(incoming, headers[4:]) == []
    assert feed_run(incoming, headers[2:4]) == []
    assert feed_run(incoming, headers[:2]) == [(5, number) for number in range(8, 16)]
    assert incoming.held == incoming.held_bytes == 0


# The filter of express and recoverable streams lets each packet through once.


def feed_filter(seen: DuplicateFilter, *numbers: int, previous: int = 0, sequence: int = 1) -> list[bool]:
    return [seen.handle_packet(make_header(number, previous, sequence)) for number in numbers]


def test_the_floor_keeps_memory_short() -> None:
    seen = DuplicateFilter()
    feed_filter(seen, *range(2, 200, 2))
    assert len(seen.encode()) == 16 + 99 * 16
    feed_filter(seen, 201, previous=200)
    assert len(seen.encode()) == 16


def test_a_newer_sequence_starts_afresh_and_ends_the_older() -> None:
    """After a reinstallation numbers begin again, under a greater id."""
    seen = DuplicateFilter()
    feed_filter(seen, 1, 2, 9)
    assert feed_filter(seen, 1, 2, sequence=5) == [True, True]
    assert feed_filter(seen, 10, sequence=1) == [False]
    assert feed_filter(seen, 1, sequence=5) == [False]
    assert seen.sequence == 5


@given(st.lists(st.integers(1, 60)), st.integers(1, 2**63))
def test_it_reads_back(numbers: list[int], sequence: int) -> None:
    seen = DuplicateFilter()
    feed_filter(seen, *numbers, sequence=sequence)
    again = DuplicateFilter.decode(seen.encode())
    assert again.encode() == seen.encode()
    assert feed_filter(again, *range(1, 62), sequence=sequence) == [number not in numbers for number in range(1, 62)]


@pytest.mark.parametrize("data", [b"", b"x" * 15, b"x" * 17, b"x" * 31])
def test_a_damaged_filter_is_refused(data: bytes) -> None:
    """Not taken for an empty one, which would let everything through again."""
    with pytest.raises(StoreDamaged):
        DuplicateFilter.decode(data)


def test_too_many_gaps_are_noticed() -> None:
    """A correct sender never leaves as many gaps."""
    seen = DuplicateFilter()
    feed_filter(seen, *range(2, 2 * MAX_RANGES, 2))
    assert not seen.full
    feed_filter(seen, 2 * MAX_RANGES)
    assert seen.full


@given(st.lists(st.tuples(st.integers(1, 20), st.booleans()), max_size=80))
def test_with_a_real_sender_nothing_wanted_is_taken_for_a_duplicate(steps: list[tuple[int, bool]]) -> None:
    out = OutgoingSequence(Delivery.RECOVERABLE, 1, 1, OrderSettings())
    for number in range(1, 21):
        out.append([make_entry(number)])
    seen, passed = DuplicateFilter(), list[int]()
    late = []
    for number, freed in [*steps, *((number, True) for number in range(1, 21))]:
        if number in out.entries:
            header = make_header(number, out.previous_of(out.entries[number]))
            late.append(header)
            passed += [number] if seen.handle_packet(header) else []
            if freed:
                assert out.handle_ack([out.entries[number]], Ack.STORE)
    passed += [header.number for header in late if seen.handle_packet(header)]
    assert sorted(passed) == list(range(1, 21))


def test_what_the_sender_gave_up_was_not_seen() -> None:
    """A packet that expired at its sender and comes all the same is not fresh, and must not be called stored."""
    seen = DuplicateFilter()
    feed_filter(seen, 1, 4, 6, previous=0)
    feed_filter(seen, 9, previous=7)
    assert [number for number in range(1, 10) if seen.has_skipped(make_header(number, 0, 1))] == [2, 3, 5, 7]
    assert feed_filter(seen, 3, 4) == [False, False]


def test_of_an_older_sequence_nothing_is_known() -> None:
    seen = DuplicateFilter()
    feed_filter(seen, 1, 2)
    assert seen.handle_packet(make_header(1, 0, 9))
    assert not seen.handle_packet(make_header(1, 0, 1))
    assert seen.has_skipped(make_header(1, 0, 1))
    assert not seen.has_skipped(make_header(1, 0, 9))


@given(st.lists(st.integers(1, 20), max_size=8), st.integers(1, 25), st.integers(0, 24), st.integers(1, 5))
def test_a_run_is_seen_as_its_packets_would_be(before: list[int], first: int, previous: int, packets: int) -> None:
    together, alone = DuplicateFilter(), DuplicateFilter()
    feed_filter(together, *before)
    feed_filter(alone, *before)
    previous = min(previous, first - 1)
    taken = together.handle_run(make_header(first, previous, 1), packets)
    if taken:
        assert all(feed_filter(alone, *range(first, first + packets), previous=previous))
    assert together.encode() == alone.encode()
    assert taken is (bool(before) and first > max(before))


# The rejections of a destination, until its origin has confirmed them.


def refuse(*numbers: int, reason: str = "no", sequence: int = 1) -> Rejections:
    found = Rejections()
    for number in numbers:
        found.add(make_header(number, number - 1, sequence), reason)
    return found


def test_neighbours_with_one_reason_are_one_run() -> None:
    found = refuse(5, 3, 4, 9)
    assert found.refused == [(3, 5, "no"), (9, 9, "no")]
    found.add(make_header(6, 5), "another")
    found.add(make_header(8, 7), "no")
    assert found.refused == [(3, 5, "no"), (6, 6, "another"), (8, 9, "no")]
    assert found.lowest == 3
    assert [found.reason_of(make_header(number, 0)) for number in (2, 3, 5, 6, 7, 8)] == [
        None, "no", "no", "another", None, "no",
    ]  # fmt: skip


def test_what_its_origin_wants_no_more_is_forgotten() -> None:
    found = refuse(1, 2, 3, 4, 5, 8)
    assert not found.forget_unwanted(1, 6, 7)
    assert not found.forget_unwanted(1, 4, 3)
    assert found.forget_unwanted(1, 2, 3)
    assert found.refused == [(1, 1, "no"), (4, 5, "no"), (8, 8, "no")]
    assert found.forget_unwanted(1, 0, 9)
    assert not found
    assert found.lowest is None


def test_another_sequence_begins_anew() -> None:
    """Nobody will ask for packets that were refused of an older one."""
    found = refuse(1, 2)
    assert not found.forget_unwanted(0, 0, 9)
    assert found.reason_of(make_header(1, 0, 2)) is None
    assert found.forget_unwanted(2, 5, 4)
    assert not found
    found = refuse(1, 2)
    found.add(make_header(7, 6, 2), "no")
    assert found.refused == [(7, 7, "no")]


def test_it_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """By runs, and not by numbers: a destination that refuses a queue refuses runs."""
    monkeypatch.setattr(rejections, "SPANS_MAX", 2)
    assert not refuse(*range(1, 1_000)).full
    assert refuse(1, 3).full


@given(st.lists(st.tuples(st.integers(1, 40), st.sampled_from(["a", "bä"]))), st.integers(0, 45), st.integers(0, 45))
def test_it_says_what_a_dictionary_says(refused: list[tuple[int, str]], first: int, last: int) -> None:
    found, model = Rejections(), dict[int, str]()
    for number, reason in refused:
        if number not in model:
            model[number] = reason
            found.add(make_header(number, 0), reason)
    found.forget_unwanted(1, first, last)
    left = {number: reason for number, reason in model.items() if not first <= number <= last}
    for again in (found, Rejections.decode(found.encode())):
        assert {n: again.reason_of(make_header(n, 0)) for n in range(1, 41)} == {n: left.get(n) for n in range(1, 41)}
        assert again.lowest == min(left, default=None)


def test_what_is_no_row_is_damage() -> None:
    row = refuse(1, 2, 9).encode()
    assert refuse().encode() == b""
    for cut in (*range(1, 8), *range(9, len(row) - 21), len(row) - 1):
        with pytest.raises(StoreDamaged, match="rejections"):
            Rejections.decode(row[:cut])
    with pytest.raises(StoreDamaged, match="rejections"):
        Rejections.decode(row[:-1] + b"\xff")
