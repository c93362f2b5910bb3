"""One stream that passes through: what is taken, what leaves and in which order, and what frees it."""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sure import sure
from triack.base.delivery import DURABLE, Ack, Delivery
from triack.ordering.departing import StreamPacketState
from triack.ordering.transit import LACKING_MAX, ON_DISK, Taken, TransitPacket, TransitSequence

FREES = {Delivery.EXPRESS: Ack.SESSION, Delivery.RECOVERABLE: Ack.STORE, Delivery.TRANSACTIONAL: Ack.STORE}


def packet(number: int, previous: int | None = None) -> TransitPacket:
    before = number - 1 if previous is None else previous
    return TransitPacket(number, b"body", 4, 1, before, 0)


def come(sequence: TransitSequence, *numbers: int) -> TransitSequence:
    """Packets come, and are stored in this order."""
    for number in numbers:
        entry = packet(number)
        sequence.add([entry])
        sequence.handle_stored([entry])
    return sequence


def passing(*numbers: int, delivery: Delivery = Delivery.TRANSACTIONAL) -> TransitSequence:
    """A stream of which these are here."""
    return come(TransitSequence(delivery, 1), *numbers)


def send(sequence: TransitSequence, limit: int = 100) -> list[int]:
    """Hand everything that may leave to a session. Returns the numbers."""
    run = sequence.peek_run(limit)
    sequence.handle_sent(run, 0, packet=1)
    return [entry.number for entry in run]


@pytest.mark.parametrize(("number", "previous", "before"), [(7, 6, 6), (7, 3, 3), (7, 9, 6), (1, 0, 0)])
def test_what_its_origin_has_given_up_lies_before_it(number: int, previous: int, before: int) -> None:
    """Whatever a neighbour says, no packet follows one that has a greater number."""
    assert TransitPacket(number, b"", 0, 1, previous, 0).before == before


@pytest.mark.parametrize("delivery", Delivery)
@pytest.mark.parametrize("ack", Ack)
def test_only_the_ack_of_its_class_frees_a_packet(delivery: Delivery, ack: Ack) -> None:
    """A relay waits for no order ack, and remembers nothing of what has left; its destination does."""
    sequence = passing(1, 2, delivery=delivery)
    send(sequence)
    freed = sequence.handle_ack([sequence.entries[1]], ack)
    assert [entry.number for entry in freed] == ([1] if ack is FREES[delivery] else [])
    assert list(sequence.entries) == ([2] if freed else [1, 2])
    assert sequence.judge(1, 1) is (Taken.FRESH if freed else Taken.DUPLICATE)


def test_a_lost_session_sends_everything_again_in_order() -> None:
    sequence = passing(1, 2)
    assert send(sequence) == [1, 2]
    sequence.handle_session_closed()
    assert send(come(sequence, 3)) == [1, 2, 3]
    assert [entry.sends for entry in sequence.entries.values()] == [2, 2, 1]


def test_the_smallest_previous_counts() -> None:
    """The origin has given up the packet before it meanwhile: it goes out again, unless it has not left yet.

    Of unordered streams nothing is said: those that the origin has freed may be on another way.
    """
    sequence, unordered = passing(5, 6), passing(5, 6, delivery=Delivery.RECOVERABLE)
    assert not sequence.handle_duplicate(sure(sequence.find(6)), 4, ack_requested=False)
    assert sequence.previous_of(sequence.entries[6]) == 4
    assert send(sequence) == [5, 6]
    assert not sequence.handle_duplicate(sure(sequence.find(6)), 5, ack_requested=True)
    assert sequence.handle_duplicate(sure(sequence.find(6)), 3, ack_requested=False)
    assert (send(sequence), sequence.previous_of(sequence.entries[6])) == ([6], 3)
    assert sequence.entries[6].ack_requested
    assert unordered.previous_of(unordered.entries[6]) == 0


