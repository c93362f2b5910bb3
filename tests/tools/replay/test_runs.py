"""Runs behave like a dictionary from packets to what they carry."""

from hypothesis import given
from hypothesis import strategies as st

from triack.tools.replay.runs import Carried, Runs, packets_of


def carried(number: int) -> Carried:
    return Carried("transactional", "aa", 1, 5, number, number - 1, 10)


CONTROL = Carried("express", "", -1, -1, 0, 0, 0)


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 3)), max_size=40), st.integers(1, 40))
def test_runs_are_a_dictionary(put: list[tuple[int, int]], asked: int) -> None:
    runs, plain = Runs(), dict[int, Carried]()
    for packet, lag in put:
        what = CONTROL if lag == 3 else carried(packet + lag)
        assert runs.put(packet, what) == (packet not in plain)
        plain.setdefault(packet, what)
    assert runs.get(asked) == plain.get(asked)
    assert (asked in runs) == (asked in plain)
    assert runs.last == max(plain, default=0)
    unrolled = {packet: what.plus(packet - first) for first, last, what in runs for packet in range(first, last + 1)}
    assert unrolled == plain
    within = [packet for first, last, _ in runs.within(asked, asked + 9) for packet in range(first, last + 1)]
    assert within == [packet for packet in range(asked, asked + 10) if packet in plain]


def test_consecutive_packets_are_one_run() -> None:
    runs = Runs()
    for packet in range(1, 1001):
        runs.put(packet, carried(packet + 5))
    assert list(runs) == [(1, 1000, carried(6))]


def test_a_record_says_what_it_carries() -> None:
    stream = {"origin": "aa", "lane": 1, "sequence": 5, "number": 7, "previous": 6, "count": 10}
    record = {"packet": 3, "class": "transactional", "size": 9}
    assert list(packets_of({**record, **stream})) == [(3, carried(7))]
    assert list(packets_of({**record, "class": "express"})) == [(3, CONTROL)]
