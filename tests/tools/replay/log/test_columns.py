"""Records as columns, packed and weighed."""

import io
import json
from array import array
from collections.abc import Iterable
from enum import Enum
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.replay.builder import healthy
from triack.base.errors import ReplayError
from triack.base.reasons import FreedReason, HoldReason, RejectReason
from triack.session.protocol.states import FAILURES, CloseReason
from triack.tools.replay.log.files import Reading, columns_of, find_logs, read_records
from triack.tools.replay.log.packed import rows_of, steps_of
from triack.tools.replay.log.ranges import RangeSet, Tally, size
from triack.tools.replay.log.schema import (
    CLOSE_REASONS,
    FAILURE_REASONS,
    FREED_REASONS,
    HOLD_REASONS,
    REJECT_REASONS,
    Verdict,
    Violation,
)
from triack.tools.replay.log.series import BUCKETS_MAX, DELAY_BUCKETS_PER_DECADE, GRAIN_BITS, Series, latency_bucket
from triack.tools.replay.log.weights import Weights

pytest.importorskip("pyarrow")


def test_what_was_columns_is_the_same_record_again(tmp_path: Path) -> None:
    from triack.tools.replay.log.columns import pack, unpack

    healthy().save(tmp_path)
    for log in find_logs([tmp_path]):
        records = list(read_records(log))
        assert unpack(pack(records)) == records


def test_what_no_column_holds_is_named(tmp_path: Path) -> None:
    from triack.tools.replay.log.columns import pack

    with pytest.raises(ReplayError, match=r"^a record from 7 on is damaged: "):
        pack([{"n": 7, "at_ns": 1 << 70}])


@pytest.mark.parametrize(("other", "said"), [(False, "is damaged"), (True, "has no records")])
def test_a_file_that_is_not_one_is_named(other: bool, said: str) -> None:
    with pytest.raises(ReplayError, match=f"^x.parquet {said}"):
        columns_of("x.parquet", parquet(a=[1]) if other else b"PAR1")


