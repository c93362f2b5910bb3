"""Lies about session logs: how they are made, and which of them are harmless."""

from collections import Counter

import pytest

from proof.lies.characters import SAME, Slip, differences, slips, tell_slip, tell_slips
from proof.lies.harmless import HARMLESS, reason_for
from proof.lies.logs import Files, honest_files, honest_logs, is_honest, is_whole, records_of, wide_logs, widened
from proof.lies.mutate import Lie, Log, Record, claims, lies_about, slowed, splices
from proof.lies.run import Told
from triack.tools.chaos.drawing import draw
from triack.tools.replay.checks.catalogue import rows_of
from triack.tools.replay.engines.local_engine import judge_records

# Lies are what they say: one record is different, and serials have no gap.

BASE = {"v": 6, "node": "aa", "incarnation": 1}


def record(n: int, event: str, **fields: object) -> dict[str, object]:
    return {**BASE, "n": n, "event": event, "at_ns": n * 10, "wall_ns": n * 10 + 7, **fields}


LOG: Log = {
    ("aa", 1): [
        record(1, "node_started", name="alpha"),
        record(2, "packet_sent", session="5e", packet=1, resend=False),
        record(3, "ack_received", session="5e", ranges=[[1, 1]]),
    ]
}


def test_there_are_lies_of_every_kind() -> None:
    kinds = Counter(lie.kind for lie in lies_about(LOG, ("aa", 1), 1))
    assert kinds == {"drop": 1, "lost": 1, "repeat": 1, "swap": 1, "shift": 6, "raise": 1, "lower": 1, "other": 2}
    assert {lie.field for lie in lies_about(LOG, ("aa", 1), 2) if lie.kind == "raise"} == {"ranges"}


def test_a_hole_is_the_middle_packet() -> None:
    """All packets of a range but one, and all messages but those of that one."""
    stream = {"class": "transactional", "number": 7, "previous": 6, "counts": [[2, 1], [3, 4]]}
    sent = record(1, "packet_sent", packet=20, packets=5, **stream)
    (lie,) = [it for it in lies_about({("aa", 1): [sent]}, ("aa", 1), 0) if it.kind == "hole"]
    told = [(it["packet"], it["packets"], it["number"], it["previous"], it["counts"]) for it in lie.records]
    assert told == [(20, 2, 7, 6, [[2, 1]]), (23, 2, 10, 9, [[2, 4]])]
    committed = record(1, "committed", first=3, last=7, count=10)
    (lie,) = [it for it in lies_about({("aa", 1): [committed]}, ("aa", 1), 0) if it.kind == "hole"]
    assert [(it["first"], it["last"], it["count"]) for it in lie.records] == [(3, 4, 4), (6, 7, 4)]


def test_a_liar_renumbers() -> None:
    for lie in lies_about(LOG, ("aa", 1), 1):
        serials = [record["n"] for record in lie.records]
        assert serials == ([1, 3] if lie.kind == "lost" else list(range(1, len(serials) + 1)))
        assert lie.records != LOG["aa", 1]


def test_a_splice_is_half_of_each_run() -> None:
    (lie,) = splices(LOG, {("bb", 1): LOG["aa", 1]})
    told = [(it["n"], it["event"]) for it in lie.records]
    assert told == [(1, "node_started"), (2, "packet_sent"), (3, "ack_received")]
    times = [it["at_ns"] for it in lie.records]
    assert times == sorted(times)


def test_a_first_start_claims_what_it_takes_later() -> None:
    stream = {"class": "transactional", "origin": "bb", "stream": 1, "sequence": 1}
    begun = [record(1, "node_started", name="alpha"), record(2, "start_before", records=0)]
    (lie,) = claims({("aa", 1): [*begun, record(3, "committed", **stream, first=1, last=4, count=4)]})
    assert [it["event"] for it in lie.records] == ["node_started", "start_before", "position_recovered", "committed"]
    assert (lie.said["number"], lie.said["at_ns"], [it["n"] for it in lie.records]) == (4, 20, [1, 2, 3, 4])


def test_a_clock_loses_a_quarter() -> None:
    (lie,) = slowed(LOG)
    assert [it["at_ns"] for it in lie.records] == [10, 18, 25]
    assert {it["wall_ns"] - it["at_ns"] for it in lie.records} == {7}


# Single characters of logs that are not as they were: found, harmless by name, or without a meaning.

SLIPS = 150
LOGS = 3


@pytest.fixture(scope="module")
def files() -> Files:
    ((_, files),) = honest_files(1)
    return files


def changed(files: Files, old: str, new: str) -> Slip:
    """The first place of all files where something stands, with something else there."""
    name = next(name for name, content in files.items() if old.encode() in content)
    content = files[name]
    told = content.replace(old.encode(), new.encode(), 1)
    return Slip("change", name, content.index(old.encode()), {**files, name: told})


def told_of(slip: Slip, files: Files) -> Told:
    told = Told()
    tell_slip(slip, files, told, "here")
    return told


@pytest.mark.slow
def test_no_character_is_missed() -> None:
    told = tell_slips(SLIPS, seed=3, logs=LOGS, wide=1)
    assert told.missed == []
    assert told.lies == SLIPS
    assert told.caught["damaged"] > SLIPS // 2
    assert len(told.caught) > 5


@pytest.mark.gate
def test_each_is_one_character(files: Files) -> None:
    for slip, known, _ in slips(30, logs=1, wide=0):
        (name,) = [name for name in known if slip.files[name] != known[name]]
        before, after = known[name], slip.files[name]
        assert len(after) - len(before) == {"change": 0, "remove": -1, "insert": 1}[slip.kind]
        assert after[: slip.at] == before[: slip.at]
        assert slip.where.startswith(f"{name} line ")


