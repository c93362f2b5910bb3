"""A store ack covers packets on the disk, and no others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.session.pair import Pair, cut
from triack.base.ack_debt import AckState, Cause
from triack.base.ack_trigger import AckTrigger, terms_of
from triack.base.delivery import DURABLE, Delivery
from triack.base.ranges import NumberSet
from triack.base.units import MS, SECOND
from triack.session.acknowledgements.store_ack import StoreAck
from triack.session.protocol.binary import BINARY
from triack.session.protocol.events import PacketsStored
from triack.session.protocol.frames import PacketFrame, PingFrame, StoreAckFrame
from triack.session.protocol.settings import SessionSettings
from triack.session.protocol.states import SessionState


def make_ack(trigger: AckTrigger | None = None, window: int = 64) -> StoreAck:
    return StoreAck(terms_of(trigger or AckTrigger(), window))


def test_owed_when_a_commit_has_returned() -> None:
    """Not before; due half a second later, and sending settles it."""
    ack = make_ack()
    for number in (1, 2, 3):
        ack.handle_packet(number, 100, ack_requested=False)
    assert not ack.debt.owed
    ack.handle_stored([1, 3], SECOND)
    assert (ack.debt.state, ack.debt.deadline_ns) == (AckState.OWED, 1_500 * MS)
    assert (ack.stored.cumulative, ack.stored.ranges) == (1, [(3, 3)])
    ack.debt.handle_sent()
    assert not ack.debt.owed


def test_due_at_a_share_of_the_window_or_at_bytes() -> None:
    """By the same counting as session acks, of what is on the disk."""
    half, size = make_ack(window=4), make_ack(AckTrigger(window_share=None, bytes_=250))
    for ack in (half, size):
        for number in (1, 2, 3):
            ack.handle_packet(number, 100, ack_requested=False)
        ack.handle_stored([1], 0)
        assert not ack.debt.due
    half.handle_stored([2], 0)
    assert half.debt.cause is Cause.COUNT
    size.handle_stored([2], 0)
    assert not size.debt.due
    size.handle_stored([3], 0)
    assert size.debt.cause is Cause.BYTES


def test_who_asks_is_answered_when_it_is_on_the_disk() -> None:
    """With the packets before it, and those whose write a ping finds pending; not those after them."""
    ack = make_ack()
    for number in (1, 2, 3):
        ack.handle_packet(number, 100, ack_requested=number == 2)
    ack.handle_stored([3], 0)
    assert not ack.debt.due
    ack.handle_stored([1], 0)
    assert ack.debt.due
    ack.debt.handle_sent()
    ack.handle_packet(4, 100, ack_requested=False)
    ack.handle_request()
    ack.debt.handle_sent()
    ack.handle_stored([2, 4], 0)
    assert ack.debt.due


def test_express_numbers_are_passed_without_a_debt() -> None:
    """The cumulative number may run over them, but no ack leaves for them."""
    ack = make_ack()
    ack.handle_not_durable(1)
    assert not ack.debt.owed
    ack.handle_stored([2], 0)
    assert ack.stored.cumulative == 2


def test_a_request_repeats_what_is_stored() -> None:
    """A lost store ack costs one request; with nothing stored there is nothing to say."""
    ack = make_ack()
    ack.handle_request()
    assert not ack.debt.due
    ack.handle_stored([1], 0)
    ack.debt.handle_sent()
    ack.handle_request()
    assert ack.debt.due


# ---- between two sessions


def stored_at(pair: Pair) -> list[tuple[int, int]]:
    """When the acceptor told a store ack, and its cumulative number."""
    return [(at_ns, sent.store_ack.cumulative) for at_ns, sent in pair.sent["b"] if sent.store_ack is not None]


def test_it_leaves_with_the_commit() -> None:
    """The packet arrives at 10 ms; the disk takes 70 ms; the ack of its arrival does not wait for the disk."""
    pair = Pair.opened(store_ns=70 * MS)
    start_ns = pair.now_ns
    pair.send("a", 1, Delivery.RECOVERABLE, ack_requested=True)
    pair.run(200 * MS)
    assert pair.acks("b")[0][0] == start_ns + 10 * MS
    assert stored_at(pair) == [(start_ns + 80 * MS, 1)]
    told = [event for event in pair.events["a"] if isinstance(event, PacketsStored)]
    assert [[packet.context for packet in event.packets] for event in told] == [[1]]


def test_express_brings_no_store_ack() -> None:
    """The peer awaits none."""
    pair = Pair.opened()
    pair.send("a", 5)
    pair.run(2 * SECOND)
    assert stored_at(pair) == []


def test_a_lost_store_ack_is_asked_for() -> None:
    """The sender does not wait for its timeout: it asks, and the receiver repeats itself."""
    pair = Pair.opened()
    pair.lose = lambda end, sent: sent.store_ack is not None and len(stored_at(pair)) == 1
    pair.send("a", 1, Delivery.TRANSACTIONAL, ack_requested=True)
    pair.run(5 * SECOND)
    assert [cumulative for _, cumulative in stored_at(pair)] == [1, 1]
    assert pair.a.state is SessionState.OPEN
    pair.run(30 * SECOND)
    assert pair.a.state is SessionState.OPEN


def test_a_duplicate_of_what_is_stored_repeats_the_store_ack() -> None:
    """Its sender may have missed it; the answer does not wait for a ping."""
    pair = Pair.opened()
    pair.send("a", 1, Delivery.RECOVERABLE)
    pair.run(100 * MS)
    before = len(stored_at(pair))
    pair.inject("b", pair.sent["a"][-1][1].payload)
    pair.drain()
    assert stored_at(pair)[before:] == [(pair.now_ns, 1)]


def test_no_commit_no_store_ack_whatever_is_asked() -> None:
    """An arrival, a duplicate and a ping do not make it due."""
    pair = Pair.opened(store_ns=None)
    pair.send("a", 2, Delivery.RECOVERABLE)
    pair.run(SECOND)
    for payload in (pair.sent["a"][-1][1].payload, BINARY.encode(PingFrame())):
        pair.inject("b", payload)
        pair.drain()
    assert stored_at(pair) == []
    pair.b.handle_stored([2], pair.now_ns)
    pair.drain()
    assert pair.sent["b"][-1][1].store_ack is not None
    assert pair.sent["b"][-1][1].store_ack.cumulative == 0
    assert pair.sent["b"][-1][1].store_ack.ranges == [(2, 2)]


def test_a_packet_is_reported_stored_once() -> None:
    """Although it is sent again after its store ack, because the session ack of it was lost."""
    pair = Pair.opened(store_ns=None)
    pair.send("a", 2, Delivery.RECOVERABLE)
    pair.inject("a", BINARY.encode(StoreAckFrame.of(NumberSet(0, [(2, 2)]))))
    pair.run(SECOND)
    assert [number for _, number in pair.packets("a")].count(2) == 1
    cut(pair)
    third = pair.send("a", 2, Delivery.RECOVERABLE)[-1]
    pair.inject("a", BINARY.encode(StoreAckFrame.of(NumberSet(1, [(third, third)]))))
    pair.run(SECOND)
    assert [number for _, number in pair.packets("a")].count(third) > 1
    pair.inject("a", BINARY.encode(StoreAckFrame.of(NumberSet(third))))
    pair.drain()
    told = [event for event in pair.events["a"] if isinstance(event, PacketsStored)]
    assert [packet.context for event in told for packet in event.packets] == [2, 1, 4, 3]


ARRIVAL = st.tuples(st.just("arrive"), st.integers(1, 30), st.sampled_from(Delivery))
COMMIT = st.tuples(st.just("commit"), st.integers(0, 2**30), st.just(Delivery.EXPRESS))
PING = st.tuples(st.just("ping"), st.just(0), st.just(Delivery.EXPRESS))


@pytest.mark.slow
@pytest.mark.gate
@given(st.lists(st.one_of(ARRIVAL, COMMIT, PING), max_size=60))
def test_never_before_the_commit(steps: list[tuple[str, int, Delivery]]) -> None:
    """Arrivals, duplicates, requests and commits in any interleaving: a durable number is acked only once committed.

    After the last commit everything that arrived has been acked.
    """
    pair = Pair.opened(SessionSettings(cleanup_interval_s=1000.0), store_ns=None)
    # The packets are of the test's own making: their sender must not hear that they have come.
    cut(pair)
    session, classes, committed = pair.b, dict[int, Delivery](), set[int]()

    def commit(numbers: list[int]) -> None:
        committed.update(numbers)
        session.handle_stored(numbers, pair.now_ns)

    def told() -> set[int]:
        numbers: set[int] = set()
        for _, sent in pair.sent["b"]:
            if sent.store_ack is not None:
                numbers.update(range(1, sent.store_ack.cumulative + 1))
                numbers.update(n for first, last in sent.store_ack.ranges for n in range(first, last + 1))
        return numbers

    def waiting() -> list[int]:
        return [number for number, kind in classes.items() if kind in DURABLE and number not in committed]

    for step, value, delivery in steps:
        if step == "arrive":
            kind = classes.setdefault(value, delivery)
            pair.inject("b", BINARY.encode(PacketFrame(value, kind, False, b"")))
        elif step == "ping":
            pair.inject("b", BINARY.encode(PingFrame()))
        elif waiting():
            commit([number for number in waiting() if value >> number & 1] or waiting()[:1])
        pair.drain()
        assert told() <= set(classes) - set(waiting())
    if waiting():
        commit(waiting())
    pair.run(SECOND)
    assert told() >= committed
