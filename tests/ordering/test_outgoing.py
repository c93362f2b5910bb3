"""The sending end of a stream: which packets leave, in which order, and which acks free them."""

import gc
from dataclasses import replace
from timeit import timeit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ordering.pair import make_entry
from tests.sure import sure
from triack.base.delivery import DURABLE, FREED_BY, SYNC_FREED_BY, Ack, Delivery, Role
from triack.base.units import SECOND
from triack.ordering.departing import StreamPacketState
from triack.ordering.order_settings import OrderSettings
from triack.ordering.outgoing import AFTER_ACK, OutgoingSequence, StreamPacket

TRANSACTIONAL = Delivery.TRANSACTIONAL


def make(packets: int, delivery: Delivery = TRANSACTIONAL, settings: OrderSettings | None = None) -> OutgoingSequence:
    out = OutgoingSequence(delivery, 5, 1, settings or OrderSettings())
    for number in range(1, packets + 1):
        out.append([make_entry(number)])
    return out


def send(out: OutgoingSequence, now_ns: int = 0, limit: int = 1_000) -> list[tuple[int, int]]:
    """Let go what waits; returns numbers with their previous."""
    told: list[tuple[int, int]] = []
    while len(told) < limit and (run := out.peek_run(limit - len(told))):
        assert run[0] is out.peek()
        previous = [out.previous_of(entry) for entry in run]
        assert out.previous_of_run(run) == previous
        told += zip([entry.number for entry in run], previous, strict=True)
        out.handle_sent(run, now_ns)
    return told


def test_the_last_order_ack_is_kept_with_how_often_it_came() -> None:
    out = make(4)
    send(out)
    assert (out.last_ack, out.resends) == (None, 0)
    out.handle_order_ack(5, 2, 10)
    assert out.last_ack == (2, 10, 1)
    out.handle_order_ack(5, 2, 20)
    out.handle_order_ack(5, 1, 30)
    out.handle_order_ack(4, 3, 40)
    assert out.last_ack == (2, 20, 2)
    out.handle_ack(list(out.entries.values()), Ack.SESSION)
    assert len(out.handle_timer(3_600 * SECOND)) == out.resends == 2
    out.handle_order_ack(5, 4, 50)
    assert out.last_ack == (4, 50, 1)


def test_a_run_ends_where_something_has_to_be_looked_at() -> None:
    """At a gap, at a body that is only on the disk, and with the first packet of a stream that goes slowly."""
    out = make(9)
    out.remove(out.entries[4])
    out.entries[7].body = None
    runs = []
    while run := out.peek_run(3):
        runs.append([entry.number for entry in run])
        out.handle_sent(run, 0, packet=run[0].number + 10)
    assert runs == [[1, 2, 3], [5, 6], [7, 8, 9]]
    assert [entry.packet for entry in out.entries.values()] == [11, 12, 13, 15, 16, 17, 18, 19]
    out.handle_session_closed(not_stored=True)
    assert [entry.number for entry in out.peek_run(3)] == [1]


def states(out: OutgoingSequence) -> dict[int, StreamPacketState]:
    return {number: entry.state for number, entry in out.entries.items()}


def acknowledge(out: OutgoingSequence, number: int, ack: Ack | None = None) -> list[int]:
    """Let an ack cover a packet, by default the one that frees its class; the numbers of what that frees."""
    ack = out.freed_by if ack is None else ack
    if ack is Ack.ORDER:
        return [entry.number for entry in out.handle_order_ack(5, number, 0)]
    return [entry.number for entry in out.handle_ack([out.entries[number]], ack)]


def test_the_table_names_one_ack_for_each_class() -> None:
    classes = [Delivery.EXPRESS, Delivery.RECOVERABLE, Delivery.TRANSACTIONAL]
    assert list(Delivery) == classes
    assert [FREED_BY[delivery, Role.ORIGIN] for delivery in classes] == [Ack.SESSION, Ack.STORE, Ack.ORDER]
    assert [SYNC_FREED_BY[delivery, Role.ORIGIN] for delivery in classes] == [Ack.SESSION, Ack.ONWARD, Ack.ORDER]
    assert set(AFTER_ACK[Ack.SESSION]) == {Ack.STORE, Ack.ORDER, Ack.ONWARD}
    assert set(classes[1:]) == DURABLE
    assert [delivery.label for delivery in classes] == ["express", "recoverable", "transactional"]


