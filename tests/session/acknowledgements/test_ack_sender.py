"""Which acks leave with which datagram."""

from dataclasses import replace

import pytest

from proof.search import stillness
from triack.base.ack_debt import AckDebt
from triack.base.ack_trigger import AckTrigger
from triack.base.delivery import DURABLE, Delivery
from triack.base.units import MS, SECOND
from triack.session.acknowledgements.ack_sender import AckSender
from triack.session.acknowledgements.session_ack import PATIENCE_NS
from triack.session.protocol.binary import BINARY
from triack.session.protocol.events import AckSent, StoreAckSent
from triack.session.protocol.frames import AckFrame, Ask, PacketFrame, StoreAckFrame
from triack.session.protocol.policy import Policy
from triack.session.protocol.settings import SessionSettings
from triack.session.protocol.timers import Timer, Timers


def ack_sender_of(session_ack: AckTrigger, store_ack: AckTrigger | None = None) -> AckSender:
    settings = SessionSettings(max_unacked_packet=8, ack_trigger=session_ack, store_ack_trigger=store_ack)
    return AckSender(8, Policy.of(settings), span=16)


def arrive(ack_sender: AckSender, *numbers: int, now_ns: int = 0) -> None:
    """Recoverable packets arrive, and are on the disk in the same moment."""
    for number in numbers:
        ack_sender.session_ack.handle_packet(number, 100, counter=number, ack_requested=False, now_ns=now_ns)
        ack_sender.store_ack.handle_packet(number, 100, ack_requested=False)
        ack_sender.store_ack.handle_stored([number], now_ns)


def test_each_ack_leaves_by_its_own_terms() -> None:
    """Session acks at half of the window, store acks at a quarter; alone only what is due."""
    ack_sender = ack_sender_of(AckTrigger(piggyback_after=None), AckTrigger(window_share=0.25, piggyback_after=None))
    arrive(ack_sender, 1)
    assert ack_sender.leaving(0, with_packet=True) == (False, False)
    arrive(ack_sender, 2)
    assert ack_sender.leaving(0, with_packet=False) == (False, True)
    arrive(ack_sender, 3, 4)
    assert ack_sender.leaving(0, with_packet=False) == (True, True)


def test_a_packet_takes_along_what_may_ride() -> None:
    """A session ack at any time, a store ack after three quarters of its delay."""
    ack_sender = ack_sender_of(AckTrigger(), AckTrigger(piggyback_after=0.75))
    arrive(ack_sender, 1)
    assert ack_sender.leaving(0, with_packet=False) == (False, False)
    assert ack_sender.leaving(374 * MS, with_packet=True) == (True, False)
    assert ack_sender.leaving(375 * MS, with_packet=True) == (True, True)


def test_the_earliest_wait_of_each_ack_has_a_timer() -> None:
    """It goes when the ack is due or has left."""
    ack_sender, timers = ack_sender_of(AckTrigger(), AckTrigger(delay_s=2)), Timers()
    arrive(ack_sender, 1, now_ns=SECOND)
    ack_sender.arm(timers)
    assert stillness.running(timers) == [Timer.ACK_DELAY, Timer.STORE_ACK_DELAY]
    assert timers.next_deadline() == 1_500 * MS
    ack_sender.handle_timer(1_500 * MS)
    ack_sender.arm(timers)
    assert (stillness.running(timers), timers.next_deadline()) == ([Timer.STORE_ACK_DELAY], 3 * SECOND)


def test_what_a_datagram_says() -> None:
    """Both acks, why they left, and what is new in them; one that has left is due no more."""
    ack_sender = ack_sender_of(AckTrigger(), AckTrigger(window_share=0.25))
    arrive(ack_sender, 1, 3)
    ack, store_ack = ack_sender.ack(7 * MS), ack_sender.store_ack_with(9)
    assert (ack, store_ack) == (AckFrame(1, [(3, 3)], 8, 3, 7 * MS, []), StoreAckFrame(1, [(3, 3)], 9))
    assert ack_sender.due_bytes(32, 64) == 96
    assert ack_sender.handle_ack_sent(ack) == AckSent(1, [(3, 3)], "gap", 2)
    assert ack_sender.due_bytes(32, 64) == 64
    assert ack_sender.handle_store_ack_sent(store_ack) == StoreAckSent(1, [(3, 3)], "count", 2)
    assert ack_sender.due_bytes(32, 64) == 0


def test_what_was_agreed_is_in_force() -> None:
    """Both acks take it from then on."""
    ack_sender = ack_sender_of(AckTrigger())
    ack_sender.agree(Policy.of(SessionSettings(max_unacked_packet=3, ack_trigger=AckTrigger(delay_rtts=8))), 100 * MS)
    assert (ack_sender.terms.count, ack_sender.store_terms.count) == (1, 1)
    assert ack_sender.terms.delay_ns == ack_sender.store_terms.delay_ns == 800 * MS


