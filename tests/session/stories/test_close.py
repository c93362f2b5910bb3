"""How a session ends: idle, drained, closed by its owner, or for a fault; each with its name."""

import pytest

from tests.session.pair import DEFAULTS, RTT_NS, Pair, closes, cut, goodbyes, reasons
from triack.base.delivery import Delivery
from triack.base.ranges import NumberSet
from triack.base.units import MS, SECOND
from triack.session.protocol.binary import BINARY
from triack.session.protocol.events import PacketsAcked, SessionClosed, TransmitKind
from triack.session.protocol.frames import AckFrame, PacketFrame, PingFrame, StoreAckFrame
from triack.session.protocol.settings import SessionSettings
from triack.session.protocol.states import CloseReason, SessionState


def test_an_idle_session_closes_after_the_cleanup_interval() -> None:
    """300 s after the last packet either way; acks and pings are not packets."""
    pair = Pair.opened()
    pair.run(100 * SECOND)
    pair.send("a", 1)
    sent_ns = pair.now_ns
    pair.run(200 * SECOND)
    pair.inject("b", BINARY.encode(PingFrame()))
    pair.drain()
    pair.run_until(lambda: bool(closes(pair)))
    assert pair.now_ns == sent_ns + 300 * SECOND
    pair.run(SECOND)
    assert reasons(pair, "a") == reasons(pair, "b") == [CloseReason.IDLE]


def test_what_is_unacknowledged_is_not_idle() -> None:
    pair = Pair.opened(SessionSettings(cleanup_interval_s=1.0, ack_timeout_s=60.0))
    pair.confirm()
    cut(pair)
    pair.send("a", 1)
    pair.run(30 * SECOND)
    assert pair.a.state is SessionState.OPEN


def test_a_drained_session_waits_for_both_acks() -> None:
    """No new packets; when the last packet is acknowledged and stored it says goodbye."""
    pair = Pair.opened(store_ns=700 * MS)
    pair.send("a", 3, Delivery.RECOVERABLE)
    pair.a.drain(pair.now_ns)
    assert pair.a.room == 0
    pair.run(650 * MS)
    assert (pair.unacked["a"], pair.a.state) == (set(), SessionState.DRAINING)
    pair.run(SECOND)
    assert closes(pair) == [SessionClosed(CloseReason.DRAINED, 0)]
    assert (goodbyes(pair, "a"), goodbyes(pair, "b")) == ([CloseReason.DRAINED], [])
    assert reasons(pair, "b") == [CloseReason.PEER_CLOSED]


def test_draining_sends_what_is_queued() -> None:
    """Packets handed over are not forgotten because the congestion window is full."""
    pair = Pair.opened()
    for _ in range(40):
        pair.a.send_packet(Delivery.EXPRESS, bytes(1_000), None)
    pair.a.drain(pair.now_ns)
    pair.drain()
    pair.run(2 * SECOND)
    assert len(pair.fresh("b")) == 40
    assert reasons(pair) == [CloseReason.DRAINED]


def test_draining_ends_in_time() -> None:
    pair = Pair.opened(SessionSettings(ack_timeout_s=60.0))
    cut(pair)
    pair.send("a", 1)
    start_ns = pair.now_ns
    pair.a.drain(start_ns)
    pair.run_until(lambda: bool(closes(pair)))
    assert pair.now_ns - start_ns == 5 * SECOND
    assert closes(pair) == [SessionClosed(CloseReason.LOCAL_STOP, 1)]


def test_waiting_for_the_disk_is_not_idle() -> None:
    """A session that still expects a store ack is in use. When it drains it has its own limit, and idle is no end."""
    pair = Pair.opened(SessionSettings(cleanup_interval_s=3.0), peer_settings=DEFAULTS, store_ns=None)
    pair.send("a", 1, Delivery.RECOVERABLE, ack_requested=True)
    pair.run(4 * SECOND)
    assert pair.a.state is SessionState.OPEN
    pair.a.drain(pair.now_ns)
    pair.run(10 * SECOND)
    assert reasons(pair) == [CloseReason.LOCAL_STOP]


def test_draining_what_is_not_open_closes_it() -> None:
    """There is nothing to wait for, and no one to tell."""
    pair = Pair()
    pair.a.drain(0)
    pair.drain()
    assert (reasons(pair), goodbyes(pair, "a")) == ([CloseReason.LOCAL_STOP], [])


