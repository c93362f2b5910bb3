"""Session acks, store acks, and probes for missing ones."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proof.search import stillness
from tests.session.pair import Pair, cut
from tests.sure import sure
from triack.base.ack_debt import AckDebt, AckState, Cause
from triack.base.ack_trigger import AckTrigger, terms_of
from triack.base.delivery import DURABLE, Delivery
from triack.base.units import MS, SECOND
from triack.session.acknowledgements.ack_sender import AckSender
from triack.session.acknowledgements.probing import Probing
from triack.session.acknowledgements.session_ack import PATIENCE_NS
from triack.session.acknowledgements.store_ack import StoreAck
from triack.session.acknowledgements.store_ack_waiter import StoreAckWaiter
from triack.session.protocol.binary import BINARY
from triack.session.protocol.events import AckSent
from triack.session.protocol.frames import AckFrame, Ask, PacketFrame, PingFrame, StoreAckFrame
from triack.session.protocol.packets import PacketState, SessionPacket
from triack.session.protocol.policy import Policy
from triack.session.protocol.settings import SessionSettings

# A store ack covers packets on the disk, and no others.


def make_ack(trigger: AckTrigger | None = None, window: int = 64) -> StoreAck:
    return StoreAck(terms_of(trigger or AckTrigger(), window))


def test_owed_when_a_commit_has_returned() -> None:
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


ARRIVAL = st.tuples(st.just("arrive"), st.integers(1, 30), st.sampled_from(Delivery))
COMMIT = st.tuples(st.just("commit"), st.integers(0, 2**30), st.just(Delivery.EXPRESS))
PING = st.tuples(st.just("ping"), st.just(0), st.just(Delivery.EXPRESS))


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
        acks = [sent.store_ack for _, sent in pair.sent["b"] if sent.store_ack is not None]
        return {n for ack in acks for first, last in ((1, ack.cumulative), *ack.ranges) for n in range(first, last + 1)}

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


def ack_sender_of(session_ack: AckTrigger, store_ack: AckTrigger | None = None) -> AckSender:
    settings = SessionSettings(max_unacked_packet=8, ack_trigger=session_ack, store_ack_trigger=store_ack)
    return AckSender(8, Policy.of(settings), span=16)


def arrive(ack_sender: AckSender, *numbers: int, now_ns: int = 0) -> None:
    """Recoverable packets arrive, and are on the disk in the same moment."""
    for number in numbers:
        ack_sender.session_ack.handle_packet(number, 100, counter=number, ack_requested=False, now_ns=now_ns)
        ack_sender.store_ack.handle_packet(number, 100, ack_requested=False)
        ack_sender.store_ack.handle_stored([number], now_ns)


def test_what_a_datagram_says() -> None:
    ack_sender = ack_sender_of(AckTrigger(), AckTrigger(window_share=0.25))
    arrive(ack_sender, 1, 3)
    ack, store_ack = ack_sender.ack(7 * MS), ack_sender.store_ack_with(9)
    assert (ack, store_ack) == (AckFrame(1, [(3, 3)], 8, 3, 7 * MS, []), StoreAckFrame(1, [(3, 3)], 9))
    assert ack_sender.due_bytes(32, 64) == 96
    assert ack_sender.handle_ack_sent(ack) == AckSent(1, [(3, 3)], "gap", 2)
    assert ack_sender.due_bytes(32, 64) == 64
    assert ack_sender.handle_ack_sent(store_ack) == AckSent(1, [(3, 3)], "count", 2)
    assert ack_sender.due_bytes(32, 64) == 0


@pytest.mark.parametrize("delivery", list(Delivery))
@pytest.mark.parametrize("ack_requested", [[], [4]])
@pytest.mark.plain
def test_a_run_is_counted_as_its_packets_would_be(delivery: Delivery, ack_requested: list[int]) -> None:
    together, alone = both = ack_sender_of(AckTrigger()), ack_sender_of(AckTrigger())
    for ack_sender in both:
        arrive(ack_sender, 1)
    packets = [PacketFrame(number, delivery, number in ack_requested, b"12") for number in (2, 3, 4)]
    payloads = [BINARY.encode(packet) for packet in (*packets, PacketFrame(9, delivery, False, b""))]
    assert together.handle_run(sure(together.read_run(BINARY, payloads)), 7, MS).contents == [b"12"] * 3
    for counter, packet in enumerate(packets, 5):
        alone.handle_packet(packet, counter, MS)
    owed = []
    for ack_sender in both:
        if delivery in DURABLE:
            ack_sender.store_ack.handle_stored([2, 3, 4], MS)
        debts = ack_sender.session_ack.debt, ack_sender.store_ack.debt
        owed.append([getattr(debt, name) for debt in debts for name in AckDebt.__slots__ if name != "terms"])
    assert owed[0] == owed[1]
    assert together.session_ack.newest_counter == alone.session_ack.newest_counter == 7
    assert together.received.cumulative == together.store_ack.stored.cumulative == 4


def test_a_run_ends_at_what_a_correct_sender_could_send() -> None:
    ack_sender = ack_sender_of(AckTrigger())
    payloads = [BINARY.encode(PacketFrame(number, Delivery.EXPRESS, False, b"")) for number in range(1, 30)]
    run = sure(ack_sender.read_run(BINARY, payloads))
    assert len(run.contents) == 16
    ack_sender.handle_run(run, 1, 0)
    assert ack_sender.read_run(BINARY, payloads[17:18]) is None


@pytest.mark.parametrize(
    ("asks", "due"), [([Ask.NO, Ask.WITH_STORE], False), ([Ask.WITH_STORE, Ask.AT_ONCE, Ask.WITH_STORE], True)]
)
def test_a_run_asks_as_its_most_urgent_packet_does(asks: list[Ask], due: bool) -> None:
    ack_sender = ack_sender_of(AckTrigger())
    packets = [PacketFrame(number, Delivery.TRANSACTIONAL, ask, b"") for number, ask in enumerate(asks, 1)]
    ack_sender.handle_run(sure(ack_sender.read_run(BINARY, list(map(BINARY.encode, packets)))), 1, 0)
    assert ack_sender.leaving(0, with_packet=False) == (due, False)
    assert ack_sender.session_ack.debt.deadline_ns == (None if due else PATIENCE_NS)


# Which of our packets are not yet on the peer's disk, and how long we wait for them.


@pytest.mark.parametrize(
    ("took_ns", "timeout_s", "probe_ms", "fixed_s"),
    [(0, 10, 600, None), (MS, 10, 100, None), (2 * SECOND, 48, 12_000, None), (100 * SECOND, 120, 600_000, None),
     (50 * SECOND, 3, 300_000, 3.0)],
)  # fmt: skip
def test_the_timeout_and_the_probe_adapt_to_the_disk(
    took_ns: int, timeout_s: int, probe_ms: int, fixed_s: float | None
) -> None:
    """A first sample R makes a probe time of 3 R: eight are the timeout, two the wait before asking.

    MSMQ's StoreAckTimeout turns the computation off.
    """
    wait = StoreAckWaiter(Policy.of(SessionSettings(store_ack_timeout_s=fixed_s)))
    (packet,) = flying(1, delivery=Delivery.RECOVERABLE)
    packet.sends, packet.sent_at_ns, packet.order = 1, SECOND, 1
    wait.add([packet])
    if took_ns:
        wait.handle_ack(1, [], SECOND + took_ns)
    assert (wait.timeout_ns, wait.probe_ns) == (timeout_s * SECOND, probe_ms * MS)


# Asking for acks that do not come: which packets are resent, after which waits, and when a ping leaves.


def flying(*numbers: int, delivery: Delivery = Delivery.EXPRESS) -> list[SessionPacket]:
    return [SessionPacket(number, delivery, b"", None, False, 100, PacketState.IN_FLIGHT) for number in numbers]


def test_the_wait_doubles_and_progress_begins_again() -> None:
    probing, waits = Probing(), []
    for _ in range(4):
        waits.append(probing.wait_ns(10, 50))
        probing.handle_timer([], awaits=True)
    assert [*waits, probing.wait_ns(60, 50)] == [10, 20, 40, 50, 60]
    probing.handle_progress()
    assert probing.wait_ns(10, 50) == 10
    for _ in range(5_000):
        probing.handle_timer([], awaits=True)
    assert probing.wait_ns(10, 10**9) == 10 << 10


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
    """Each once for each unanswered wait; the probe is still due after another packet that goes first."""
    probing, (first, second, other) = Probing(), flying(1, 2, 3)
    probing.handle_timer([first, second], awaits=False)
    assert not probing.handle_sent(other)
    for probe in (first, second):
        assert probing.peek() is probe
        assert probing.handle_sent(probe)
    assert (probing.peek(), probing.handle_sent(first), probing.ping_due) == (None, False, False)


def test_what_was_acknowledged_meanwhile_is_no_probe() -> None:
    """Nor is what is known to be lost: that goes out by itself."""
    probing, packets = Probing(), flying(1, 2, 3)
    probing.handle_timer(packets, awaits=False)
    packets[0].state, packets[1].state = PacketState.ACKED, PacketState.LOST
    assert probing.peek() is packets[2]


def test_a_ping_asks_for_store_acks_alone() -> None:
    probing, due = Probing(), []
    for awaits in (False, True, False):
        probing.handle_timer([], awaits=awaits)
        due.append(probing.ping_due)
    assert due == [False, True, True]


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


def test_over_a_stream_it_asks_without_sending_again() -> None:
    """An unacknowledged packet is in flight; a copy would only queue behind it."""
    probing = Probing(reliable=True)
    assert not probing.handle_timer(flying(1), awaits=False)
    assert (probing.ping_due, probing.peek()) == (True, None)


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
    assert answered(probing, 60)[::8][:7] == [10, 20, 40, 80, 160, 320, 320]
    assert [probing.wait_ns(100, 50, most) for most in (10_000, 300, 30)] == [32 * 50, 300, 100]


def test_a_second_probe_waits_for_its_answer_as_long_as_ever() -> None:
    """A peer that is gone is found out as soon; the first sign of life puts the next probe off, and no other one."""
    probing = Probing()
    probing.handle_heard(0)
    answered(probing, 10)
    probing.handle_timer([], awaits=True)
    assert (probing.is_patient, probing.wait_ns(10, 50, 10_000)) == (False, 20)
    assert [probing.handle_heard(0), probing.handle_heard(0), probing.is_patient] == [True, False, True]


@pytest.mark.parametrize("forget", [Probing.handle_progress, Probing.begin_anew, stillness.normalize_probing])
def test_what_is_new_is_asked_for_at_once(forget: Callable[[Probing], None]) -> None:
    probing = Probing()
    probing.handle_heard(0)
    answered(probing, 20)
    forget(probing)
    probing.handle_heard(0)
    assert probing.wait_ns(10, 50, 10_000) == 10
