"""Runs behave like a dictionary from packets to what they carry."""

from hypothesis import given
from hypothesis import strategies as st

from triack.tools.replay.checks.runs import Carried, Runs, packets_of
from triack.tools.replay.engines.checkpoint import freeze, revive


def carried(number: int) -> Carried:
    return Carried("transactional", "aa", 1, 5, -1, number, number - 1, 10)


CONTROL = Carried("express", "", -1, -1, -1, 0, 0, 0)


PUT = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 6), st.integers(0, 3)), max_size=40)


@given(PUT, st.integers(1, 40))
def test_runs_are_a_dictionary(put: list[tuple[int, int, int]], asked: int) -> None:
    runs, plain = Runs(), dict[int, Carried]()
    for packet, more, lag in put:
        what = CONTROL if lag == 3 else carried(packet + lag)
        runs.put(packet, packet + more, what)
        for step in range(more + 1):
            plain.setdefault(packet + step, what.plus(step))
    assert runs.get(asked) == plain.get(asked)
    assert runs.last == max(plain, default=0)
    unrolled = {packet: what.plus(packet - first) for first, last, what in runs for packet in range(first, last + 1)}
    assert unrolled == plain
    within = [packet for first, last, _ in runs.within(asked, asked + 9) for packet in range(first, last + 1)]
    assert within == [packet for packet in range(asked, asked + 10) if packet in plain]
    assert runs.part(asked, asked + 9) == list(runs.within(asked, asked + 9))
    told = [packet for packet in range(1, 50) if packet in plain and runs.has(packet, packet, plain[packet])]
    assert told == sorted(plain)
    assert not any(runs.has(packet, packet + 1, carried(900)) for packet in range(1, 50))
    assert list(revive(freeze(runs), Runs)) == list(runs)
    lacking = [packet for first, last in runs.lacking(asked, asked + 9) for packet in range(first, last + 1)]
    assert sorted(within + lacking) == list(range(asked, asked + 10))


def test_consecutive_packets_are_one_run() -> None:
    runs = Runs()
    for packet in range(1, 1001):
        runs.put(packet, packet, carried(packet + 5))
    assert list(runs) == [(1, 1000, carried(6))]


def test_a_hole_that_is_filled_makes_one_run_of_three() -> None:
    """What comes late costs no memory once it is there."""
    runs = Runs()
    for packet in (1, 2, 4, 5, 3):
        runs.put(packet, packet, carried(packet))
    assert list(runs) == [(1, 5, carried(1))]


def test_a_run_that_is_not_ordered_names_one_packet_before_all() -> None:
    """`previous` of these classes says what is gone, and stays for a whole burst."""
    recoverable = Carried("recoverable", "aa", 1, 5, -1, 7, 2, 10)
    assert recoverable.plus(3) == recoverable._replace(number=10)


def test_a_record_says_what_it_carries() -> None:
    stream = {"origin": "aa", "stream": 1, "sequence": 5, "number": 7, "previous": 4, "counts": [[2, 10], [1, 9]]}
    record = {"packet": 3, "packets": 3, "class": "transactional", "size": 9}
    first, second = packets_of({**record, **stream})
    assert first == (3, 4, carried(7)._replace(previous=4))
    assert second == (5, 5, carried(9)._replace(messages=9))
    assert list(packets_of({**record, "class": "express"})) == [(3, 5, CONTROL)]