@pytest.mark.parametrize("delivery", Delivery)
@pytest.mark.parametrize("ack", [Ack.SESSION, Ack.STORE, Ack.ORDER])
def test_each_ack_frees_only_its_class(delivery: Delivery, ack: Ack) -> None:
    out = make(1, delivery)
    entry = out.entries[1]
    send(out)
    if FREED_BY[delivery, Role.ORIGIN] is not ack:
        assert acknowledge(out, 1, ack) == []
        assert list(out.entries) == [1]
    assert acknowledge(out, 1) == [1]
    assert (out.entries, entry.state) == ({}, StreamPacketState.DONE)


def test_asks_after_every_three_packets_and_on_every_resend() -> None:
    out = make(7, settings=OrderSettings(order_ack_every=3))
    asked = []
    for _ in range(7):
        entry = sure(out.peek())
        asked.append(out.poll_ask(entry))
        out.handle_sent([entry], 0)
    assert asked == [False, False, True, False, False, True, False]
    assert out.poll_ask(out.entries[7])
    out.append([make_entry(8)])
    assert not out.poll_ask(out.entries[8])


@pytest.mark.parametrize("delivery", [Delivery.EXPRESS, Delivery.RECOVERABLE])
def test_other_classes_never_ask_and_have_no_tiers(delivery: Delivery) -> None:
    """Their acks come from the next hop."""
    out = make(2, delivery, OrderSettings(order_ack_every=1))
    assert not any(out.poll_ask(entry) for entry in out.entries.values())
    send(out)
    assert out.tier.deadline_ns is None


def test_only_what_has_a_session_ack_and_lacks_the_order_ack_is_resent() -> None:
    """A packet that is still in its session is repaired there; one that was never sent goes when its turn comes."""
    out = make(6)
    send(out, now_ns=7, limit=5)
    for number in (1, 2, 4):
        out.handle_ack([out.entries[number]], Ack.SESSION)
    out.handle_order_ack(5, 1, 7)
    assert out.handle_timer(7 + 30 * SECOND - 1) == []
    assert [entry.number for entry in out.handle_timer(7 + 30 * SECOND)] == [2, 4]
    assert send(out) == [(2, 0), (4, 3), (6, 5)]
    assert [entry.sends for entry in out.entries.values()] == [2, 1, 2, 1, 1]


@pytest.mark.parametrize(
    ("given_up", "tier", "sent"), [((2, 4), False, [(3, 1), (5, 3)]), ((2,), True, [(1, 0), (3, 1), (4, 3), (5, 4)])]
)
def test_resends_and_what_waits_already_go_out_in_one_order(
    given_up: tuple[int, ...], tier: bool, sent: list[tuple[int, int]]
) -> None:
    """3 waits because 2 was given up; then 5 does, or a tier sends 1 and 4, too: lower numbers first all the same."""
    out = make(5)
    send(out)
    out.handle_ack(list(out.entries.values()), Ack.SESSION)
    for number in given_up:
        out.remove(out.entries[number])
    if tier:
        out.handle_timer(30 * SECOND)
    assert send(out) == sent


def test_a_resend_is_not_held_up_by_a_slow_start() -> None:
    """Packets that had credit before go out again, whatever credit is left; packets never sent wait for some."""
    out = make(6)
    send(out, limit=4)
    out.handle_flow_control(1, 0, stop=True)
    out.handle_flow_control(2, 0, stop=False)
    assert send(out) == [(1, 0)]
    out.handle_ack([out.entries[1]], Ack.SESSION)
    assert [entry.number for entry in out.handle_timer(30 * SECOND)] == [1]
    assert send(out) == [(1, 0)]


@pytest.mark.parametrize(("crowded", "again"), [(False, []), (True, [1, 2, 3])])
def test_express_packets_go_out_again_when_their_stream_had_no_place(*, crowded: bool, again: list[int]) -> None:
    """Also if only the go comes, as it has replaced the stop. Otherwise what was on its way is taken."""
    out = make(3, Delivery.EXPRESS)
    out.handle_sent(out.peek_run(3), 0, packet=1)
    assert out.handle_flow_control(2, SECOND, stop=False, crowded=crowded) == again
    assert [out.peek() is not None, len(out.entries)] == [crowded, 3]


def test_previous_bridges_what_was_given_up() -> None:
    out = make(6)
    for number in (1, 4, 5):
        out.remove(out.entries[number])
    assert send(out) == [(2, 0), (3, 2), (6, 3)]


