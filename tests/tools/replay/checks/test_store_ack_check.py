"""When store acks leave."""

import pytest

from triack.base.units import MS
from triack.tools.replay.checks.findings import Output, Record
from triack.tools.replay.checks.store_ack_check import RUNS_MAX, Debt, StoreAcks


def record(at_ms: int, first: int, last: int, size: int = 0) -> Record:
    """What brings packets, or commits them."""
    where = {"node": "b", "incarnation": 1, "n": at_ms, "session": "s", "sequence": 1, "class": "recoverable"}
    times = {"at_ns": at_ms * MS, "wall_ns": at_ms * MS}
    return {**where, **times, "number": first, "packets": last - first + 1, "first": first, "last": last, "size": size}


def owing(most_bytes: int = 1_000) -> Debt:
    """A debt for which ten packets, of 900 bytes together, have come."""
    debt = Debt(500 * MS, 0, most_bytes)
    debt.arrived[1].add(1, 10)
    debt.bring(record(0, 1, 10, 900))
    return debt


def test_bytes_count_when_a_commit_has_all_of_what_was_told_together() -> None:
    """Of a part nobody knows how many they are, and so nothing is said of them: neither then nor with the rest."""
    debt = owing(900)
    debt.commit(record(1, 1, 10))
    assert (debt.size_bytes, debt.due_ns) == (900, MS)
    parted = owing(900)
    parted.commit(record(1, 1, 9))
    parted.commit(record(2, 10, 10))
    assert (parted.packets, parted.size_bytes, parted.due_ns) == (10, 0, 501 * MS)


def test_what_an_ack_has_covered_does_not_count_for_the_next() -> None:
    debt = owing()
    debt.commit(record(1, 1, 10))
    debt.clear()
    debt.arrived[1].add(11, 11)
    debt.bring(record(2, 11, 11, 200))
    debt.commit(record(3, 11, 11))
    assert (debt.size_bytes, debt.due_ns) == (200, 503 * MS)


def test_what_is_never_committed_is_forgotten() -> None:
    """A node that refuses everything makes nobody remember it."""
    debt = Debt(500 * MS, 0, 1_000)
    for number in range(1, 10_000):
        debt.bring(record(number, number, number, 100))
    debt.arrived[1].add(1, 10_000)
    debt.commit(record(10_001, 1, 5_000))
    assert debt.size_bytes == 0
    debt.commit(record(10_002, 5_001, 10_000))
    assert debt.size_bytes == 100 * min(RUNS_MAX, 4_999)


@pytest.mark.parametrize("is_claimed", [True, False])
def test_the_first_packets_of_a_session_count_as_well(is_claimed: bool) -> None:
    """They are heard of before their session is; those of which some came before do not."""
    out = Output()
    acks = StoreAcks("a", 1, out)
    acks.handle_record()
    acks.handle_arrived(record(0, 1, 10), 1, 10, [])
    if is_claimed:
        acks.handle_run(record(0, 1, 10, 900))
    acks.handle_taking({**record(0, 1, 10), "delay_ns": 500 * MS, "threshold": 0, "most_bytes": 900})
    acks.handle_committed(record(1, 1, 10))
    acks.handle_store_acked(record(400, 1, 10))
    assert [it.violation.check for it in out.findings] == ["store_ack_late"] * is_claimed


def test_a_packet_that_came_in_two_sessions_is_owed_in_the_later_one() -> None:
    """Its first copy may have been refused, as it came too early: the session that brought it owes nothing for it."""
    out = Output()
    acks = StoreAcks("a", 1, out)
    for at_ms, session in enumerate(["s", "t"]):
        brings = {**record(at_ms, 1, 1), "session": session}
        acks.handle_record()
        acks.handle_arrived(brings, 1, 1, [])
        acks.handle_taking({**brings, "delay_ns": 500 * MS, "threshold": 0, "most_bytes": 0})
    acks.handle_committed(record(2, 1, 1))
    acks.finish()
    assert [it.violation.session for it in out.findings] == ["t"]


def test_nothing_is_owed_for_a_packet_that_was_refused() -> None:
    """Its store ack may have left long before the commit that passes it over."""
    out = Output()
    acks = StoreAcks("a", 1, out)
    acks.handle_arrived(record(0, 1, 2), 1, 2, [])
    acks.handle_taking({**record(0, 1, 2), "delay_ns": 500 * MS, "threshold": 0, "most_bytes": 0})
    acks.handle_refused(1, 2)
    acks.handle_committed(record(1, 2, 2))
    acks.finish()
    assert out.findings == []