def test_a_goodbye_while_an_ack_is_owed_leaves_no_timer() -> None:
    pair = Pair.opened()
    pair.send("a", 1)
    pair.run(50 * MS)
    pair.a.close(CloseReason.LOCAL_STOP)
    pair.drain()
    pair.run(20 * MS)
    assert (pair.b.state, pair.b.next_deadline()) == (SessionState.CLOSED, None)


def test_nothing_follows_a_goodbye_in_its_datagram() -> None:
    pair = Pair.opened()
    pair.inject("b", b"\x05\x01" + BINARY.encode(PacketFrame(1, Delivery.EXPRESS, False, b"late")))
    pair.drain()
    assert pair.fresh("b") == []


def test_an_acceptor_says_goodbye_to_a_peer_that_may_be_open() -> None:
    """The initiator opens with the accept: it learns of the end, although the acceptor never was open."""
    pair = Pair(lose=lambda end, sent: end == "a" and sent.kind is TransmitKind.DATA)
    pair.send("a", 1)
    pair.run_until(lambda: pair.a.state is SessionState.OPEN)
    assert pair.b.state is SessionState.ACCEPTING
    pair.b.close(CloseReason.SUPERSEDED)
    pair.drain()
    pair.run(SECOND)
    assert reasons(pair) == [CloseReason.PEER_CLOSED]


def test_a_rollback_is_announced_without_an_ack_and_named_alike_at_both_ends() -> None:
    """An end that learns of the rollback of a store acknowledges nothing more, and gets no answer."""
    pair = Pair.opened()
    pair.send("b", 3)
    pair.run(RTT_NS // 2)
    pair.a.close(CloseReason.ROLLBACK)
    pair.drain()
    pair.run(SECOND)
    assert reasons(pair, "a") == reasons(pair, "b") == [CloseReason.ROLLBACK]
    assert closes(pair, "b") == [SessionClosed(CloseReason.ROLLBACK, 3)]
    assert goodbyes(pair, "b") == []


@pytest.mark.parametrize("ack", [AckFrame.of(NumberSet(3), 64, 0, 0), StoreAckFrame.of(NumberSet(0, [(3, 3)]))])
def test_an_ack_of_what_was_never_sent_closes(ack: AckFrame | StoreAckFrame) -> None:
    pair = Pair.opened()
    pair.send("a", 2)
    pair.inject("a", BINARY.encode(ack))
    pair.drain()
    assert reasons(pair) == goodbyes(pair, "a") == [CloseReason.PROTOCOL_ERROR]


def test_tokens_come_back_with_the_acks() -> None:
    pair = Pair.opened()
    pair.send("a", 40)
    pair.run(SECOND)
    acked = [event for event in pair.events["a"] if isinstance(event, PacketsAcked)]
    assert [packet.context for event in acked for packet in event.packets] == list(range(1, 41))


@pytest.mark.parametrize("reason", [it for it in CloseReason if it.value not in ("drained", "connect-timeout")])
def test_each_reason_is_reported_once_and_told_to_a_peer_that_may_hear_it(reason: CloseReason) -> None:
    pair = Pair.opened()
    pair.a.close(reason)
    pair.a.close(CloseReason.LOCAL_STOP)
    pair.drain()
    is_silent = reason in (CloseReason.PATH_LOST, CloseReason.PEER_CLOSED)
    assert (reasons(pair), goodbyes(pair, "a")) == ([reason], [] if is_silent else [reason])
    assert pair.a.next_deadline() is None


def test_a_drained_session_does_not_wait_for_store_acks_that_nobody_needs() -> None:
    """An order ack may free a packet before its store ack comes; the session ends then, not with its time limit."""
    pair = Pair.opened(store_ns=60 * SECOND)
    numbers = pair.send("a", 3, Delivery.TRANSACTIONAL)
    pair.a.drain(pair.now_ns)
    pair.run(650 * MS)
    pair.a.handle_freed(numbers[:2])
    assert pair.a.state is SessionState.DRAINING
    pair.a.handle_freed(numbers)
    pair.drain()
    assert closes(pair) == [SessionClosed(CloseReason.DRAINED, 0)]
