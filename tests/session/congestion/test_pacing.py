"""The pacer (RFC 9002 section 7.7), and what a session may take of a network."""

from itertools import pairwise

import pytest

from triack.base.ack_trigger import AckTerms
from triack.base.units import MS, SECOND
from triack.session.congestion.pacing import NetworkShare, Pacer
from triack.session.congestion.rtt import RoundTrip
from triack.session.protocol.settings import SessionSettings

DATAGRAM = 1_200
TERMS = AckTerms(count=64, bytes_=None, delay_ns=MS)


def flow(packets: int, rtt_ns: int) -> int:
    """Bytes a second of 5/4 of a number of datagrams in a round trip."""
    return 5 * packets * DATAGRAM * SECOND // (4 * rtt_ns)


def measured(rtt_ns: int) -> RoundTrip:
    rtt = RoundTrip()
    rtt.update(rtt_ns)
    return rtt


def test_the_pacer_spreads_a_window_over_its_round_trip() -> None:
    """After a burst of ten, datagrams leave evenly, 5/4 of a window in each round trip."""
    pacer, rate = Pacer(DATAGRAM, 0), flow(20, 100 * MS)
    now_ns, times = 0, list[int]()
    while now_ns < 100 * MS and len(times) < 1_000:
        ready_ns = pacer.ready_at_ns(rate, DATAGRAM, now_ns)
        if ready_ns > now_ns:
            now_ns = ready_ns
            continue
        pacer.spend(DATAGRAM)
        times.append(now_ns)
    assert times[:10] == [0] * 10
    gaps = [later - earlier for earlier, later in pairwise(times[10:])]
    assert all(abs(gap - 4 * MS) <= MS // 100 for gap in gaps)
    assert 33 <= len(times) <= 35


def test_a_rested_pacer_lets_a_burst_go_and_no_more() -> None:
    """Credit does not pile up: after any rest, ten datagrams leave at once."""
    pacer, rate = Pacer(DATAGRAM, 0), flow(20, 100 * MS)
    now_ns = 3_600_000 * MS
    burst = 0
    while pacer.ready_at_ns(rate, DATAGRAM, now_ns) <= now_ns and burst < 1_000:
        pacer.spend(DATAGRAM)
        burst += 1
    assert burst == 10


def test_a_fast_link_gets_what_flows_between_two_ticks_of_a_timer() -> None:
    """With a round trip of 1 ms, two milliseconds carry 2.5 windows, and the bucket holds them."""
    pacer, rate = Pacer(DATAGRAM, 0), flow(20, MS)
    burst = 0
    while pacer.ready_at_ns(rate, DATAGRAM, 10 * MS) <= 10 * MS and burst < 1_000:
        pacer.spend(DATAGRAM)
        burst += 1
    assert burst == 50


def test_a_sender_that_spent_its_credit_waits_for_a_quantum() -> None:
    """A millisecond's worth, and 64 KiB at most: who looks earlier sends nothing, and then a run of packets goes."""
    for window_packets, quantum_packets in ((20, 2), (160, 20), (1_600, 54)):
        pacer, rate = Pacer(DATAGRAM, 0), flow(window_packets, 10 * MS)
        while (ready_ns := pacer.ready_at_ns(rate, DATAGRAM, 0)) <= 0:
            pacer.spend(DATAGRAM)
        ready_ns = pacer.ready_at_ns(rate, DATAGRAM, ready_ns - 1)
        burst = 0
        while pacer.ready_at_ns(rate, DATAGRAM, ready_ns) <= ready_ns:
            pacer.spend(DATAGRAM)
            burst += 1
        assert burst == quantum_packets


def test_a_timer_that_is_late_costs_nothing_of_the_rate() -> None:
    """Woken a millisecond late each time, a fast sender still gets its 5/4 of a window in each round trip."""
    pacer, rate = Pacer(DATAGRAM, 0), flow(160, 10 * MS)
    now_ns = sent = 0
    while now_ns < 1_000 * MS:
        ready_ns = pacer.ready_at_ns(rate, DATAGRAM, now_ns)
        if ready_ns > now_ns:
            now_ns = ready_ns + MS * 9 // 10
            continue
        pacer.spend(DATAGRAM)
        sent += 1
    assert 19_500 < sent < 20_100


@pytest.mark.parametrize(("late_ms", "sent_ms"), [(5, 6), (7, 8), (20, 8)])
def test_a_process_that_is_late_for_its_turn_makes_up_for_it(late_ms: int, sent_ms: int) -> None:
    """With all that flowed while it waited, the quantum included; but not for more than eight milliseconds."""
    pacer, rate = Pacer(DATAGRAM, 0), 10_000 * DATAGRAM  # ten a millisecond
    while (ready_ns := pacer.ready_at_ns(rate, DATAGRAM, 0)) <= 0:
        pacer.spend(DATAGRAM)
    now_ns, burst = ready_ns + late_ms * MS, 0
    assert pacer.ready_at_ns(rate, DATAGRAM, now_ns) <= now_ns
    assert pacer.was_late is (late_ms > sent_ms)
    while pacer.ready_at_ns(rate, DATAGRAM, now_ns) <= now_ns:
        pacer.spend(DATAGRAM)
        burst += 1
    assert burst == 10 * sent_ms


@pytest.mark.parametrize("late_ns", [0, SECOND])
@pytest.mark.plain
def test_a_late_process_says_so_to_its_controller(late_ns: int) -> None:
    """Its next packets show its own rate, and not that of the path."""
    share, rtt = NetworkShare(SessionSettings(congestion="bbr"), DATAGRAM, 0, 0), measured(100 * MS)
    while (ready_ns := share.ready_at_ns(rtt, DATAGRAM, 0)) <= 0:
        share.handle_sent(DATAGRAM, TERMS)
    now_ns = ready_ns + late_ns
    assert share.ready_at_ns(rtt, DATAGRAM, now_ns) <= now_ns
    sending = share.window.handle_sent(DATAGRAM, DATAGRAM, now_ns)
    assert sending.app_limited is bool(late_ns)


def test_before_the_round_trip_is_known_nothing_is_held_back() -> None:
    """There is nothing to spread over yet."""
    share = NetworkShare(SessionSettings(), DATAGRAM, 0, 0)
    for _ in range(100):
        assert share.ready_at_ns(RoundTrip(), DATAGRAM, 7) == 7
        share.handle_sent(DATAGRAM, TERMS)


@pytest.mark.parametrize("controller", ["newreno", "bbr"])
def test_a_small_packet_waits_for_its_own_bytes_and_not_for_those_of_the_largest(controller: str) -> None:
    """On a path of large datagrams and a slow flow of small ones, the credit of a large one takes long."""
    share, rtt = NetworkShare(SessionSettings(congestion=controller), DATAGRAM, 0, 0), measured(100 * MS)
    share.handle_size(64_000)
    while share.ready_at_ns(rtt, 64_000, 0) <= 0:
        share.handle_sent(64_000, TERMS)
    now_ns = share.ready_at_ns(rtt, 100, 0)
    assert now_ns < share.ready_at_ns(rtt, 64_000, 0)
    assert share.ready_at_ns(rtt, 100, now_ns) <= now_ns


def test_a_path_that_is_found_to_carry_more_lets_a_burst_of_that_go() -> None:
    """Two of 64,000 bytes after a session's whole life of small ones; and no third."""
    pacer = Pacer(DATAGRAM, 0)
    pacer.handle_size(64_000)
    for ready in (True, True, False):
        assert (pacer.ready_at_ns(1, 64_000, 0) <= 0) is ready
        pacer.spend(64_000)


@pytest.mark.parametrize("window", [4, 30, 80])
def test_what_goes_by_the_run_is_what_the_pacer_lets_go_one_by_one(window: int) -> None:
    """As many at a time, and the ask for an ack with the same packets."""
    single, by_run = NetworkShare(SessionSettings(), DATAGRAM, 0, 0), NetworkShare(SessionSettings(), DATAGRAM, 0, 0)
    rtt, sent, asked = measured(20 * MS), [0, 0], [list[int](), list[int]()]
    for share in (single, by_run):
        share.window.window_bytes = window * DATAGRAM
    for now_ns in range(0, 40 * MS, MS // 2):
        while single.ready_at_ns(rtt, DATAGRAM, now_ns) <= now_ns:
            sent[0] += 1
            asked[0] += [sent[0]] * single.handle_sent(DATAGRAM, TERMS)
        while (room := by_run.run_room(rtt, DATAGRAM, now_ns)).until_ask_bytes:
            packets = min(-(-room.until_ask_bytes // DATAGRAM), room.credit_bytes // DATAGRAM)
            sent[1] += packets
            asked[1] += [sent[1]] * by_run.handle_sent(DATAGRAM, TERMS, before_bytes=(packets - 1) * DATAGRAM)
        assert sent[0] == sent[1]
    assert asked[0] == asked[1] != []


def test_a_share_is_paced_by_its_own_window() -> None:
    """A window that halves lets datagrams go half as fast."""
    waits = []
    for halve in (False, True):
        share, rtt = NetworkShare(SessionSettings(congestion="newreno"), DATAGRAM, 0, 0), measured(100 * MS)
        if halve:
            share.window.handle_lost(DATAGRAM, (1, True), now_ns=2)
        for _ in range(10):
            assert share.ready_at_ns(rtt, DATAGRAM, 0) == 0
            share.handle_sent(DATAGRAM, TERMS)
        waits.append(share.ready_at_ns(rtt, DATAGRAM, 0))
    assert waits == [8 * MS, 16 * MS]


def test_the_settings_choose_the_controller() -> None:
    """By its name."""
    shares = [NetworkShare(SessionSettings(congestion=name), DATAGRAM, 0, 0) for name in ("bbr", "newreno")]
    assert [share.window.name for share in shares] == ["bbr", "newreno"]


def test_an_ack_is_asked_for_eight_times_in_a_window() -> None:
    """Of 80 datagrams every tenth; but not where the peer acknowledges within half of them by itself."""
    share = NetworkShare(SessionSettings(), DATAGRAM, 0, 0)
    share.window.window_bytes = 80 * DATAGRAM
    asked = [number for number in range(1, 81) if share.handle_sent(DATAGRAM, TERMS)]
    assert asked == list(range(10, 81, 10))
    terms = AckTerms(count=40, bytes_=None, delay_ns=MS)
    assert not any(share.handle_sent(DATAGRAM, terms) for _ in range(80))


def test_who_has_nothing_more_to_send_does_not_ask_before_half_of_the_window_is_spent() -> None:
    share = NetworkShare(SessionSettings(), DATAGRAM, 0, 0)
    share.window.window_bytes = 80 * DATAGRAM
    spare = [(number, (80 - number) * DATAGRAM) for number in range(1, 61)]
    asked = [number for number, left in spare if share.handle_sent(DATAGRAM, TERMS, spare_bytes=left)]
    assert asked == [40, 50, 60]


def test_half_of_a_window_holds_many_small_packets() -> None:
    """Twenty of 200 bytes are in half of 8,000: who acknowledges twenty is not asked, and who 21 is."""
    for count, ack_requested in ((20, False), (21, True)):
        share = NetworkShare(SessionSettings(), DATAGRAM, 0, 0)
        share.window.window_bytes = 8_000
        terms = AckTerms(count=count, bytes_=None, delay_ns=MS)
        assert any(share.handle_sent(200, terms) for _ in range(40)) is ack_requested
