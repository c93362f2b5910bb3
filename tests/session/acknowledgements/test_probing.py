"""Asking for acks that do not come: which packets are resent, after which waits, and when a ping leaves."""

from collections.abc import Callable

import pytest

from proof.search import stillness
from triack.base.delivery import Delivery
from triack.session.acknowledgements.probing import Probing
from triack.session.protocol.packets import PacketState, SessionPacket


def flying(*numbers: int) -> list[SessionPacket]:
    """Packets that are in flight."""
    return [SessionPacket(n, Delivery.EXPRESS, b"", None, False, 100, PacketState.IN_FLIGHT) for n in numbers]


def test_the_wait_doubles_and_progress_begins_again() -> None:
    """Up to the most there is, which the first wait may exceed."""
    probing, waits = Probing(), []
    for _ in range(4):
        waits.append(probing.wait_ns(10, 50))
        probing.handle_timer([], awaits=True)
    assert waits == [10, 20, 40, 50]
    assert probing.wait_ns(60, 50) == 60
    probing.handle_progress()
    assert probing.wait_ns(10, 50) == 10
    for _ in range(5_000):
        probing.handle_timer([], awaits=True)
    assert probing.wait_ns(10, 10**9) == 10 << 10


def test_where_probes_are_lost_all_the_time_the_wait_doubles_as_much_later() -> None:
    """If four probes are usual, three are no sign of congestion; on a path that got well, one is."""
    probing = Probing()
    for _ in range(100):
        for _ in range(4):
            probing.handle_timer([], awaits=True)
        probing.handle_progress()
    waits, persists = [], []
    for _ in range(12):
        waits.append(probing.wait_ns(10, 1_000))
        probing.handle_timer([], awaits=True)
        persists.append(probing.poll_persistent())
    assert waits == [10, 10, 10, 10, 20, 20, 20, 40, 40, 40, 40, 80]
    assert persists.index(True) == 10
    for _ in range(20):
        probing.handle_progress()
        probing.handle_timer([], awaits=True)
    assert probing.wait_ns(10, 1_000) == 20


def test_a_peer_that_never_answers_is_asked_as_rarely_as_any() -> None:
    """Only rows that ended with an answer say what is usual, however long: of them no more than eight probes count."""
    probing = Probing()
    for _ in range(1_000):
        probing.handle_timer([], awaits=True)
    assert probing.wait_ns(10, 10**9) == 10 << 10
    for _ in range(100):
        probing.handle_progress()
        for _ in range(50):
            probing.handle_timer([], awaits=True)
    probing.handle_progress()
    for _ in range(8):
        probing.handle_timer([], awaits=True)
    assert probing.wait_ns(10, 10**9) == 20


def test_the_oldest_packets_go_again_one_after_the_other() -> None:
    """Each once for each unanswered wait."""
    probing, (first, second) = Probing(), flying(1, 2)
    probing.handle_timer([first, second], awaits=False)
    assert probing.peek() is first
    assert probing.handle_sent(first)
    assert probing.peek() is second
    assert probing.handle_sent(second)
    assert probing.peek() is None
    assert not probing.handle_sent(first)
    assert not probing.ping_due


def test_what_was_acknowledged_meanwhile_is_no_probe() -> None:
    """Nor is what is known to be lost: that goes out by itself."""
    probing, packets = Probing(), flying(1, 2, 3)
    probing.handle_timer(packets, awaits=False)
    packets[0].state, packets[1].state = PacketState.ACKED, PacketState.LOST
    assert probing.peek() is packets[2]


def test_another_packet_that_goes_first_is_no_probe() -> None:
    """The probe is still due after it."""
    probing, (probe, other) = Probing(), flying(1, 2)
    probing.handle_timer([probe], awaits=False)
    assert not probing.handle_sent(other)
    assert probing.peek() is probe


def test_a_ping_asks_for_store_acks_alone() -> None:
    """With nothing unacknowledged; and one that is due stays so when there is nothing to ask for."""
    probing = Probing()
    probing.handle_timer([], awaits=False)
    assert not probing.ping_due
    probing.handle_timer([], awaits=True)
    assert probing.ping_due
    probing.handle_timer([], awaits=False)
    assert probing.ping_due