def parquet(**columns: list[object]) -> bytes:
    """A file that anybody may have written."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


STOPPED: dict[str, list[object]] = {
    "v": [6], "event": ["node_stopped"], "node": ["a" * 32], "incarnation": [1], "n": [1], "at_ns": [0], "wall_ns": [0],
}  # fmt: skip
ACKED: dict[str, list[object]] = {**STOPPED, "event": ["ack_received"], "session": ["b" * 16]}


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (STOPPED, ""),
        ({**ACKED, "ranges": [[[1, 2]]]}, ""),
        ({**ACKED, "ranges": [[]]}, ""),
        ({**STOPPED, "event": ["queue"]}, "line 1 is damaged: unknown event 'queue'"),
        ({**STOPPED, "event": [None]}, "line 1 is damaged: field 'v' is missing or of the wrong type"),
        ({**STOPPED, "node": [7]}, "line 1 is damaged: field 'node' is '7', and not 32 hex digits"),
        ({**STOPPED, "n": ["one"]}, "is damaged: Failed to parse string: 'one' as a scalar of type int64"),
        (ACKED, "line 1 is damaged: ack_received with the fields session"),
        ({**ACKED, "ranges": [[[1], [2, 3, 4]]]}, "line 1 is damaged: field 'ranges' is not made of pairs"),
        ({**ACKED, "ranges": [[[1, None]]]}, "line 1 is damaged: field 'ranges' is not made of pairs"),
        ({**ACKED, "ranges": [[1, 2]]}, "is damaged: Unsupported cast"),
    ],
)
def test_what_anybody_wrote_is_read_or_named(columns: dict[str, list[object]], said: str) -> None:
    reading = Reading("x.parquet", parquet(**columns))
    count = sum(1 for _, records in reading.segments() for _ in records)
    assert reading.fault[: len(said)] == said
    assert (reading.fault == "") == (count == 1)


spans = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 8)), max_size=20)


@given(spans, st.integers(0, 60), st.integers(0, 20))
def test_a_range_set_is_a_set(added: list[tuple[int, int]], first: int, length: int) -> None:
    """Whatever is added in whatever order, the set holds it, and its parts of any span are right."""
    ranges, plain = RangeSet(), set[int]()
    for begin, more in added:
        ranges.add(begin, begin + more)
        plain.update(range(begin, begin + more + 1))
    asked = set(range(first, first + length + 1))

    def numbers(parts: list[tuple[int, int]]) -> list[int]:
        return [number for begin, end in parts for number in range(begin, end + 1)]

    assert numbers(list(ranges)) == sorted(plain)
    assert numbers(list(ranges.overlap(first, first + length))) == sorted(asked & plain)
    assert numbers(list(ranges.missing(first, first + length))) == sorted(asked - plain)
    assert all((number in ranges) == (number in plain) for number in asked)
    ranges.add(first + 1, first)
    assert numbers(list(ranges)) == sorted(plain)
    assert (size(ranges), bool(ranges)) == (len(plain), bool(plain))
    assert numbers(ranges.take(first, first + length)) == sorted(asked & plain)
    assert numbers(list(ranges)) == sorted(plain - asked)
    assert all(end + 1 < begin for end, begin in zip(ranges.lasts, ranges.firsts[1:], strict=False))


@given(spans, spans)
def test_what_is_put_and_was_not_there_is_returned(put: list[tuple[int, int]], others: list[tuple[int, int]]) -> None:
    ranges, plain, more = RangeSet(), set[int](), RangeSet()
    for begin, length in put:
        asked = set(range(begin, begin + length))
        news = ranges.put(begin, begin + length - 1)
        assert [each for first, last in news for each in range(first, last + 1)] == sorted(asked - plain)
        plain |= asked
    for begin, length in others:
        more.add(begin, begin + length)
        plain.update(range(begin, begin + length + 1))
    ranges.join(more)
    assert [each for first, last in ranges for each in range(first, last + 1)] == sorted(plain)
    assert all(end + 1 < begin for end, begin in zip(ranges.lasts, ranges.firsts[1:], strict=False))


def test_nothing_is_in_an_empty_span() -> None:
    """Not even in the middle of a range."""
    assert list(RangeSet([(1, 9)]).overlap(5, 4)) == []
    assert size([(1, 5), (7, 7)]) == 6


def test_repetitions_are_parts() -> None:
    tally = Tally()
    for first, last in ((1, 5), (3, 4), (4, 8)):
        tally.add(first, last, 10)
    assert tally.again == [(3, 4), (4, 5)]
    assert tally.count == 30
    numbers = sorted(number for first, last in tally for number in range(first, last + 1))
    assert numbers == [1, 2, 3, 3, 4, 4, 4, 5, 5, 6, 7, 8]


def test_a_set_may_have_more_numbers_than_python_counts() -> None:
    """It has no length then, and is gone through all the same."""
    assert list(RangeSet([(1, 10**19)])) == [(1, 10**19)]


def test_a_verdict_is_one_of_three() -> None:
    """A broken promise outweighs a missing log, not one that is there; without a record there is nothing to go by."""
    assert Verdict().verdict == "incomplete"
    assert Verdict(records=1).verdict == "pass"
    assert Verdict(records=1, resends=1, duplicates_on_wire=1, pending=1, sessions_closed=1).verdict == "pass"
    assert Verdict(records=1, torn_lines=1).verdict == "pass"
    assert Verdict(missing=["node b"]).verdict == "incomplete"
    assert Verdict(missing=["node b"], violations={"lost": 1}).verdict == "fail"
    assert Verdict(records=1, unread={"a.jsonl.gz": "is packed"}).verdict == "incomplete"
    assert Verdict(records=1, unread={"a.jsonl.gz": "is packed"}, violations={"lost": 1}).verdict == "incomplete"


def test_json_has_all_but_the_single_findings() -> None:
    verdict = Verdict(delivered=30, findings=[Violation("window")], violations={"window": 1})
    verdict.time(10**9, 10**10)
    data = json.loads(json.dumps(verdict.to_json()))
    assert (data["violations"], data["verdict"]) == ({"window": 1}, "fail")
    assert (data["seconds"], data["messages_per_second"]) == (9.0, 3.3)
    assert not {"findings", "timeline"} & data.keys()


@pytest.mark.parametrize("span", [(0, 5), (5, 5), (6, 5)])
def test_without_a_span_there_is_no_rate(span: tuple[int, int]) -> None:
    """Nothing was delivered, all at once, or a clock was set back."""
    verdict = Verdict(delivered=30)
    verdict.time(*span)
    assert (verdict.seconds, verdict.messages_per_second) == (0, 0)


@pytest.mark.parametrize(
    ("known", "machines"),
    [
        (CLOSE_REASONS, CloseReason), (FAILURE_REASONS, FAILURES), (REJECT_REASONS, RejectReason),
        (FREED_REASONS, FreedReason), (HOLD_REASONS, HoldReason),
    ],
)  # fmt: skip
def test_reasons_are_those_of_the_machines(known: Iterable[str], machines: Iterable[Enum]) -> None:
    """Replay has lists of its own, as a judge should; they must be the same."""
    assert sorted(known) == sorted(reason.value for reason in machines)


def test_the_evidence_does_not_tell_findings_apart() -> None:
    """Two judges say the same thing in other words."""
    one, other = (Violation("lost", "n", "s", "o", 1, 5, 7, evidence=said) for said in ("so", "thus"))
    assert one.identity == other.identity == ("lost", "n", "s", "o", 1, 5, 7, "", "")


# Weights behave like a dictionary that keeps the larger of two claims.

PUT = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 8), st.integers(0, 3)), max_size=40)


@given(PUT, st.integers(1, 30), st.integers(0, 9))
def test_weights_are_a_dictionary(put: list[tuple[int, int, int]], first: int, length: int) -> None:
    weights, plain = Weights(), dict[int, int]()
    for number, more, count in put:
        others = weights.put(number, number + more, count)
        told = {each for low, high in others for each in range(low, high + 1)}
        assert told == {each for each in range(number, number + more + 1) if plain.get(each, count) != count}
        for each in range(number, number + more + 1):
            plain[each] = max(plain.get(each, count), count)
    assert [weights.get(number) for number in range(42)] == [plain.get(number) for number in range(42)]
    asked = [plain[number] for number in range(first, first + length + 1) if number in plain]
    within = [(each, count) for low, high, count in weights.within(1, 42) for each in range(low, high + 1)]
    assert within == sorted(plain.items())
    assert weights.total(first, first + length) == (len(asked), sum(asked))


def test_join_tells_what_had_another_count() -> None:
    mine, other = Weights(), Weights()
    for first, last, count in ((1, 4, 2), (5, 6, 3)):
        mine.put(first, last, count)
    for first, last, count in ((2, 2, 1), (3, 3, 2), (4, 4, 5), (7, 9, 1)):
        other.put(first, last, count)
    assert mine.join(other) == [(2, 2), (4, 4)]
    assert Weights().join(other) == []


# Series: buckets widen as time goes on, and nothing in them is lost.


def test_a_series_widens_and_keeps_its_sum() -> None:
    series = Series("sum")
    for at in range(10_000):
        series.add(at << GRAIN_BITS, 1)
    assert len(series.buckets) <= BUCKETS_MAX
    assert sum(series.buckets.values()) == 10_000


def test_two_series_fold_into_one() -> None:
    """Whichever is the wider one."""
    fine, wide, whole = Series("max"), Series("max", GRAIN_BITS + 4), Series("max")
    for at in range(64):
        (fine if at % 2 else wide).add(at << GRAIN_BITS, at)
        whole.add(at << GRAIN_BITS, at)
    fine.merge(wide)
    whole.widen(GRAIN_BITS + 4)
    assert (fine.bits, fine.buckets) == (whole.bits, whole.buckets)
    whole.widen(GRAIN_BITS)
    assert whole.bits == GRAIN_BITS + 4


def test_latencies_have_eight_buckets_a_decade_and_delays_thirty_two() -> None:
    assert [latency_bucket(ns) for ns in (0, 1000, 1400, 10_000, 1_000_000)] == [0, 0, 1, 8, 24]
    assert [latency_bucket(ns, DELAY_BUCKETS_PER_DECADE) for ns in (0, 1000, 1080, 10_000, 1_000_000)] == [
        0,
        0,
        1,
        32,
        96,
    ]


# Rows of numbers come back from the steps that they were kept as.


@pytest.mark.parametrize("rows", [[], [(1, 2)], [(1, 5), (7, 4), (7, -(1 << 62)), (0, 0)]])
def test_rows_come_back(rows: list[tuple[int, ...]]) -> None:
    fields = array("q", [number for row in rows for number in row])
    assert rows_of(steps_of(fields, 2)) == fields


def test_columns_that_grow_evenly_are_alike() -> None:
    assert steps_of(array("q", [5, 1, 6, 3, 7, 5]), 2) == [array("q", [5, 1, 1]), array("q", [1, 2, 2])]
