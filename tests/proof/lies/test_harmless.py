"""Each harmless lie is so by a named kind, and a lie that matters is of none."""

from dataclasses import replace

import pytest

from proof.lies.harmless import HARMLESS, reason_for
from proof.lies.mutate import Lie, Log
from tests.proof.lies.test_mutate import LOG, record

FILLER = [record(n, "dropped", reason="x", count=1) for n in range(4, 9)]
LONG: Log = {("aa", 1): [*LOG["aa", 1], *FILLER]}


def lie(kind: str, at: int, field: str = "", **said: object) -> Lie:
    truth = LONG["aa", 1][at]
    return Lie(kind, truth["event"], field, ("aa", 1), at, [], truth, {**truth, **said})


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        (lie("raise", 3, "count"), "statistic"),
        (lie("other", 0, "name"), "label"),
        (lie("drop", 2), "says-less"),
        (lie("shift", 2, at_ns=35), "in-place"),
        (lie("swap", 2), "unrelated"),
    ],
)
def test_a_harmless_lie_has_a_kind(told: Lie, kind: str) -> None:
    assert reason_for(told, LONG) == kind


def test_a_size_may_be_told_of_a_session_whose_path_carried_it() -> None:
    used, came = record(1, "path_size", session="s", size=1_452), record(1, "probe_received", session="t", size=1_452)
    log: Log = {("aa", 1): [{**used, "node": "aa"}], ("bb", 1): [{**came, "node": "bb"}]}
    said = {**log["aa", 1][0], "session": "t"}
    told = Lie("other", "path_size", "session", ("aa", 1), 0, [], log["aa", 1][0], said)
    assert reason_for(told, log) == "probed"
    assert reason_for(told, {**log, ("bb", 1): [{**came, "node": "bb", "size": 1_451}]}) is None


def test_who_opened_alone_agreed_on_nothing() -> None:
    opened = {**record(1, "session_opened", session="s", ack_bytes=0), "node": "aa"}
    log: Log = {("aa", 1): [opened, {**record(2, "packet_sent", session="s"), "node": "aa"}]}
    told = Lie("raise", "session_opened", "ack_bytes", ("aa", 1), 0, [], opened, {**opened, "ack_bytes": 9})
    assert reason_for(told, log) == "alone"
    assert reason_for(told, {**log, ("bb", 1): [{**opened, "node": "bb"}]}) is None


@pytest.mark.parametrize("event", ["probe_answered", "piece_received"])
@pytest.mark.parametrize(("kind", "field"), [("drop", ""), ("repeat", ""), ("other", "session")])
def test_an_answer_to_a_probe_or_a_piece_is_only_a_sign_of_life(event: str, kind: str, field: str) -> None:
    truth = record(1, event, session="s")
    log: Log = {("aa", 1): [truth, *FILLER]}
    told = Lie(kind, event, field, ("aa", 1), 0, [], truth, {**truth, "session": "t"})
    assert reason_for(told, log) == "answered"


def test_a_packet_too_many_that_is_in_no_stream_and_reached_nobody_was_lost() -> None:
    sent = {**record(1, "packet_sent", session="s", packet=4, packets=2), "node": "aa"}
    came = {**record(1, "packet_received", session="s", packet=4, packets=2), "node": "bb"}
    told = Lie("raise", "packet_sent", "packets", ("aa", 1), 0, [], sent, {**sent, "packets": 3})
    log: Log = {("aa", 1): [sent], ("bb", 1): [came]}
    assert reason_for(told, log) == "on-its-way"
    assert reason_for(told, {**log, ("bb", 1): [{**came, "packets": 3}]}) is None
    in_stream = replace(told, truth={**sent, "stream": 1}, said={**told.said, "stream": 1})
    assert reason_for(in_stream, log) is None


def test_a_lie_that_matters_has_none() -> None:
    """Were one of these not found, it would be a miss."""
    for told in (lie("raise", 1, "packet", packet=2), lie("other", 1, "session"), lie("shift", 1, at_ns=35_000_000)):
        assert reason_for(told, LONG) in (None, "copy")
    assert reason_for(lie("other", 1, "session"), LONG) is None
    assert all(kind.why.endswith(".") for kind in HARMLESS.values())
