"""The receiving end of a sequence: every packet once, in order, at any time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ordering.pair import make_entry, make_header
from triack.base.delivery import Delivery
from triack.base.reasons import RejectReason
from triack.base.units import MS
from triack.ordering.incoming import SKIPS_MAX, IncomingSequence, Outcome, Position
from triack.ordering.order_settings import OrderSettings
from triack.ordering.outgoing import OutgoingSequence
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


@pytest.mark.parametrize(
    ("sequence", "number", "previous", "outcome"),
    [
        (5, 8, 7, Outcome.ACCEPTED),
        (5, 6, 5, Outcome.DUPLICATE),
        (5, 7, 6, Outcome.DUPLICATE),
        (5, 10, 9, Outcome.OUT_OF_ORDER),
        (5, 10, 7, Outcome.ACCEPTED),
        (5, 10, 0, Outcome.ACCEPTED),
        (6, 1, 0, Outcome.ACCEPTED),
        (6, 3, 0, Outcome.ACCEPTED),
        (6, 2, 1, Outcome.OUT_OF_ORDER),
        (4, 9, 0, Outcome.STALE_SEQUENCE),
        (4, 8, 7, Outcome.STALE_SEQUENCE),
    ],
    ids=[
        "next",
        "duplicate",
        "duplicate of the last",
        "gap",
        "gap bridged",
        "gap bridged from the start",
        "new sequence",
        "new sequence, first expired",
        "new sequence, middle",
        "old sequence",
        "old sequence, number that would fit",
    ],
)
def test_the_accept_rule(sequence: int, number: int, previous: int, outcome: Outcome) -> None:
    """The table of the specification, with (5, 7) accepted last. Only what is accepted moves the position."""
    incoming = at(5, 7)
    accepted = outcome is Outcome.ACCEPTED
    assert feed(incoming, sequence, number, previous) == (outcome, [(sequence, number)] if accepted else [])
    assert incoming.position == ((sequence, number) if accepted else (5, 7))
    assert incoming.committed == (5, 7)


def test_held_packets_come_out_in_order() -> None:
    """1, then 4, 2, 5 out of order; 3 brings them all with it."""
    incoming = at(0, 0)
    assert feed(incoming, 1, 1, 0)[1] == [(1, 1)]
    assert feed(incoming, 1, 4, 3) == (Outcome.OUT_OF_ORDER, [])
    assert feed(incoming, 1, 2, 1) == (Outcome.ACCEPTED, [(1, 2)])
    assert feed(incoming, 1, 5, 4) == (Outcome.OUT_OF_ORDER, [])
    assert incoming.held == 2
    assert feed(incoming, 1, 3, 2) == (Outcome.ACCEPTED, [(1, 3), (1, 4), (1, 5)])
    assert (incoming.held, incoming.position) == (0, (1, 5))


def test_a_held_packet_that_comes_again_is_a_duplicate() -> None:
    """It comes out once."""
    incoming = at(1, 1)
    feed(incoming, 1, 3, 2)
    assert feed(incoming, 1, 3, 2) == (Outcome.DUPLICATE, [])
    assert feed(incoming, 1, 2, 1)[1] == [(1, 2), (1, 3)]
    assert feed(incoming, 1, 3, 2) == (Outcome.DUPLICATE, [])


def test_what_is_held_is_bounded() -> None:
    """Beyond the limit packets are refused, and come again later; what fits is always accepted."""
    incoming = at(1, 1, OrderSettings(max_held_packets=2))
    assert feed(incoming, 1, 3, 2)[0] is Outcome.OUT_OF_ORDER
    assert feed(incoming, 1, 4, 3)[0] is Outcome.OUT_OF_ORDER
    assert feed(incoming, 1, 5, 4)[0] is Outcome.HOLD_FULL
    assert feed(incoming, 1, 2, 1)[1] == [(1, 2), (1, 3), (1, 4)]
    assert feed(incoming, 1, 5, 4) == (Outcome.ACCEPTED, [(1, 5)])


def test_a_gap_is_bridged_by_a_new_previous() -> None:
    """4 is held for 3, which expires: sent again with previous 1, it is accepted, and what waited for it too."""
    incoming = at(1, 1)
    feed(incoming, 1, 4, 3)
    feed(incoming, 1, 5, 4)
    assert feed(incoming, 1, 4, 1) == (Outcome.ACCEPTED, [(1, 4), (1, 5)])
    assert incoming.held == 0
    assert feed(incoming, 1, 3, 1) == (Outcome.DUPLICATE, [])


def test_a_held_packet_takes_the_newer_word_of_its_sender() -> None:
    """5 waits for 4; its sender gives 3 and 4 up while 2 is still missing: when 2 comes, 5 follows."""
    incoming = at(1, 1)
    feed(incoming, 1, 5, 4)
    assert feed(incoming, 1, 5, 2) == (Outcome.OUT_OF_ORDER, [])
    assert incoming.held == 1
    assert feed(incoming, 1, 5, 4) == (Outcome.DUPLICATE, [])
    assert feed(incoming, 1, 2, 1)[1] == [(1, 2), (1, 5)]


def test_a_held_packet_that_was_given_up_does_not_block_those_after_it() -> None:
    """6 is held and then given up together with 5; 7 says so, and follows 4."""
    incoming = at(1, 3)
    feed(incoming, 1, 6, 5)
    feed(incoming, 1, 7, 6)
    feed(incoming, 1, 7, 4)
    assert feed(incoming, 1, 4, 3)[1] == [(1, 4), (1, 7)]
    assert incoming.held == 0
    assert feed(incoming, 1, 8, 7)[1] == [(1, 8)]


def test_a_new_sequence_drops_what_was_held_of_the_old() -> None:
    """Its numbers no longer mean anything."""
    incoming = at(5, 7)
    feed(incoming, 5, 9, 8)
    feed(incoming, 6, 1, 0)
    assert incoming.held == 0
    assert feed(incoming, 6, 8, 1)[1] == [(6, 8)]
    assert feed(incoming, 6, 9, 8)[1] == [(6, 9)]


def test_a_new_sequence_may_be_held_before_its_first_packet() -> None:
    """Reordering happens at a change of sequence too."""
    incoming = at(5, 7)
    feed(incoming, 5, 9, 8)
    assert feed(incoming, 6, 2, 1) == (Outcome.OUT_OF_ORDER, [])
    assert incoming.held == 1
    assert feed(incoming, 6, 1, 0)[1] == [(6, 1), (6, 2)]


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


def test_the_next_packet_of_the_old_sequence_leaves_the_new_one_held() -> None:
    """It is still accepted, and releases nothing of the other."""
    incoming = at(5, 7)
    feed(incoming, 6, 2, 1)
    feed(incoming, 6, 9, 8)
    assert feed(incoming, 5, 8, 7)[1] == [(5, 8)]
    assert incoming.held == 2
    assert feed(incoming, 6, 1, 0)[1] == [(6, 1), (6, 2)]


def test_the_committed_position_follows_the_commits_alone() -> None:
    """Accepting moves nothing on the disk, and commits never go back."""
    incoming = at(1, 0)
    feed(incoming, 1, 1, 0)
    feed(incoming, 1, 2, 1)
    assert incoming.committed == (1, 0)
    incoming.handle_committed((1, 2))
    incoming.handle_committed((1, 1))
    assert incoming.committed == (1, 2)


@pytest.mark.parametrize(("number", "previous", "due"), [(8, 7, False), (10, 9, False), (7, 6, True), (3, 2, True)])
def test_every_packet_owes_an_order_ack_and_a_duplicate_at_once(number: int, previous: int, due: bool) -> None:
    """Before the accept test: also what is held or refused lets the sender learn how far we are."""
    incoming = at(5, 7)
    feed(incoming, 5, number, previous)
    assert incoming.ack.due is due
    assert (incoming.ack.deadline_ns is None) is due


def test_a_packet_that_asks_makes_the_order_ack_due() -> None:
    """Whatever becomes of it."""
    incoming = at(5, 7)
    incoming.handle_packet(make_header(10, 9, 5, ack_requested=True), "", 3 * MS)
    assert incoming.ack.due


# ---- against a naive model


@given(st.integers(1, 12), st.data())
def test_any_arrival_order_gives_the_sent_order_once(packets: int, data: st.DataObject) -> None:
    """Permuted, repeated, lost and in the end resent: outcome and output of each step are those of a naive model."""
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
    incoming: IncomingSequence[None] = IncomingSequence(OrderSettings())
    for number, previous in ((1, 0), (5, 1), (6, 5)):
        incoming.handle_packet(make_header(number, previous, 1), None, 0)
    assert [number for number in range(1, 9) if incoming.has_accepted(make_header(number, 0, 1))] == [1, 5, 6]
    for number in range(8, 8 + 2 * SKIPS_MAX, 2):
        incoming.handle_packet(make_header(number, number - 2, 1), None, 0)
    assert [incoming.has_accepted(make_header(number, 0, 1)) for number in (3, 7, 8, 9)] == [True, False, True, False]


def test_the_first_packets_may_be_passed_over() -> None:
    """All before the first that arrives had expired."""
    incoming: IncomingSequence[None] = IncomingSequence(OrderSettings())
    incoming.handle_packet(make_header(5, 0, 1), None, 0)
    assert [incoming.has_accepted(make_header(number, 0, 1)) for number in (4, 5)] == [False, True]


def test_a_held_packet_is_not_accepted() -> None:
    """It came twice and waits for the one before it: a duplicate, and on no disk."""
    incoming: IncomingSequence[None] = IncomingSequence(OrderSettings())
    held = make_header(2, 1, 1)
    outcomes = [incoming.handle_packet(held, None, 0)[0] for _ in range(2)]
    assert outcomes == [Outcome.OUT_OF_ORDER, Outcome.DUPLICATE]
    assert not incoming.has_accepted(held)


def test_rejections_have_the_names_of_their_reasons() -> None:
    """The log and the dead-letter queue say them; accepted and held are none."""
    reasons = {outcome.name: outcome.value for outcome in Outcome if isinstance(outcome.value, RejectReason)}
    assert reasons == {name: RejectReason[name] for name in ("DUPLICATE", "STALE_SEQUENCE", "HOLD_FULL")}
    assert {outcome.value for outcome in Outcome} - set(reasons.values()) == {"accepted", "held"}


@pytest.mark.parametrize(
    ("sequence", "number", "previous", "taken"),
    [(5, 8, 7, True), (5, 10, 0, True), (6, 1, 0, True), (5, 7, 6, False), (5, 10, 9, False), (4, 9, 0, False)],
    ids=["next", "behind a gap that is none", "new sequence", "duplicate", "gap", "old sequence"],
)
def test_a_run_is_accepted_as_its_packets_would_be(sequence: int, number: int, previous: int, taken: bool) -> None:
    """Or not at all, and then nothing has changed."""
    together, alone = at(5, 7), at(5, 7)
    assert together.handle_run(make_header(number, previous, sequence), 3, 0, ack_requested=False) is taken
    if taken:
        for step in range(3):
            feed(alone, sequence, number + step, previous if not step else number + step - 1)
        assert together.ack.pending == alone.ack.pending == 3
    assert together.position == alone.position
    skipped = make_header(9, 8, 5)
    assert together.has_accepted(skipped) is alone.has_accepted(skipped)


def test_a_run_waits_for_nothing_that_is_held() -> None:
    """A packet that came too early may belong between its packets."""
    incoming = at(5, 7)
    feed(incoming, 5, 10, 9)
    assert not incoming.handle_run(make_header(8, 7, 5), 2, 0, ack_requested=False)
    assert feed(incoming, 5, 8, 7) == (Outcome.ACCEPTED, [(5, 8)])
