"""When an ack leaves, and which one frees a packet."""

from fractions import Fraction
from typing import Any

import pytest

from proof.search import stillness
from triack.base.ack_debt import AckDebt, AckState, Cause
from triack.base.ack_trigger import AckTrigger, capped, terms_of
from triack.base.delivery import DURABLE, FREED_BY, Ack, Delivery, Role, check_sent
from triack.base.errors import UsageError
from triack.base.units import MS, SECOND

# When an acknowledgement is due: the machine that all three acknowledgements use.

BYTES = 100


def debt_of(trigger: AckTrigger | None = None, window: int = 64) -> AckDebt:
    return AckDebt(terms_of(trigger or AckTrigger(), window))


def arrive(debt: AckDebt, packets: int, now_ns: int = 0) -> AckState:
    for _ in range(packets):
        debt.add(1, BYTES, now_ns)
    return debt.state


def test_due_at_exactly_half_the_window() -> None:
    """MSMQ's rule: the 32nd packet of a window of 64 makes the ack due, the 31st does not.

    Packets that an ack covered are not counted for the next one.
    """
    debt = debt_of()
    for _ in range(2):
        assert (arrive(debt, 31), arrive(debt, 1)) == (AckState.OWED, AckState.DUE)
        assert (debt.cause, debt.pending) == (Cause.COUNT, 32)
        debt.handle_sent()
        assert debt.state is AckState.NOTHING_OWED


def test_due_after_exactly_the_delay_of_the_first_packet() -> None:
    """Later packets do not push the ack ahead of them."""
    debt = debt_of()
    assert debt.deadline_ns is None
    arrive(debt, 1, 100 * MS)
    arrive(debt, 1, 400 * MS)
    assert debt.deadline_ns == 600 * MS
    debt.handle_timer(600 * MS - 1)
    assert debt.state is AckState.OWED
    debt.handle_timer(600 * MS)
    assert (debt.state, debt.cause, debt.deadline_ns) == (AckState.DUE, Cause.DELAY, None)


def test_the_delay_starts_again_with_each_ack() -> None:
    """The first packet after an ack is the first again: an interval in which nothing came is silent."""
    debt = debt_of()
    arrive(debt, 1, 100 * MS)
    debt.handle_sent()
    debt.handle_timer(10 * SECOND)
    assert debt.state is AckState.NOTHING_OWED
    arrive(debt, 1, 10 * SECOND)
    assert debt.deadline_ns == 10_500 * MS


def test_due_so_long_after_the_last_packet() -> None:
    """[MS-MQQB] 3.1.5.8.6: half a second after the end of a burst, at the latest 10 s after its begin."""
    debt = debt_of(AckTrigger(window_share=None, delay_s=10, idle_s=0.5))
    for at_ns in range(0, 9_801 * MS, 400 * MS):
        debt.handle_timer(at_ns)
        assert arrive(debt, 1, at_ns) is AckState.OWED
    assert debt.deadline_ns == 10 * SECOND
    debt.handle_timer(10 * SECOND)
    assert debt.cause is Cause.DELAY
    debt.handle_sent()
    arrive(debt, 1, 20 * SECOND)
    debt.handle_timer(20_500 * MS)
    assert str(debt.cause) == "idle"


def test_due_at_a_count_of_bytes() -> None:
    debt = debt_of(AckTrigger(window_share=None, bytes_=3 * BYTES))
    assert (arrive(debt, 2), arrive(debt, 1), debt.cause) == (AckState.OWED, AckState.DUE, Cause.BYTES)
    debt.handle_sent()
    assert arrive(debt, 2) is AckState.OWED


@pytest.mark.parametrize("on", [True, False])
def test_due_at_once_unless_the_policy_says_otherwise(on: bool) -> None:
    trigger = AckTrigger(on_gap=on, on_duplicate=on, on_request=on)
    gap, duplicate, asked = debts = debt_of(trigger), debt_of(trigger), debt_of(trigger)
    gap.add(1, BYTES, 0, gap=True)
    duplicate.handle_duplicate(0)
    asked.add(1, BYTES, 0, ack_requested=True)
    causes = [Cause.GAP, Cause.DUPLICATE, Cause.REQUEST] if on else [Cause.ARRIVED] * 3
    assert [(debt.due, debt.cause) for debt in debts] == [(on, cause) for cause in causes]


def test_what_comes_again_does_not_put_off_what_is_owed() -> None:
    """A duplicate has a delay of its own, from the first one; the next packet begins anew."""
    debt = debt_of(AckTrigger(on_duplicate=False))
    for at_ns in (0, 200 * MS, 400 * MS):
        debt.handle_duplicate(at_ns)
    assert (debt.pending, debt.deadline_ns) == (0, 500 * MS)


