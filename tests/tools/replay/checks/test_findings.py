"""What judges hand on."""

from triack.tools.replay.checks.findings import Due, Output
from triack.tools.replay.checks.incoming_check import Incoming
from triack.tools.replay.checks.window_check import Window


def test_a_finding_names_the_record_that_shows_it() -> None:
    out = Output()
    record = {"node": "n", "incarnation": 2, "n": 7, "wall_ns": 99}
    out.report(record, "window", "too many", Due("log", "n", 2, end_ns=5), number=3, session="s")
    (found,) = out.findings
    it = found.violation
    assert (it.check, it.node, it.session, it.number, it.last, it.evidence) == ("window", "n", "s", 3, 3, "too many")
    assert (it.incarnation, it.n, it.wall_ns) == (2, 7, 99)
    assert found.dues[0].end_ns == 5


def test_numbers_add_up_and_times_span() -> None:
    out = Output()
    for wall_ns in (5, 3, 9):
        out.count("sent", wall_ns)
        out.begin(wall_ns)
        out.end(wall_ns)
    assert (out.numbers, out.begin_ns, out.end_ns) == ({"sent": 17}, 3, 9)


def test_a_finding_names_the_session_or_the_stream_that_its_judge_looks_at() -> None:
    out = Output()
    record = {
        "node": "n",
        "incarnation": 2,
        "n": 7,
        "wall_ns": 99,
        "sequence": 5,
        "number": 6,
        "window": 3,
        "peer": "o",
    }
    Window("s", out).handle_changed(record, 0)
    Incoming("n", "o", 4, out).handle_order_ack(record)
    told = [found.violation for found in out.findings]
    assert [(it.check, it.session, it.origin, it.stream, it.sequence) for it in told] == [
        ("silent_end", "s", "", -1, -1), ("order_ack_before_commit", "", "o", 4, 5),
    ]  # fmt: skip