@pytest.mark.gate
def test_what_becomes_of_some(files: Files) -> None:
    assert told_of(changed(files, '"packets":', '"packetx":'), files).caught == {"damaged": 1}
    assert "log_gap" in told_of(changed(files, '{"n":5,', '{"n":6,'), files).caught
    assert told_of(changed(files, '{"n":5,', '{"n": 5,'), files).harmless == {SAME: 1}
    assert told_of(changed(files, '"wall_ns":1', '"wall_ns":2'), files).harmless == {"clocks": 1}


def test_a_miss_is_reported(files: Files) -> None:
    """Were the log not looked at, this would have been found by nobody."""
    slip = changed(files, '"packets":', '"packetx":')
    unseen = Slip(slip.kind, slip.name, slip.at, files)
    assert told_of(unseen, files).harmless == {SAME: 1}
    truth = records_of(files)
    start = next(iter(truth))
    shorter = {**truth, start: truth[start][:-5]}
    assert [(lie.kind, lie.at) for lie in differences(truth, shorter)] == [
        ("drop", len(truth[start]) - left) for left in (5, 4, 3, 2, 1)
    ]


@pytest.mark.slow
def test_they_break_no_promise() -> None:
    """And those of long ranges have records of a hundred packets and more."""
    for _, log in (*honest_logs(2), *wide_logs(1)):
        assert judge_records([record for some in log.values() for record in some]) == []
    ((_, log),) = wide_logs(1)
    packets = [record["packets"] for some in log.values() for record in some if "packets" in record]
    assert max(packets) > 100
    assert sum(map(len, log.values())) < sum(packets)


def test_those_of_which_a_start_is_missing_are_not_taken() -> None:
    """A node that was killed before it wrote anything leaves no file of that start."""
    names = [f"{name}-{start:06d}-000001.jsonl" for name, start in (("a-b", 1), ("a-b", 2), ("c", 1), ("c", 3))]
    assert is_whole(dict.fromkeys(names[:3], b""))
    assert not is_whole(dict.fromkeys(names, b""))


def test_who_stands_still_is_not_taken() -> None:
    """A process that wakes late keeps no limit of time, so its log would be found to lie without any lie."""
    plans = [draw(seed) for seed in range(30)]
    assert {is_honest(plan) for plan in plans} == {True, False}
    assert not any(fault.kind == "pause" for plan in plans if is_honest(plan) for fault in plan.faults)
    assert all(host.address.startswith("tcp:") for plan in plans for host in widened(plan).hosts)


# Each harmless lie is so by a named kind, and a lie that matters is of none.

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


AA, BB = {"node": "aa"}, {"node": "bb"}
USED = {**record(1, "path_size", session="s", size=1_452), **AA}
PROBED = {**record(1, "probe_received", session="t", size=1_452), **BB}
OPENED = {**record(1, "session_opened", session="s", ack_bytes=0), **AA}
ALSO = {**record(2, "packet_sent", session="s"), **AA}
SENT = {**record(1, "packet_sent", session="s", packet=4, packets=2), **AA}
CAME = {**record(1, "packet_received", session="s", packet=4, packets=2), **BB}


@pytest.mark.parametrize(
    ("truth", "kind", "said", "more", "other", "why"),
    [
        # A size may be told of a session whose path carried it.
        (USED, "other", {"session": "t"}, [], PROBED, "probed"),
        (USED, "other", {"session": "t"}, [], {**PROBED, "size": 1_451}, None),
        # Who opened alone agreed on nothing.
        (OPENED, "raise", {"ack_bytes": 9}, [ALSO], None, "alone"),
        (OPENED, "raise", {"ack_bytes": 9}, [ALSO], {**OPENED, **BB}, None),
        # A packet too many that is in no stream, and reached nobody, was lost.
        (SENT, "raise", {"packets": 3}, [], CAME, "on-its-way"),
        (SENT, "raise", {"packets": 3}, [], {**CAME, "packets": 3}, None),
        ({**SENT, "stream": 1}, "raise", {"packets": 3}, [], CAME, None),
    ],
)  # fmt: skip
def test_what_other_records_say_makes_a_lie_harmless(
    truth: Record, kind: str, said: Record, more: list[Record], other: Record | None, why: str | None
) -> None:
    (field,) = said
    told = Lie(kind, truth["event"], field, ("aa", 1), 0, [], truth, {**truth, **said})
    assert reason_for(told, {("aa", 1): [truth, *more], **({("bb", 1): [other]} if other else {})}) == why


@pytest.mark.parametrize("event", ["probe_answered", "piece_received"])
@pytest.mark.parametrize(("kind", "field"), [("drop", ""), ("repeat", ""), ("other", "session")])
def test_an_answer_to_a_probe_or_a_piece_is_only_a_sign_of_life(event: str, kind: str, field: str) -> None:
    truth = record(1, event, session="s")
    log: Log = {("aa", 1): [truth, *FILLER]}
    told = Lie(kind, event, field, ("aa", 1), 0, [], truth, {**truth, "session": "t"})
    assert reason_for(told, log) == "answered"


def test_a_lie_that_matters_has_none() -> None:
    for told in (lie("raise", 1, "packet", packet=2), lie("other", 1, "session"), lie("shift", 1, at_ns=35_000_000)):
        assert reason_for(told, LONG) in (None, "copy")
    assert reason_for(lie("other", 1, "session"), LONG) is None


def test_the_page_of_checks_says_why_each_kind_is_harmless() -> None:
    said = rows_of("Lies")
    assert [name for name, _ in said] == [f"`{name}`" for name in HARMLESS]
    assert all(why.endswith(".") for _, why in said)