def test_a_request_is_answered_whatever_there_is() -> None:
    debt = debt_of(AckTrigger(on_request=False))
    debt.handle_request()
    assert (debt.due, debt.cause, debt.pending) == (True, Cause.REQUEST, 0)


def test_the_first_cause_is_the_one_that_is_logged() -> None:
    debt = debt_of()
    debt.add(1, BYTES, 0, gap=True)
    debt.add(1, BYTES, 0, ack_requested=True)
    assert debt.cause is Cause.GAP


@pytest.mark.parametrize(("after", "first_ns"), [(0.0, 0), (0.75, 375 * MS), (1.0, 500 * MS), (None, 10 * SECOND)])
def test_an_ack_rides_after_a_share_of_the_delay(after: float | None, first_ns: int) -> None:
    debt, moments_ns = debt_of(AckTrigger(piggyback_after=after)), (0, 374 * MS, 375 * MS, 500 * MS)
    assert not debt.leaves_with_packet(SECOND)
    arrive(debt, 1, SECOND)
    assert [debt.leaves_with_packet(SECOND + at_ns) for at_ns in moments_ns] == [it >= first_ns for it in moments_ns]


def test_a_search_ends_the_wait_or_begins_it_again() -> None:
    debt = debt_of()
    arrive(debt, 1, SECOND)
    stillness.refresh_debt(debt, 60 * SECOND)
    debt.handle_timer(60 * SECOND)
    assert not debt.due
    stillness.expire_debt(debt)
    debt.handle_timer(0)
    assert debt.due


@pytest.mark.parametrize("alone", [False, True])
def test_who_asks_patiently_waits_for_company_and_not_for_long(alone: bool) -> None:
    """Whatever leaves first; what that ack covered has nothing more to wait for."""
    debt = debt_of()
    debt.add(1, BYTES, 0, asked_by_ns=5 * MS)
    assert (debt.state, debt.deadline_ns) == (AckState.OWED, 5 * MS)
    if alone:
        debt.handle_timer(5 * MS - 1)
        assert debt.state is AckState.OWED
        debt.handle_timer(5 * MS)
    else:
        debt.handle_company()
    assert (debt.state, debt.cause) == (AckState.DUE, Cause.REQUEST)
    debt.handle_sent()
    debt.handle_company()
    assert debt.state is AckState.NOTHING_OWED
    assert arrive(debt, 1, SECOND) is AckState.OWED
    assert debt.deadline_ns == SECOND + SECOND // 2


def test_who_may_not_ask_may_not_do_so_patiently() -> None:
    debt = debt_of(AckTrigger(on_request=False))
    debt.add(1, BYTES, 0, asked_by_ns=5 * MS)
    assert debt.deadline_ns == SECOND // 2
    debt.handle_company()
    assert debt.state is AckState.OWED


HALVES = [(1, 1), (2, 1), (3, 1), (16, 8), (64, 32), (255, 127)]
THIRDS = [(255, 85), (50, 16), (64, 21), (5, 1), (2, 1), (1, 1)]


@pytest.mark.parametrize(("share", "counts"), [(1 / 2, HALVES), (1 / 3, THIRDS), (Fraction(1, 3), THIRDS)])
def test_a_share_is_rounded_down_and_at_least_one(share: float, counts: list[tuple[int, int]]) -> None:
    """Solace's third, as a fraction or a number. A window of one is stop-and-wait: every packet is acknowledged."""
    assert [(window, AckTrigger(window_share=share).threshold(window)) for window, _ in counts] == counts


@pytest.mark.parametrize(
    ("trigger", "window", "count"),
    [
        ({"count": 5}, 64, 5),
        ({"count": 50}, 64, 32),
        ({"count": 50, "window_share": None}, 64, 50),
        ({"count": 50, "window_share": None}, 8, 8),
        ({"window_share": None}, 64, None),
    ],
)
def test_the_smaller_of_share_and_count_counts(trigger: dict[str, Any], window: int, count: int | None) -> None:
    assert AckTrigger(**trigger).threshold(window) == count


@pytest.mark.parametrize(
    ("rtt_ns", "delay_ns"), [(0, 500 * MS), (62 * MS, 500 * MS), (187 * MS, 1_496 * MS), (60 * SECOND, 120 * SECOND)]
)
def test_a_delay_of_eight_round_trips(rtt_ns: int, delay_ns: int) -> None:
    """Between half a second and two minutes; the capture in [MS-MQQB] 4.1.5 has 1,496 ms, of a round trip of 187 ms."""
    assert terms_of(AckTrigger(delay_rtts=8, delay_s=0.5, delay_max_s=120), 64, rtt_ns).delay_ns == delay_ns