def test_three_unanswered_in_a_row_are_persistent() -> None:
    """RFC 9002 7.6.1. It is reported once, and again only after something was acknowledged."""
    probing, packets = Probing(), flying(1)
    for _ in range(2):
        seen = []
        for _ in range(5):
            probing.handle_timer(packets, awaits=False)
            seen.append(probing.poll_persistent())
        assert seen == [False, False, True, False, False]
        probing.handle_progress()
        assert not probing.poll_persistent()


def test_for_a_search_the_rounds_are_forgotten_and_what_is_due_is_not() -> None:
    """What leaves is decided by it."""
    probing, packets = Probing(), flying(1)
    for _ in range(5):
        probing.handle_timer(packets, awaits=False)
    stillness.normalize_probing(probing)
    assert probing.wait_ns(10, 10_000) == 10
    assert probing.last_asked
    assert probing.peek() is packets[0]


def test_over_a_stream_it_asks_without_sending_again() -> None:
    """An unacknowledged packet is in flight; a copy would only queue behind it."""
    probing = Probing(reliable=True)
    assert not probing.handle_timer(flying(1), awaits=False)
    assert probing.ping_due
    assert probing.peek() is None


def test_what_an_answer_over_a_stream_does_not_acknowledge_goes_again() -> None:
    """Until something is acknowledged, or another packet leaves: the answer may be older than that."""
    probing, (first, second) = Probing(reliable=True), flying(1, 2)
    for moves_on in (probing.handle_progress, lambda: probing.handle_sent(second)):
        probing.handle_barren()
        assert probing.handle_timer([first], awaits=False)
        assert probing.peek() is first
        assert probing.handle_sent(first)
        moves_on()
        assert not probing.handle_timer([first], awaits=False)


def test_a_peer_is_quiet_after_ever_longer_waits() -> None:
    """Half of the ack timeout, then twice as long after each notice to the owner, until there is progress."""
    probing, waits = Probing(), []
    for _ in range(4):
        waits.append(probing.quiet_ns(10))
        probing.handle_quiet()
    assert waits == [5, 10, 20, 40]
    probing.handle_answer()
    assert probing.quiet_ns(10) == 80
    probing.handle_progress()
    assert probing.quiet_ns(10) == 5
    for _ in range(5_000):
        probing.handle_quiet()
    assert probing.quiet_ns(10) == 5 << 10


def test_an_answer_ends_the_rounds_alone() -> None:
    """The next ping is repeated as soon as the first was."""
    probing = Probing()
    for _ in range(3):
        probing.handle_timer([], awaits=True)
    probing.handle_answer()
    assert probing.wait_ns(10, 10_000) == 10


def answered(probing: Probing, times: int) -> list[int]:
    """The waits after answers that acknowledge nothing, each to another probe."""
    waits = []
    for _ in range(times):
        probing.handle_timer([], awaits=True)
        probing.handle_heard(0)
        probing.handle_answer()
        waits.append(probing.wait_ns(10, 50, 10_000))
    return waits


def test_who_is_answered_in_vain_asks_ever_more_rarely() -> None:
    """Every eight times the wait doubles, up to thirty-two times the longest of a silent peer's, or less if told so."""
    probing = Probing()
    probing.handle_heard(0)
    waits = answered(probing, 60)
    assert [waits[8 * turn] for turn in range(7)] == [10, 20, 40, 80, 160, 320, 320]
    assert probing.wait_ns(100, 50, 10_000) == 32 * 50
    assert probing.wait_ns(100, 50, 300) == 300
    assert probing.wait_ns(100, 50, 30) == 100


def test_a_second_probe_waits_for_its_answer_as_long_as_ever() -> None:
    """A peer that is gone is found out as soon; the first sign of life puts the next probe off, and no other one."""
    probing = Probing()
    probing.handle_heard(0)
    answered(probing, 10)
    probing.handle_timer([], awaits=True)
    assert not probing.is_patient
    assert probing.wait_ns(10, 50, 10_000) == 20
    assert probing.handle_heard(0)
    assert not probing.handle_heard(0)
    assert probing.is_patient


@pytest.mark.parametrize("forget", [Probing.handle_progress, Probing.begin_anew, stillness.normalize_probing])
def test_what_is_new_is_asked_for_at_once(forget: Callable[[Probing], None]) -> None:
    """Something was acknowledged, or sent."""
    probing = Probing()
    probing.handle_heard(0)
    answered(probing, 20)
    forget(probing)
    probing.handle_heard(0)
    assert probing.wait_ns(10, 50, 10_000) == 10