def test_a_search_lets_a_timer_run_out() -> None:
    """The one that it says."""
    ack_sender = ack_sender_of(AckTrigger())
    arrive(ack_sender, 1)
    stillness.expire_ack_sender(ack_sender, Timer.STORE_ACK_DELAY)
    ack_sender.handle_timer(0)
    assert ack_sender.leaving(0, with_packet=False) == (False, True)
    stillness.expire_ack_sender(ack_sender, Timer.ACK_DELAY)
    ack_sender.handle_timer(0)
    stillness.normalize_ack_sender(ack_sender)
    assert ack_sender.leaving(0, with_packet=False) == (True, True)


@pytest.mark.parametrize("delivery", list(Delivery))
@pytest.mark.parametrize("ack_requested", [[], [4]])
@pytest.mark.plain
def test_a_run_is_counted_as_its_packets_would_be(delivery: Delivery, ack_requested: list[int]) -> None:
    """The same acks are owed, for the same packets, after a gap as well."""
    together, alone = ack_sender_of(AckTrigger()), ack_sender_of(AckTrigger())
    for ack_sender in (together, alone):
        arrive(ack_sender, 1)
    payloads = [BINARY.encode(PacketFrame(number, delivery, number in ack_requested, b"12")) for number in (2, 3, 4)]
    run = together.read_run(BINARY, [*payloads, BINARY.encode(PacketFrame(9, delivery, False, b""))])
    assert run is not None
    assert together.handle_run(run, 7, MS).contents == [b"12"] * 3
    for counter, payload in enumerate(payloads, 5):
        (frame,) = BINARY.decode(payload)
        assert isinstance(frame, PacketFrame)
        alone.handle_packet(frame, counter, MS)
    for ack_sender in (together, alone):
        if delivery in DURABLE:
            ack_sender.store_ack.handle_stored([2, 3, 4], MS)
    for one, other in ((together.session_ack, alone.session_ack), (together.store_ack, alone.store_ack)):
        assert {name: getattr(one.debt, name) for name in AckDebt.__slots__ if name != "terms"} == {
            name: getattr(other.debt, name) for name in AckDebt.__slots__ if name != "terms"
        }
    assert together.session_ack.newest_counter == alone.session_ack.newest_counter == 7
    assert together.received.cumulative == together.store_ack.stored.cumulative == 4


def test_a_run_ends_at_what_a_correct_sender_could_send() -> None:
    """Numbers beyond it are looked at by themselves."""
    ack_sender = ack_sender_of(AckTrigger())
    run = ack_sender.read_run(
        BINARY, [BINARY.encode(PacketFrame(number, Delivery.EXPRESS, False, b"")) for number in range(1, 30)]
    )
    assert run is not None
    assert len(run.contents) == 16
    ack_sender.handle_run(run, 1, 0)
    assert ack_sender.read_run(BINARY, [BINARY.encode(PacketFrame(18, Delivery.EXPRESS, False, b""))]) is None


def test_a_session_ack_waits_for_the_store_ack_that_is_asked_for_with_it() -> None:
    """For some milliseconds; then, and for what no commit will hold, it leaves by itself."""
    frame = PacketFrame(1, Delivery.TRANSACTIONAL, Ask.WITH_STORE, b"12")
    stored, late, express = (ack_sender_of(AckTrigger(piggyback_after=None)) for _ in range(3))
    for ack_sender in (stored, late):
        ack_sender.handle_packet(frame, 1, 0)
        assert ack_sender.leaving(0, with_packet=False) == (False, False)
    stored.handle_stored([1], MS)
    assert stored.leaving(MS, with_packet=False) == (True, True)
    late.handle_timer(PATIENCE_NS)
    assert late.leaving(PATIENCE_NS, with_packet=False) == (True, False)
    express.handle_packet(replace(frame, delivery=Delivery.EXPRESS), 1, 0)
    assert express.leaving(0, with_packet=False) == (True, False)


def test_a_run_asks_as_its_most_urgent_packet_does() -> None:
    """One that cannot wait is enough."""
    for ack_requested, due in (
        ([Ask.NO, Ask.WITH_STORE], False),
        ([Ask.WITH_STORE, Ask.AT_ONCE, Ask.WITH_STORE], True),
    ):
        ack_sender = ack_sender_of(AckTrigger())
        payloads = [
            BINARY.encode(PacketFrame(number, Delivery.TRANSACTIONAL, ask, b""))
            for number, ask in enumerate(ack_requested, 1)
        ]
        run = ack_sender.read_run(BINARY, payloads)
        assert run is not None
        ack_sender.handle_run(run, 1, 0)
        assert ack_sender.leaving(0, with_packet=False) == (due, False)
        assert ack_sender.session_ack.debt.deadline_ns == (None if due else PATIENCE_NS)
