"""What a start of a node promises of its record."""

import pytest

from tests.tools.replay.faults import ready
from triack.base.errors import ReplayError
from triack.tools.replay.checks.findings import Output
from triack.tools.replay.judges.journal import Journal, Segment, join_segments


def test_records_go_to_who_judges_them() -> None:
    """A packet to its session and its stream, an ack to its session, and a life before the first of each."""
    out = Output()
    world = ready()
    world.ack(world.send("express", world.queue("express", 1)), store=False)
    world.number()
    journal = Journal("here", out)
    dealt = [(unit[0], record["event"]) for unit, record in journal.read(world.alpha.records)]
    assert dealt == [
        ("session", "life"), ("session", "session_opened"), ("stream", "life"), ("stream", "queued"),
        ("session", "packet_sent"), ("stream", "packet_sent"), ("session", "ack_received"),
    ]  # fmt: skip
    segment = journal.segment()
    assert segment is not None
    assert (segment.path, segment.first_n, segment.last_n, segment.begins, segment.stops) == ("here", 1, 6, True, False)
    assert Journal("", out).segment() is None


def test_what_begins_in_a_later_segment_is_judged_by_the_settings() -> None:
    """A segment that goes on says them again; it does so first, and never otherwise."""
    out = Output()
    common = {"v": 6, "node": "n", "incarnation": 1, "at_ns": 5, "wall_ns": 6}
    again = {**common, "event": "node_continued", "n": 7, "name": "alpha", "seq_resend_13_ns": 30}
    acked = {**common, "event": "order_ack_received", "n": 8, "origin": "n", "stream": 1, "sequence": 1, "number": 1}
    (_, life), _ = Journal("", out).read([again, acked])
    assert (life["event"], life["seq_resend_13_ns"]) == ("life", 30)
    assert out.findings == []
    assert list(Journal("", out).read([{**again, "n": 6}, again])) == []
    assert [it.violation.check for it in out.findings] == ["node_life"]


def test_segments_are_joined_to_lives() -> None:
    """Two segments of one start follow each other; a gap between them is found."""
    first = Segment("n", 1, "a", 1, 5, 10, 20, 7, True, False, True, "name", 5)
    second = first._replace(path="b", first_n=6, last_n=9, begin_ns=21, end_ns=30, begins=False, stops=True, records=4)
    out = Output()
    (life,) = join_segments([second, first], out)
    assert (life.begin_ns, life.end_ns, life.stopped, life.records, out.findings) == (10, 30, True, 9, [])
    join_segments([first, second._replace(first_n=7)], out)
    join_segments([first, second._replace(begin_ns=3)], out)
    join_segments([first, second._replace(offset_ns=3)], out)
    join_segments([first._replace(stops=True), second], out)
    assert [it.violation.check for it in out.findings] == ["log_gap", "clock", "clock", "node_life"]


def test_a_segment_that_is_there_twice_is_no_finding() -> None:
    """Giving a segment and its copy, or its columns, is a mistake of the caller; not so a start that ran twice."""
    one = Segment("n", 1, "logs/a", 1, 5, 10, 20, 7, True, False, True, "name", 5)
    out = Output()
    with pytest.raises(ReplayError, match=r"^logs/a and kept/b begin with the same record: give only one of them$"):
        join_segments([one, one._replace(path="kept/b", last_n=4, records=4)], out)
    join_segments([one, one._replace(path="clone/a", begin_ns=12)], out)
    assert [it.violation.check for it in out.findings] == ["log_gap", "clock"]
