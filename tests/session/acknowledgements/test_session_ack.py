"""When a session ack leaves: the machine alone, then between two sessions."""

from tests.session.pair import Pair
from triack.base.ack_debt import AckState, Cause
from triack.base.ack_trigger import AckTrigger, terms_of
from triack.base.units import MS, SECOND
from triack.session.acknowledgements.session_ack import WITHHELD_MAX, SessionAck
from triack.session.protocol.binary import BINARY
from triack.session.protocol.frames import AckFrame

BYTES = 100


def make_ack(span: int = 128) -> SessionAck:
    return SessionAck(terms_of(AckTrigger(), 64), span)


def arrive(ack: SessionAck, *numbers: int, now_ns: int = 0, ack_requested: bool = False) -> AckState:
    for number in numbers:
        ack.handle_packet(number, BYTES, counter=number, ack_requested=ack_requested, now_ns=now_ns)
    return ack.debt.state


def test_a_gap_is_acknowledged_at_once_and_so_is_what_fills_it() -> None:
    ack = make_ack()
    arrive(ack, 1, 3)
    assert (ack.debt.cause, ack.received.ranges) == (Cause.GAP, [(3, 3)])
    ack.debt.handle_sent()
    arrive(ack, 2)
    assert ack.debt.cause is Cause.GAP
    ack.debt.handle_sent()
    assert arrive(ack, 4) is AckState.OWED


def test_a_duplicate_is_acknowledged_at_once_and_not_counted() -> None:
    """Its sender has not seen the ack."""
    ack = make_ack()
    arrive(ack, 1)
    ack.debt.handle_sent()
    assert not ack.handle_packet(1, BYTES, counter=2, ack_requested=False, now_ns=5 * MS)
    assert (ack.debt.state, ack.debt.cause, ack.debt.pending) == (AckState.DUE, Cause.DUPLICATE, 0)


def test_what_is_refused_is_named_until_its_sender_knows() -> None:
    """It is covered all the same: it arrived."""
    ack = make_ack()
    arrive(ack, 1, 2, 3, 5)
    ack.handle_refused(2)
    ack.handle_refused(3)
    assert (ack.told[0].cumulative, ack.told[0].ranges, ack.told[1]) == (3, [(5, 5)], [(2, 3)])
    ack.handle_rejections_known((2,))
    ack.handle_rejections_known((9,))
    assert ack.told[1] == [(3, 3)]
    ack.handle_rejections_known((3,))
    assert ack.told == (ack.received, [])


def test_an_ack_stops_before_what_it_has_no_room_to_name() -> None:
    """When some of it is settled, the next ack covers the rest at once."""
    ack = make_ack()
    arrive(ack, *range(1, 41))
    for number in range(1, 41, 2):
        ack.handle_refused(number)
    ack.debt.handle_sent()
    received, refused = ack.told
    assert (received.cumulative, received.ranges) == (32, [])
    assert refused == [(number, number) for number in range(1, 33, 2)]
    ack.handle_rejections_known((1,))
    assert ack.debt.due
    assert (ack.told[0].cumulative, ack.told[1][-1]) == (34, (33, 33))


def test_a_packet_that_gets_no_answer_is_acknowledged_at_once() -> None:
    """Its sender would wait for what does not come."""
    ack = make_ack()
    arrive(ack, 1)
    ack.handle_refused(1)
    ack.debt.handle_sent()
    ack.handle_unanswered(1)
    assert (ack.debt.due, ack.told) == (True, (ack.received, []))


def test_a_limited_number_of_refused_packets_is_remembered() -> None:
    """A peer that never takes its rejections costs no more than that."""
    ack = make_ack(span=10_000)
    for number in range(1, 2 * WITHHELD_MAX):
        arrive(ack, number)
        ack.handle_refused(number)
    assert ack.told[1] == [(1, WITHHELD_MAX)]


def test_reach_is_bounded_by_the_span() -> None:
    """A correct sender is never further ahead, so a peer cannot make us remember more."""
    ack = make_ack(span=10)
    assert (ack.in_reach(10), ack.in_reach(11)) == (True, False)
    arrive(ack, 1, 3)
    assert (ack.in_reach(11), ack.in_reach(12)) == (True, False)


def test_the_newest_datagram_is_echoed() -> None:
    """By its counter and not by its number; one that was overtaken, or lost a race, does not count."""
    ack = make_ack()
    for number, counter, now_ns in ((1, 5, 10), (2, 9, 20), (3, 7, 30)):
        ack.handle_packet(number, BYTES, counter=counter, ack_requested=False, now_ns=now_ns)
    assert (ack.newest_counter, ack.newest_at_ns) == (9, 20)
    ack.handle_packet(2, BYTES, counter=12, ack_requested=False, now_ns=40)
    assert (ack.newest_counter, ack.newest_at_ns) == (12, 40)


def test_a_lone_packet_is_acknowledged_after_the_idle_delay() -> None:
    pair = Pair.opened()
    arrives_ns = pair.now_ns + 10 * MS
    pair.send("a", 1)
    pair.run(2 * SECOND)
    assert pair.acks("b") == [(arrives_ns + 500 * MS, "delay", 1)]
    frames = [frame for _, sent in pair.sent["b"] if sent.ack for frame in BINARY.decode(sent.payload)]
    assert frames == [AckFrame(1, [], 64, pair.sent["a"][-1][1].counter, 500 * MS)]
    assert pair.unacked["a"] == set()