@pytest.mark.parametrize("rejected", [False, True])
@pytest.mark.parametrize("delivery", sorted(DURABLE))
def test_a_hold_takes_back_what_is_not_acknowledged(delivery: Delivery, rejected: bool) -> None:
    """The next hop has not kept it; probes go one by one, and so does what follows. A rejected one makes room, too."""
    sequence = passing(1, 2, delivery=delivery)
    assert send(sequence) == [1, 2]
    assert sequence.handle_flow_control(1, 0, stop=True) == [1, 2]
    assert sequence.peek() is None
    assert sequence.ask_for_room()
    assert send(sequence) == [1]
    sequence.handle_flow_control(2, 0, stop=False)
    assert send(sequence) == [1]
    assert send(sequence) == []
    if rejected:
        sequence.remove([sequence.entries[1]])
    else:
        sequence.handle_ack([sequence.entries[1]], Ack.STORE)
    assert send(sequence) == [2]


@pytest.mark.parametrize(("turn", "freed"), [(1, [1]), (2, [])])
def test_a_probe_is_not_taken_back_by_a_hold_that_is_repeated(turn: int, freed: list[int]) -> None:
    """The next hop has said it before the probe came there; a refusal has a turn of its own."""
    sequence = passing(1, 2, delivery=Delivery.TRANSACTIONAL)
    probe = sequence.entries[1]
    sequence.handle_flow_control(1, 0, stop=True)
    assert sequence.ask_for_room()
    assert send(sequence) == [1]
    taken_back = sequence.handle_flow_control(turn, 0, stop=True)
    assert taken_back == ([] if freed else [1])
    assert [it.number for it in sequence.handle_ack([probe] if not taken_back else [], Ack.STORE)] == freed


def test_a_newer_sequence_of_express_takes_the_place_of_the_older() -> None:
    """Durable streams have one sequence, and what is left of it goes first."""
    express, durable = passing(1, delivery=Delivery.EXPRESS), passing(1)
    assert (express.judge(2, 1), durable.judge(2, 1)) == (Taken.FRESH, Taken.OTHER_WAY)
    express.remove(list(express.entries.values()))
    express.begin(2)
    assert (express.judge(1, 5), express.sequence, express.entries) == (Taken.STALE, 2, {})


def test_what_is_given_up_is_not_sent_and_not_freed() -> None:
    """It stays until its dead letter is on the disk."""
    sequence = passing(1, 2)
    send(sequence)
    entry = sequence.entries[1]
    sequence.give_up([entry])
    sequence.handle_session_closed()
    assert (send(sequence), sequence.handle_ack([entry], Ack.STORE)) == ([2], [])
    sequence.remove([entry])
    assert (list(sequence.entries), entry.state) == ([2], StreamPacketState.DONE)


def test_how_far_everything_is_here() -> None:
    sequence = passing(4, 5, 7)
    assert sequence.here == 5
    assert not sequence.handle_duplicate(sure(sequence.find(7)), 5, ack_requested=False)
    assert sequence.here == 7
    sequence.add([packet(8)])
    assert sequence.here == 7
    assert passing().here == 0


def test_places_only_grow() -> None:
    """A number that comes twice has two places, so that their rows are two."""
    sequence = passing(1)
    first, second, restored = sequence.entries[1], packet(1), packet(9)
    sequence.remove([first])
    sequence.add([second])
    assert second.place > first.place
    sequence.restore(restored, 40)
    sequence.add([packet(10)])
    assert (restored.place, sequence.entries[10].place) == (40, 41)


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 6)), max_size=60), st.sampled_from(list(Delivery)))
def test_whatever_happens_each_packet_is_offered_until_it_is_freed(
    events: list[tuple[int, int]], delivery: Delivery
) -> None:
    sequence, taken = TransitSequence(delivery, 1), set[int]()
    for event, number in events:
        entry = sequence.entries.get(number)
        if event == 0 and entry is None:
            sequence.add([packet(number)])
        elif event == 1 and entry is not None:
            sequence.handle_stored([entry])
        elif event == 2:
            send(sequence, number)
        elif event == 3 and entry is not None and entry.state is StreamPacketState.SENT:
            taken |= {freed.number for freed in sequence.handle_ack([entry], FREES[delivery])}
        elif event == 4:
            sequence.handle_session_closed()
        elif event == 5 and entry is not None and entry.state is not StreamPacketState.ARRIVED:
            sequence.handle_flow_control(number, 0, stop=False)
    sequence.handle_session_closed()
    sequence.handle_stored(list(sequence.entries.values()))
    left = send(sequence)
    assert sorted(left) == sorted(sequence.entries)
    assert delivery is not Delivery.TRANSACTIONAL or left == sorted(left)