@pytest.mark.parametrize(
    ("trigger", "cap_ns", "rtt_ns", "delay_ns"),
    [
        ({"delay_s": 5}, 3 * SECOND, 0, 3 * SECOND),
        ({"delay_rtts": 8}, SECOND, SECOND, SECOND),
        ({"delay_rtts": 8}, SECOND, 0, 500 * MS),
        ({"delay_rtts": 8}, 100 * MS, SECOND, 100 * MS),
        ({"delay_rtts": 8, "delay_s": 0}, 0, SECOND, 0),
        ({"delay_rtts": 8, "delay_s": 1}, 0, SECOND, 0),
    ],
)
def test_a_cap_shortens_every_delay(trigger: dict[str, Any], cap_ns: int, rtt_ns: int, delay_ns: int) -> None:
    """The fixed one, and the longest that round trips may make; the rest stays. A cap of nothing leaves none.

    Such is half of a peer's timeout of a nanosecond, rounded down: that is for this end to bear.
    """
    assert terms_of(capped(AckTrigger(**trigger), cap_ns), 64, rtt_ns).delay_ns == delay_ns
    untouched = AckTrigger(count=3, delay_s=1)
    assert capped(untouched, SECOND) is untouched


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"window_share": 0}, "window_share must be above 0 and at most 1, not 0"),
        ({"window_share": 1.5}, "not 1.5"),
        ({"window_share": True}, "not True"),
        ({"window_share": float("nan")}, "not nan"),
        ({"window_share": 0.0001}, "not 0.0001"),
        ({"count": 0}, "count must be a whole number of at least 1, not 0"),
        ({"delay_s": -1}, "delay_s must be a number of seconds of at least 0, not -1"),
        ({"piggyback_after": 2}, "piggyback_after must be between 0 and 1, not 2"),
        ({"delay_s": 1e9}, "delay_s must be between 0 and 1000000, not 1000000000.0"),
        ({"bytes_": 1 << 70}, "bytes_ must be between 0 and"),
        ({"delay_rtts": -8}, "delay_rtts must be between 0 and 1000, not -8"),
        ({"delay_rtts": 8, "delay_s": 5, "delay_max_s": 1}, "delay_s is 5, more than delay_max_s, 1"),
    ],
)
def test_what_cannot_be_is_refused(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        AckTrigger(**wrong)


def test_so_much_makes_it_due() -> None:
    terms = terms_of(AckTrigger(count=3, bytes_=100, window_share=None), 64)
    assert [terms.reached(packets, size) for packets, size in ((2, 99), (3, 0), (0, 100))] == [False, True, True]
    assert not terms_of(AckTrigger(window_share=None), 64).reached(1_000, 10**9)


def test_each_class_is_freed_by_the_ack_that_proves_as_much() -> None:
    """Arrival for what is in memory, the next hop's disk, or the destination's."""
    assert {delivery: FREED_BY[delivery, Role.ORIGIN] for delivery in Delivery} == {
        Delivery.EXPRESS: Ack.SESSION,
        Delivery.RECOVERABLE: Ack.STORE,
        Delivery.TRANSACTIONAL: Ack.ORDER,
    }


def test_a_relay_answers_for_a_packet_until_the_next_hop_has_it() -> None:
    """On its disk, if the class is durable. Only the origin waits for the destination."""
    freed = {delivery: FREED_BY[delivery, Role.TRANSIT] for delivery in Delivery}
    assert freed == {delivery: Ack.STORE if delivery in DURABLE else Ack.SESSION for delivery in Delivery}


def test_what_is_freed_by_less_than_a_disk_is_not_durable() -> None:
    assert {delivery for delivery in Delivery if FREED_BY[delivery, Role.ORIGIN] is not Ack.SESSION} == DURABLE


def test_codes_and_labels_stay() -> None:
    """The wire, the store and the log have them."""
    labels = {int(delivery): delivery.label for delivery in Delivery}
    assert labels == {0: "express", 1: "recoverable", 2: "transactional"}


@pytest.mark.parametrize(
    ("destination", "delivery", "told"),
    [
        (7, Delivery.EXPRESS, "send to 7: a destination is text"),
        ("q", "express", "send to q as 'express': a class is a triack.Delivery, such as triack.TRANSACTIONAL"),
    ],
)
def test_the_argument_of_a_wrong_type_is_named_and_no_other(destination: object, delivery: object, told: str) -> None:
    """A user has no use for the code of a class, as in <Delivery.EXPRESS: 0>."""
    with pytest.raises(UsageError, match=f"^{told}$"):
        check_sent("send to", destination, delivery)