def test_what_is_given_up_before_it_was_sent_is_forgotten() -> None:
    """Packets for a queue of their own node never leave, and others may expire behind one that cannot leave."""
    out = make(1)
    before = sum(isinstance(it, StreamPacket) for it in gc.get_objects())
    for number in range(2, 1_000):
        out.append([make_entry(number)])
        out.remove(out.entries[number])
    assert sum(isinstance(it, StreamPacket) for it in gc.get_objects()) < before + 100
    assert send(out) == [(1, 0)]


def test_giving_up_twice_or_after_the_ack_does_nothing() -> None:
    """Expiry and ack may race."""
    out = make(3)
    send(out)
    first = out.entries[1]
    out.handle_order_ack(5, 1, 0)
    out.remove(first)
    second = out.entries[2]
    out.remove(second)
    out.remove(second)
    assert list(out.entries) == [3]
    assert not out.handle_ack([second], Ack.SESSION)
    assert second.state is StreamPacketState.DONE


def test_no_tier_runs_while_nothing_is_on_its_way() -> None:
    """A next hop that is away for days costs no turn; the attempt is that of before when packets leave again."""
    out = make(2)
    send(out)
    out.handle_ack(list(out.entries.values()), Ack.SESSION)
    assert out.handle_timer(30 * SECOND)
    out.handle_session_closed()
    assert not out.handle_timer(60 * SECOND)
    assert (out.tier.attempt, out.tier.deadline_ns) == (1, None)
    send(out, 100 * SECOND)
    assert (out.tier.attempt, out.tier.deadline_ns) == (1, 130 * SECOND)
    assert not out.handle_timer(130 * SECOND)
    assert out.tier.deadline_ns == 160 * SECOND


def test_giving_up_all_that_waits_ends_its_tier() -> None:
    """Also while its end is being written: a packet sent meanwhile waits for as long as a first packet."""
    out = make(3)
    send(out)
    out.handle_ack(list(out.entries.values()), Ack.SESSION)
    assert out.handle_timer(30 * SECOND)
    out.reject([out.entries[1], out.entries[2]])
    assert out.tier.attempt == 1
    out.give_up([out.entries[3]])
    assert (out.tier.attempt, out.tier.deadline_ns) == (0, None)
    out.append([make_entry(4)])
    send(out, 40 * SECOND)
    out.reject([out.entries[3]])
    for number in (1, 2, 3):
        out.remove(out.entries[number])
    assert out.tier.deadline_ns == 70 * SECOND
    out.remove(out.entries[4])
    assert out.tier.deadline_ns is None


STEP = st.tuples(
    st.sampled_from(["append", "send", "session-ack", "order-ack", "remove", "closed", "timer"]), st.integers(0, 99)
)


@given(st.lists(STEP, max_size=60))
def test_whatever_happens_what_waits_goes_out_ascending_and_nothing_is_forgotten(steps: list[tuple[str, int]]) -> None:
    out, now_ns = make(0), 0
    for step, value in steps:
        now_ns += SECOND
        entries = list(out.entries.values())
        chosen = entries[value % len(entries)] if entries else None
        if step == "append":
            out.append([make_entry(out.next_number)])
        elif step == "send":
            sent = [number for number, _ in send(out, now_ns, limit=value % 4)]
            assert sent == sorted(sent)
        elif step == "closed":
            out.handle_session_closed()
        elif step == "timer":
            now_ns += 6 * 3_600 * SECOND
            assert all(entry.state is StreamPacketState.WAITING_TO_SEND for entry in out.handle_timer(now_ns))
        elif chosen is not None and step == "session-ack":
            assert not out.handle_ack([chosen], Ack.SESSION)
        elif chosen is not None and step == "order-ack":
            out.handle_order_ack(5, chosen.number, now_ns)
        elif chosen is not None:
            out.remove(chosen)
        waiting = [number for number, state in states(out).items() if state is StreamPacketState.WAITING_TO_SEND]
        assert [entry.number for entry in out.upcoming(100)] == waiting
    out.handle_session_closed()
    left = list(out.entries)
    assert send(out) == list(zip(left, [0, *left], strict=False))


def test_what_leaves_again_in_one_session_says_which_number_it_had() -> None:
    """The destination may answer the new one alone. With the session, all numbers in it end."""
    out = make(3)
    run = out.peek_run(3)
    assert out.handle_sent(run, 0, packet=7) == []
    out.remove(run[0])
    again = out.peek_run(3)
    assert again == run[1:2]
    assert out.handle_sent(again, 0, packet=10) == [8]
    assert [entry.packet for entry in run[1:]] == [10, 9]
    out.handle_session_closed()
    assert [entry.packet for entry in out.handle_order_ack(out.sequence, 3, 0)] == [0, 0]