def test_what_the_next_hop_gives_back_goes_out_again() -> None:
    sequence = passing(1, 2, 3)
    assert send(sequence, 2) == [1, 2]
    sequence.handle_given_back(sequence.entries[2])
    assert (sequence.entries[2].packet, send(sequence)) == (0, [2, 3])


def test_over_a_synchronous_link_a_word_needs_the_store_ack_of_this_copy() -> None:
    """In a circle of relays it may be about another copy of that number; whichever comes last frees the packet."""
    relay = passing(1, 2, delivery=Delivery.RECOVERABLE)
    relay.set_sync(True)
    first, second = relay.entries.values()
    assert relay.handle_onward([(1, 2)]) == ([(1, 2)], [])
    send(relay)
    assert relay.handle_ack([first], Ack.STORE) == []
    assert relay.handle_onward([(1, 2)]) == ([(2, 2)], [first])
    assert relay.handle_ack([second], Ack.STORE) == [second]
    assert not relay.entries


def test_a_word_that_comes_while_a_synchronous_link_is_asynchronous_is_not_forgotten() -> None:
    """The store ack comes when the link is synchronous again, and no other word follows."""
    relay = passing(1, delivery=Delivery.RECOVERABLE)
    entries = list(relay.entries.values())
    send(relay)
    assert relay.handle_onward([(1, 1)]) == ([(1, 1)], [])
    relay.set_sync(True)
    assert relay.handle_ack(entries, Ack.STORE) == entries


def test_a_packet_whose_gap_is_closed_goes_out_again_in_a_slow_start() -> None:
    """It has left before; the next hop keeps it until then, and acknowledges nothing that makes room for others."""
    sequence = passing(6)
    sequence.start.credit = 1
    assert send(sequence) == [6]
    assert sequence.handle_duplicate(sure(sequence.find(6)), 3, ack_requested=False)
    assert send(sequence) == [6]


@pytest.mark.parametrize("credit", [None, 1])
def test_what_goes_on_after_all_goes_out_once(credit: int | None) -> None:
    """Also what had not left, in its place; and in a slow start, in which no ack of what had left makes room."""
    sequence = passing(1, 2, delivery=Delivery.RECOVERABLE)
    sequence.start.credit = credit
    assert send(sequence, 1) == [1]
    entries = list(sequence.entries.values())
    sequence.give_up(entries)
    sequence.go_on(entries)
    assert sorted(send(sequence, 1) + send(sequence, 1) + send(sequence, 1)) == [1, 2]


@pytest.mark.parametrize("rerouted", [False, True])
def test_a_word_counts_that_comes_in_the_next_session_before_its_packet(rerouted: bool) -> None:
    """If that next hop had stored the packet before. Otherwise short sessions would each bring the word too early."""
    sequence = passing(1, delivery=Delivery.RECOVERABLE)
    sequence.set_sync(True)
    send(sequence)
    assert sequence.handle_ack([sequence.entries[1]], Ack.STORE) == []
    sequence.handle_session_closed(rerouted=rerouted)
    assert sequence.handle_onward([(1, 1)]) == ([(1, 1)], [])
    send(sequence)
    assert len(sequence.handle_ack([sequence.entries[1]], Ack.STORE)) == (0 if rerouted else 1)


def test_what_was_given_back_is_lacking_until_it_comes_again() -> None:
    """Packets before it, which come first, are no sign of it."""
    sequence = passing(4, 5)
    entry = sequence.entries[4]
    sequence.remove([entry])
    sequence.lack([entry.number])
    sequence.add([packet(3)])
    assert [number for number in (3, 4, 5) if sequence.lacks_before(number)] == [4, 5]
    sequence.add([packet(4)])
    assert not sequence.lacks_before(5)


@pytest.mark.parametrize(("number", "is_news"), [(3, True), (9, False)])
def test_what_had_no_room_is_lacking(number: int, is_news: bool) -> None:
    """What it says of packets behind that one is no longer true; of those before it, it is."""
    sequence = passing(4, 5)
    assert sequence.handle_held_back(1, number) is is_news
    assert not sequence.handle_held_back(1, number)
    assert not sequence.handle_held_back(1, 4)
    assert not sequence.handle_held_back(2, 1)
    assert [it for it in (2, 5, 9) if sequence.lacks_before(it)] == ([5, 9] if is_news else [9])
    sequence.handle_order_ack(number)
    assert not sequence.lacks_before(9)


def test_what_its_origin_has_given_up_is_lacking_no_more() -> None:
    """The next packet says that it follows an earlier one. A newer sequence lacks nothing of the older one."""
    sequence = passing(1)
    for number in (2, 3, 5):
        sequence.handle_held_back(1, number)
    sequence.add([packet(4, previous=1)])
    assert not sequence.lacks_before(4)
    assert sequence.lacks_before(5)
    sequence.remove(list(sequence.entries.values()))
    sequence.begin(2)
    assert not sequence.lacks_before(5)


def test_a_neighbour_makes_it_remember_no_more_than_some() -> None:
    sequence = passing(1)
    for number in range(2, LACKING_MAX + 10):
        sequence.handle_held_back(1, number)
    assert sequence.lacks_before(2)
    for number in range(2, LACKING_MAX + 2):
        sequence.add([packet(number)])
    assert not sequence.lacks_before(2 * LACKING_MAX)


class Looked(dict[int, TransitPacket]):
    """The packets in memory, and how often one of them was looked at."""

    looks = 0

    def get(self, number: int, default: Any = None) -> Any:
        self.looks += 1
        return super().get(number, default)

    def __contains__(self, number: object) -> bool:
        self.looks += 1
        return super().__contains__(number)

    def __iter__(self) -> Iterator[int]:
        for number in super().__iter__():
            self.looks += 1
            yield number

    def values(self) -> Any:
        self.looks += len(self)
        return super().values()


def test_how_far_a_backlog_is_here_costs_what_has_come_since() -> None:
    """Neither the time that it is asked again nor a packet for which there is no room looks at all of them."""
    sequence = passing(*range(2, 20_002))
    looked = sequence.entries = Looked(sequence.entries)
    assert sequence.here == 20_001
    come(sequence, *range(20_002, 20_012))
    looked.looks = 0
    assert sequence.here == 20_011
    assert sequence.lowest == 2
    assert not sequence.handle_onward([(7, 7)])[1]
    sequence.handle_held_back(1, 1)
    assert looked.looks < 40


class Seen(TransitPacket):
    """A packet, and how often anything of one was read."""

    reads = 0

    def __getattribute__(self, name: str) -> Any:
        Seen.reads += 1
        return super().__getattribute__(name)


@pytest.mark.gate
def test_a_packet_that_comes_late_finds_its_place_among_many() -> None:
    sequence = passing()
    for number in (*range(1, 5_000), *range(5_001, 20_001), 5_000):
        entry = Seen(number, b"body", 4, 1, number - 1, 0)
        sequence.add([entry])
        Seen.reads = 0
        sequence.handle_stored([entry])
    assert Seen.reads < 100
    assert send(sequence, 30_000) == list(range(1, 20_001))


def stored(numbers: Iterable[int]) -> tuple[TransitSequence, list[TransitPacket]]:
    sequence, entries = TransitSequence(Delivery.TRANSACTIONAL, 1), [packet(number) for number in numbers]
    sequence.add(entries)
    return sequence, entries