def test_over_a_synchronous_link_a_packet_is_freed_when_it_was_passed_on() -> None:
    """Its store ack moves it; a word about others frees nothing; a session that closes sends it again."""
    out = make(3, Delivery.RECOVERABLE)
    assert out.set_sync(True) == []
    send(out)
    assert out.handle_ack(list(out.entries.values()), Ack.STORE) == []
    assert set(states(out).values()) == {StreamPacketState.WAITING_ONWARD_ACK}
    assert out.awaits_onward
    covered, freed = out.handle_onward([(2, 2), (7, 2**60)])
    assert ([entry.number for entry in covered], freed) == ([2], covered)
    out.handle_session_closed(idle=True)
    assert send(out) == [(1, 0), (3, 0)]
    assert [entry.number for entry in out.set_sync(False)] == [1, 3]
    assert not out.entries


def test_a_hold_of_a_relay_brings_back_only_what_it_has_not_stored() -> None:
    """What it has stored waits there, and goes out again with another session alone."""
    out = make(2, Delivery.RECOVERABLE)
    out.set_sync(True)
    send(out)
    out.handle_ack([out.entries[1]], Ack.STORE)
    out.handle_flow_control(1, 0, stop=True)
    assert states(out) == {1: StreamPacketState.WAITING_ONWARD_ACK, 2: StreamPacketState.WAITING_TO_SEND}


def test_what_another_relay_had_stored_before_leaves_room_again_when_this_one_has_it() -> None:
    """Otherwise a stream that goes by another way, and starts slowly there, stands still."""
    out = make(4, Delivery.RECOVERABLE)
    out.set_sync(True)
    out.handle_sent(out.peek_run(4), 0, packet=1)
    out.handle_ack(list(out.entries.values()), Ack.STORE)
    out.handle_session_closed()
    for turn, stop in enumerate([True, False, True, False], 1):
        out.handle_flow_control(turn, 0, stop=stop)
    for number in range(1, 5):
        (entry,) = out.peek_run(1)
        assert entry.number == number
        out.handle_sent([entry], 0, packet=number)
        out.handle_ack([entry], Ack.STORE)


def make_large(delivery: Delivery = Delivery.TRANSACTIONAL) -> OutgoingSequence:
    """A message, one in three fragments, and one more; all are sent."""
    out = OutgoingSequence(delivery, 5, 1, OrderSettings())
    for number, messages in ((1, 1), (2, 0), (3, 0), (4, 1), (5, 1)):
        out.append([replace(make_entry(number), messages=messages)])
    send(out)
    return out


@pytest.mark.parametrize("delivery", list(Delivery))
def test_the_fragments_of_a_message_leave_together(delivery: Delivery) -> None:
    out = make_large(delivery)
    assert [acknowledge(out, number) for number in (1, 2, 3)] == [[1], [], []]
    out.handle_session_closed()
    assert [number for number, _ in send(out)] == [4, 5]
    assert [entry.number for entry in out.message_of(out.entries[4])] == [2, 3, 4]
    assert acknowledge(out, 4) == [2, 3, 4]
    assert list(out.entries) == [5]


@pytest.mark.parametrize("delivery", list(Delivery))
def test_fragments_that_are_acknowledged_twice_count_once(delivery: Delivery) -> None:
    """Also when the message has expired meanwhile: it is freed only when all of it is covered."""
    out = make_large(delivery)
    acknowledge(out, 1)
    assert acknowledge(out, 2) == []
    out.give_up(out.message_of(out.entries[2]))
    assert [acknowledge(out, number) for number in (2, 2, 2, 3, 4)] == [[], [], [], [], [2, 3, 4]]


@pytest.mark.parametrize("delivery", list(Delivery))
def test_nothing_frees_what_was_rejected(delivery: Delivery) -> None:
    """An ack of it is a lie, or of another sending: it is removed when its end is on disk, and only then."""
    out = make_large(delivery)
    acknowledge(out, 1)
    out.reject(out.message_of(out.entries[3]))
    assert [acknowledge(out, number) for number in (2, 3, 4)] == [[], [], []]
    assert list(out.entries) == [2, 3, 4, 5]
    for number in (2, 3, 4):
        out.remove(out.entries[number])
    assert acknowledge(out, 5) == [5]