def test_what_only_the_disk_has_leaves_in_order_when_it_is_brought_back() -> None:
    sequence, entries = stored(range(1, 3_001))
    sequence.handle_stored(entries[:100])
    assert len(sequence.put_away(entries[100:])) == 2_900
    assert (len(sequence), len(sequence.entries), sequence.here) == (3_000, 100, 3_000)
    left = send(come(sequence, 5_000), 1_000)
    assert left == list(range(1, 101))
    while sequence.peek() is ON_DISK:
        for entry in sequence.bring_back(700):
            entry.body = b"body"
        left += send(sequence, 10_000)
    assert left == [*range(1, 3_001), 5_000]


def test_what_only_the_disk_has_is_known() -> None:
    sequence, entries = stored(range(1, 2_001))
    places = [entry.place for entry in entries]
    sequence.put_away(entries)
    assert sequence.judge(1, 1_500) is Taken.DUPLICATE
    assert sequence.judge(1, 2_001) is Taken.FRESH
    assert not sequence.handle_held_back(1, 7)
    assert not sequence.handle_duplicate(sure(sequence.find(1_500)), 1_490, ack_requested=True)
    assert sure(sequence.find(1_500)).place == 2_001
    back = sequence.bring_back(3_000)
    assert [entry.number for entry in back] == list(range(1, 2_001))
    assert [entry.place for entry in back] == [2_001 if at == 1_499 else place for at, place in enumerate(places)]
    assert [(it.number, it.previous) for it in back if it.ack_requested] == [(1_500, 1_490)]


def test_what_has_left_or_is_on_its_way_is_not_put_away() -> None:
    """Acks of it are still to come."""
    sequence = passing(1, 2, 3)
    entries = list(sequence.entries.values())
    assert send(sequence, 1) == [1]
    sequence.remove([entries[1]])
    assert sequence.put_away(entries) == [entries[2]]
    assert (sequence.lowest, len(sequence)) == (1, 2)
    assert sequence.handle_ack([entries[0]], Ack.STORE) == [entries[0]]
    assert sequence.lowest == 3


def plain_here(stored: dict[int, int], arrived: set[int], *, skips: bool) -> int:
    """The same by a look at all packets: from the lowest on, each follows the one before.

    ``skips``: or any of them whose origin has given up all in between.
    """
    numbers = sorted({*stored, *arrived})
    last = numbers[0] - 1
    while last + 1 not in arrived:
        further = [number for number in numbers if number > last and number in stored and stored[number] <= last]
        if not skips:
            following = next((number for number in numbers if number > last), None)
            further = [number for number in further if number == following]
        if not further:
            break
        last = max(further) if skips else further[0]
    return last


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 12), st.integers(0, 3)), max_size=60))
def test_how_far_everything_is_here_whatever_came_and_left(events: list[tuple[int, int, int]]) -> None:
    sequence = TransitSequence(Delivery.TRANSACTIONAL, 1)
    for event, number, gap in events:
        entry, found = sequence.entries.get(number), sequence.find(number)
        if event == 0 and found is None:
            sequence.add([packet(number, max(0, number - 1 - gap))])
        elif event in (1, 2) and entry is not None:
            sequence.handle_stored([entry])
        elif event == 3 and entry is not None:
            sequence.put_away([entry])
        elif event == 4 and found is not None:
            sequence.handle_duplicate(found, max(0, number - 1 - gap), ack_requested=False)
        elif event == 5 and entry is not None:
            sequence.remove([entry])
        elif event == 6:
            sequence.bring_back(gap)
        everything = [it for it in map(sequence.find, range(1, 13)) if it is not None]
        arrived = {it.number for it in everything if it.state is StreamPacketState.ARRIVED}
        kept = {it.number: it.before for it in everything if it.number not in arrived}
        if everything:
            assert sequence.lowest == everything[0].number
            here = sequence.here
            assert plain_here(kept, arrived, skips=False) <= here
            assert here <= plain_here(kept, arrived, skips=True)
        assert len(sequence) == len(everything)