@pytest.mark.parametrize("delivery", [Delivery.EXPRESS, Delivery.RECOVERABLE])
def test_an_ack_that_covers_a_packet_twice_frees_it_once(delivery: Delivery) -> None:
    """It has left twice in one session, under two numbers."""
    out = make(2, delivery)
    send(out)
    first, second = out.entries[1], out.entries[2]
    assert out.handle_ack([first, second, first], out.freed_by) == [first, second]
    assert not out.entries


@pytest.mark.gate
@pytest.mark.parametrize("delivery", list(Delivery))
def test_a_long_backlog_costs_a_packet_no_more_than_a_short_one(delivery: Delivery) -> None:
    """For each packet that follows, the part that was freed at its front is not looked at again."""
    long, short = make(60_000, delivery), make(300, delivery)
    for out, freed in ((long, 59_900), (short, 200)):
        for entry in list(out.entries.values())[:freed]:
            out.remove(entry)
    assert len(long.entries) == len(short.entries) == 100

    def seconds(out: OutgoingSequence) -> float:
        entry = next(iter(out.entries.values()))
        return min(timeit(lambda: out.previous_of(entry), number=100) for _ in range(5))

    assert seconds(long) < 20 * seconds(short)


def test_no_tier_runs_for_what_waits_at_a_relay() -> None:
    out = make(3)
    send(out, 0, 2)
    out.handle_ack(list(out.entries.values())[:2], Ack.SESSION)
    assert out.handle_waits(1, 2, 0)
    assert out.waits_until
    assert out.handle_timer(30 * SECOND) == []
    send(out, 31 * SECOND)
    out.handle_ack([out.entries[3]], Ack.SESSION)
    assert [entry.number for entry in out.handle_timer(61 * SECOND)] == [3]
    assert out.handle_waits(2, 3, 62 * SECOND)
    assert out.handle_timer(100 * SECOND) == []
    assert out.tier.deadline_ns is None
    assert out.awaits_order_ack
    assert not out.handle_waits(1, 0, 101 * SECOND)
    assert out.handle_waits(3, 0, 101 * SECOND)
    assert [entry.number for entry in out.handle_timer(131 * SECOND)] == [1, 2, 3]


def test_what_waits_at_a_relay_is_not_sent_again_on_a_new_session() -> None:
    """If the relay says so before it is; the word of the last session ended with that. What waited is on its disk."""
    out = make(3)
    send(out, 0, 2)
    out.handle_waits(1, 2, 0)
    out.handle_session_closed(idle=True)
    assert not out.waits_until
    assert out.handle_waits(1, 2, 0)
    assert [number for number, _ in send(out)] == [3]
    out.handle_session_closed(idle=True)
    assert [number for number, _ in send(out)] == [1, 2, 3]
    out.handle_ack(list(out.entries.values()), Ack.SESSION)
    out.handle_waits(1, 3, 0)
    out.handle_waits(2, 0, SECOND)
    out.handle_session_closed(idle=True)
    assert send(out) == []
    assert [entry.number for entry in out.handle_timer(31 * SECOND)] == [1, 2, 3]


def test_what_waits_at_a_relay_has_one_place_when_it_goes_out_again() -> None:
    """The word came before it was sent again; the next session sends it once, and in one run."""
    out = make(3)
    send(out, 0, 2)
    out.handle_session_closed()
    out.handle_waits(1, 2, 0)
    out.handle_session_opened(0)
    assert [entry.number for entry in out.upcoming(9)] == [1, 2, 3]
    assert [entry.number for entry in out.peek_run(9)] == [1, 2, 3]


@pytest.mark.parametrize("delivery", sorted(DURABLE))
def test_an_ack_of_what_was_given_up_and_held_back_no_longer_counts(delivery: Delivery) -> None:
    """A full destination passes the packet over. That must not free it, as its dead letter is still to be made."""
    out = make(2, delivery)
    first, second = out.entries.values()
    for entry, packet in ((first, 7), (second, 8)):
        out.handle_sent([entry], 0, packet=packet)
    out.give_up([first])
    assert out.handle_flow_control(1, 0, stop=True) == [8, 7]
    ends = StreamPacketState.GIVEN_UP, StreamPacketState.WAITING_TO_SEND
    assert (first.packet, first.state, second.state) == (0, *ends)
