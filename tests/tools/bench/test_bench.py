"""The benchmark: its options, its rows and what runs them."""

import asyncio
import csv
import importlib.util
import json
import re
import shutil
import time
from dataclasses import replace
from io import StringIO
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.tools.bench.measuring import measured
from tests.tools.processes import message_of, triack
from triack.base.errors import TriackError, UsageError
from triack.base.units import MS
from triack.node.handles.policies import AMPS, DEFAULT, HORNETQ, MSMQ, SOLACE
from triack.queues.node_settings import NodeSettings
from triack.queues.streams.owed_acks import Positions
from triack.tools.bench import policies, replaying, run, splicing
from triack.tools.bench.figures import Figure, Result
from triack.tools.bench.options import Meter, Options
from triack.tools.bench.policies import LINKS, blocking_rate, lose_session, pace, stream
from triack.tools.bench.replaying import Made, count_packets
from triack.tools.bench.report import NO_PLOTS, write_report
from triack.tools.bench.rows import CURVES, GROWTH, ROWS, Goal, rows_of
from triack.tools.bench.run import Outcome, Progress, follow, judge, run_once
from triack.tools.bench.splicing import lengthen
from triack.tools.bench.systems.catalogue import SYSTEMS
from triack.tools.bench.table import HEADINGS, as_csv, as_markdown, cells, number, side_by_side
from triack.tools.bench.work import Work
from triack.tools.replay.log.files import find_logs, read_records
from triack.tools.replay.run import replay
from triack.tools.sim.faults import Faults


# T11: copies of logs are logs of other nodes, and are judged like those.
async def test_without_spark_it_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what to install: no option of another command, such as the engine of a replay."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    result = await measured("T11", tmp_path, 10)
    (note,) = result.notes
    assert note.startswith("not run: replay on Spark needs ")
    assert "install" in note
    assert "--" not in note
    assert result.headline.values == []


async def replay_here(logs: list[Path]) -> dict[str, Any]:
    """By the local engine: where what is asked is whether the logs are whole."""
    began_s = time.monotonic()
    verdict = replay(logs, engine="local")
    return {**verdict.to_json(), "took_s": time.monotonic() - began_s, "driver_bytes": 0, "processor_s": 1.0}


@pytest.mark.slow
@pytest.mark.spark
async def test_few_and_many_are_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The many on Spark, as the row does with both: each starts a Java."""
    pytest.importorskip("pyspark")
    on_spark = getattr(replaying, "_replay")  # noqa: B009 - what is replaced is called
    monkeypatch.setattr(replaying, "_replay", lambda logs: (on_spark if len(logs) > 1 else replay_here)(logs))
    result = await measured("T11", tmp_path, 500)
    assert result.verified, result.notes
    assert result.figures["clean"].values[0] > 0
    assert result.details["T11 clean records"] > 0
    assert result.details["T11 clean driver MiB"] > 10


@pytest.mark.slow
async def test_every_form_of_logs_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As columns, with losses, and as one session; T11 replays them all, and so does its growth."""
    monkeypatch.setattr(replaying, "_replay", replay_here)
    monkeypatch.setattr(replaying, "RECORDS", 1)
    (row,) = rows_of(("T11",))
    result = Result.of(row)
    await replaying.measure_replay(row, Options(tmp_path, 1, messages=1_000), Meter(), result)
    assert result.verified, result.notes
    assert all(figure.values for figure in result.figures.values())


async def test_growth_tells_the_rates_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of all records, with what Spark costs once, and that of those beyond the first replay's."""
    seconds = {5: (10.0, 8.0), 10: (20.0, 12.0)}

    async def make(*_: object) -> Made:
        return Made(tmp_path, 1_000_000)

    async def replayed(logs: list[Path]) -> dict[str, Any]:
        took_s, busy_s = seconds[len(logs)]
        return {"verdict": "pass", "took_s": took_s, "processor_s": busy_s, "driver_bytes": 0}

    monkeypatch.setattr(replaying, "_make", make)
    monkeypatch.setattr(replaying, "_replay", replayed)
    for many in ("_pairs", "_giant"):
        monkeypatch.setattr(replaying, many, lambda made, times: [made.logs] * times)
    monkeypatch.setattr(replaying, "GROWN", (5, 10))
    (row,) = rows_of(("growth",))
    result = Result.of(row)
    await replaying.measure_growth(row, Options(tmp_path, 1), Meter(), result)
    handed: dict[str, Any] = {"event": "handed", "counts": [[3, 10], [1, 2]]}
    records = ({"event": "packet_sent", "packets": 7}, handed, {"event": "ack_sent"})
    assert [count_packets(record) for record in records] == [7, 4, 1]
    assert result.details["clean, 10 million a processor s"] == round(10_000_000 / 12.0)
    assert result.details["clean, 10 million more a processor s"] == 5_000_000 / 4
    assert "clean, 5 million more a processor s" not in result.details


# The five policies side by side, on small runs: the compared figures, and HornetQ's arithmetic.
NEAR = LINKS["LAN"]


@pytest.mark.slow
def test_a_sender_that_waits_for_each_message_sends_one_in_a_round_trip() -> None:
    """HornetQ's manual: 0.25 ms are at most 4,000 a second; disks make it fewer."""
    assert 3_950 < blocking_rate(MS // 4, 0) < 4_000
    assert 950 < blocking_rate(MS, 0) < 1_000
    assert blocking_rate(MS // 4, MS // 4) < 2_000


@pytest.mark.gate
def test_a_window_of_messages_is_all_that_goes_in_a_round_trip() -> None:
    """Solace's blog: throughput is the window by the round trip, with 50 messages and 50 ms a thousand a second."""
    far = Faults(rate_bps=100_000_000, delay_ns=25 * MS, queue_bytes=625_000)
    assert 600 < stream(SOLACE, far, 500).rate < 1_000
    assert stream(replace(SOLACE, messages_per_packet=None), far, 500).rate > 1_000


@pytest.mark.slow
def test_an_ack_comes_as_late_as_its_policy_lets_it() -> None:
    """AMPS: two intervals, and the debounce of order acks never; what is held until then is in the sender's memory."""
    amps, solace = pace(AMPS, NEAR, 400), pace(SOLACE, NEAR, 400)
    assert len(amps.delays_ns) == len(solace.delays_ns) == 400
    assert amps.delays_ns[0] > 1_000 * MS
    assert amps.delays_ns[-1] < 3_000 * MS
    assert solace.delays_ns[-1] < 1_100 * MS
    assert amps.held_bytes > solace.held_bytes > 0


@pytest.mark.parametrize("settings", [DEFAULT, MSMQ, SOLACE, HORNETQ, AMPS])
def test_after_a_lost_session_nothing_comes_again(settings: NodeSettings) -> None:
    assert lose_session(settings, NEAR, 100).again == 0


@pytest.mark.plain
def test_what_an_accept_does_not_tell_of_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most a window of it; and it is delivered once, which each run checks."""
    monkeypatch.setattr(Positions, "tell", lambda *_: ())
    again = lose_session(MSMQ, NEAR, 100).again
    assert again is not None
    assert 0 < again <= 64


@pytest.mark.slow
async def test_all_of_it_has_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    from triack.tools.bench.plots import draw

    monkeypatch.setattr(policies, "QUICK_SHARE", 50)
    result = await measured("POLICIES", tmp_path, None, simulated=True)
    ((title, plot),) = draw([result])
    assert title.startswith("POLICIES: ")
    assert all(f">{name}<" in plot for name in ("DEFAULT", "MSMQ", "SOLACE", "HORNETQ", "AMPS"))
    lines = list(side_by_side(result))
    assert [line[:2] for line in lines[:2]] == [("LAN", "DEFAULT"), ("LAN", "MSMQ")]
    assert len(lines) == 15
    assert all("-" not in line for line in lines)
    assert result.verified
    assert any("at most 4,000" in note for note in result.notes)


# A log that is made longer is that of a run that took longer.
@pytest.mark.slow
async def test_what_happened_is_repeated_with_other_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One session of five times as many messages, in as many segments as a node would write."""
    await run_once(SYSTEMS["triack"], Work(messages=1_000), tmp_path, {}, lambda _progress: None)
    monkeypatch.setattr(splicing, "BLOCK_RECORDS", 16)
    monkeypatch.setattr("triack.base.log_lines.SEGMENT_BYTES", 4_096)
    lengthen(tmp_path / "logs", tmp_path / "long", 5)
    short, long = (replay([tmp_path / name], engine="local") for name in ("logs", "long"))
    assert (long.verdict, long.violations, long.delivered, long.nodes) == ("pass", {}, 5_000, 2)
    assert long.records > 4 * short.records
    logs = find_logs([tmp_path / "long"])
    assert len(logs) > 4
    opened = [it["session"] for log in logs for it in read_records(log) if it["event"] == "session_opened"]
    assert len(opened) == 2
    assert len(set(opened)) == 1


# ``triack bench`` as a user types it.
SMALL = ("--runs", "1", "--messages", "300")


@pytest.mark.slow
def test_the_last_line_is_one_object() -> None:
    ended = triack("bench", "T1", *SMALL, "--versus", "tcp", "--json")
    found = json.loads(ended.stdout.splitlines()[-1])
    assert ended.returncode == 0
    assert {"goal", "floor", "median", "min", "max", "runs", "versus_median", "ratio"} <= set(found)
    assert (found["row"], found["versus"], found["verified"]) == ("T1", "tcp", True)
    assert b"T1 triack 1/1: " in ended.stderr


@pytest.mark.slow
def test_several_rows_are_a_list_a_page_and_a_table(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    page = tmp_path / "page.html"
    data = tmp_path / "data"
    ended = triack("bench", "T1", "T5", "--runs", "1", "--messages", "20", "--data", data, "--report", page)
    assert ended.returncode == 0
    assert b"T5" in ended.stdout
    assert "<td>T5</td>" in page.read_text()
    assert list(data.iterdir()) == []
    ended = triack("bench", "T5", "--runs", "1", "--messages", "20", "--csv")
    assert [row["row"] for row in csv.DictReader(ended.stdout.decode().splitlines())] == ["T5"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("T99",), "bench: no row T99"),
        (("T1", "--csv", "--json"), "bench: --csv, --markdown and --json exclude each other"),
        (("--versus", "kafka"), "'kafka' is not one of"),
        (("--window", "wide"), "'wide' is not a valid window"),
    ],
)
def test_what_cannot_be_is_refused(arguments: tuple[str, ...], said: str) -> None:
    ended = triack("bench", *arguments)
    assert ended.returncode == 2
    assert said in message_of(ended)


def test_a_place_that_cannot_be_written_is_reported_before_anything_is_measured(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    ended = triack("bench", "--report", tmp_path / "taken" / "page.html")
    assert (ended.returncode, ended.stdout) == (1, b"")
    assert "cannot write the report" in message_of(ended)
    ended = triack("bench", "--data", tmp_path / "taken" / "data")
    assert f"bench: cannot work in {tmp_path}/taken/data: Not a directory" in message_of(ended)


# A user's options take precedence over those of a row.
def test_a_row_is_as_it_says_unless_it_is_shortened() -> None:
    work = Work(seconds=5, window=7)
    assert Options(Path()).shaped(work) == work
    found = Options(Path(), seconds=1, messages=9, insecure=True, datagram_bytes=1_200).shaped(work)
    assert found == replace(work, seconds=1, messages=9, insecure=True, datagram_bytes=1_200)
    assert Options(Path(), window="auto").shaped(work).window == "auto"


# The table of rows.
def test_every_goal_is_beyond_its_floor() -> None:
    for row in ROWS.values():
        for goal in row.goals:
            if goal.goal is not None and goal.floor is not None:
                assert goal.goal < goal.floor if goal.is_cost else goal.goal > goal.floor


def test_rows_are_found_by_name() -> None:
    assert [row.name for row in rows_of(("t3", "T1", "sizes"))] == ["T3", "T1", "SIZES"]
    assert CURVES["SIZES"].points["1,024"].size == 1_024
    with pytest.raises(UsageError, match="no row window; did you mean windows"):
        rows_of(("window",))
    with pytest.raises(UsageError, match=r"no row q; there are T1, T2, .*, sizes"):
        rows_of(("q",))


# One run reports its proof, and nothing else.
COUNT = 2_000
WORK = Work(messages=COUNT)


async def once(tmp_path: Path, system: str, work: Work = WORK) -> Outcome:
    return await run_once(SYSTEMS[system], work, tmp_path, {}, lambda _progress: None)


def progress(**other: Any) -> Progress:
    end = {"synced": True, "commits": 3, "looked": 1, "plain": 0, "log_bytes": 10}
    told = {"sent": 10, "delivered": 10, "first_ns": 1, "last_ns": 1_000_000_001, "done": True}
    return Progress(**{**told, "sender_facts": end, "receiver_facts": end, **other})


def test_a_perfect_run_has_all_guarantees() -> None:
    """Of one that is cut off, the first second of five does not make the rate."""
    found = judge(Work(), progress())
    assert (found.verified, found.rate, found.goodput) == (True, 10, 1_000)
    assert found.guarantee == ["every message once, in order", "synced at both ends", "encrypted", "recorded"]
    cut_off = judge(Work(seconds=5, complete=False), progress(sent=20))
    assert (cut_off.verified, cut_off.rate) == (True, 2)


@pytest.mark.parametrize(
    ("other", "flaw"),
    [
        ({"delivered": 9}, "did not come: 1 message"),
        ({"delivered": 9, "missing": 2}, "did not come: 3 messages"),
        ({"late": 1}, "came again or late: 1 message"),
        ({"corrupt": 4}, "not what was sent: 4 messages"),
        ({"sent": 0, "delivered": 0}, "nothing came"),
    ],
)
def test_a_flaw_takes_every_guarantee(other: dict[str, int], flaw: str) -> None:
    found = judge(Work(), progress(**other))
    assert (found.verified, found.flaw, found.guarantee) == (False, flaw, [])


@pytest.mark.parametrize(
    ("changed", "lacking"),
    [
        ({"synced": False}, "synced at both ends"),
        ({"commits": 0}, "synced at both ends"),
        ({"plain": 1}, "encrypted"),
        ({"looked": 0}, "encrypted"),
        ({"log_bytes": 0}, "recorded"),
    ],
)
def test_what_was_not_seen_is_not_said(changed: dict[str, Any], lacking: str) -> None:
    ends = progress().sender_facts | changed
    found = judge(Work(), progress(sender_facts=ends, receiver_facts=ends))
    assert found.verified
    assert lacking not in found.guarantee


@pytest.mark.slow
async def test_without_keys_and_log_it_says_less(tmp_path: Path) -> None:
    found = await once(tmp_path, "triack", replace(WORK, insecure=True, log=False))
    assert found.guarantee == ["every message once, in order", "synced at both ends"]
    assert found.facts["sender"]["plain"]


@pytest.mark.slow
async def test_a_process_that_fails_is_reported(tmp_path: Path) -> None:
    (tmp_path / "receiver").write_text("no directory")
    with pytest.raises(TriackError, match="the receiver failed"):
        await once(tmp_path, "triack")


async def test_a_receiver_that_is_still_starting_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing has come yet: that is no end of what comes."""
    monkeypatch.setattr(run, "QUIET_S", 0.0)
    monkeypatch.setattr(run, "AFTER_S", 0.0)
    told = Progress(sent=10, done=True)
    over = asyncio.create_task(follow((), WORK, told))
    await asyncio.sleep(5 * run.LOOK_S)
    assert not over.done()
    told.delivered = 10
    await over


# The table, in the forms in which it is printed.
def measured_row() -> Result:
    result = Result.of(ROWS["T4"])
    result.versus, result.versus_verified, result.verified, result.guarantee = "redis", True, True, ["in order"]
    for name, values in {"p50": [0.5, 0.7, 0.6], "p99": [1.0, 3.0, 2.0]}.items():
        result.figures[name].values = values
        result.figures[name].versus_values = [2 * value for value in values]
    result.note("what a <reader> has to know")
    return result


def test_numbers_have_three_digits() -> None:
    assert [number(value) for value in (None, 0.123456, 12.345, 1234.5, 0.0)] == ["-", "0.123", "12.3", "1,234", "0"]


def test_each_figure_is_a_line() -> None:
    first, second = (line for _, line in cells(measured_row()))
    said = ("at most 0.8", "at most 1", "0.6 ms", "0.5 to 0.7", "3", "redis 1.2", "2.00", "in order")
    assert (first[0], first[1].endswith("; p50"), first[2:]) == ("T4", True, said)
    assert (second[0], second[1], second[-1]) == ("", "p99", "")
    ((_, unmeasured),) = cells(Result.of(ROWS["T1"]))
    assert unmeasured[4:] == ("-", "-", "0", "-", "-", "not run")
    found = measured_row().to_json()["figures"]
    figures = [(it["figure"], it["median"], it["min"], it["max"]) for it in found]
    assert figures == [("p50", 0.6, 0.5, 0.7), ("p99", 2, 1, 3)]


def test_markdown_has_the_machine_the_table_and_the_notes() -> None:
    lines = as_markdown([measured_row()]).splitlines()
    assert "cores" in lines[0]
    assert lines[2] == f"| {' | '.join(HEADINGS)} |"
    assert {line.count("|") for line in lines[2:6]} == {len(HEADINGS) + 1}
    assert lines[-1] == "- T4: what a <reader> has to know"


def test_csv_has_a_line_for_each_run() -> None:
    rows = list(csv.DictReader(StringIO(as_csv([measured_row()]))))
    assert len(rows) == 12
    assert {(it["system"], it["figure"]) for it in rows} == set(product(("triack", "redis"), ("p50", "p99")))
    assert [row["value"] for row in rows[:3]] == ["0.5", "0.7", "0.6"]


# The page: the table, the notes, and the plots if they can be drawn.
def test_without_matplotlib_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "matplotlib" else find(name))
    write_report(tmp_path / "page.html", [measured_row()])
    text = (tmp_path / "page.html").read_text()
    there = (
        NO_PLOTS.replace("'", "&#39;"),
        "<td>0.6 ms</td>",
        '<tr class="goal">',
        "what a &lt;reader&gt; has to know",
    )
    assert [it in text for it in (*there, "<svg")] == [True] * 4 + [False]


# The joint result of several runs.
RATE = Goal("", "msg/s", 100, 50)
DELAY = Goal("", "ms", 1, 2, is_cost=True)


def outcome(*guarantee: str, flaw: str = "") -> Outcome:
    facts = {"sender": 0.5}, {"sender": {"commits": 3}}, dict[str, Any]()
    return Outcome(1, 1, 1.0, 1.0, 100.0, not flaw, list(guarantee), flaw, *facts)


@pytest.mark.parametrize(("goal", "values"), [(RATE, (100, 99, 49)), (DELAY, (1, 2, 3))])
def test_a_figure_stands_where_its_median_is(goal: Goal, values: tuple[float, ...]) -> None:
    for more in ([], [0.0, 1e9]):
        assert [Figure(goal, [value, *more]).standing for value in values] == ["goal", "floor", "below"]


def test_a_ratio_is_that_of_neighbours() -> None:
    """The machine became ten times slower in the middle: that says nothing of either."""
    assert Figure(RATE, [100, 10, 10], [50, 5, 5]).ratio == 2
    assert Figure(DELAY, [1, 1], [4, 4]).ratio == 4
    assert Figure(RATE, [100]).ratio is None


def test_a_row_is_verified_if_every_run_was() -> None:
    """And has done what every run was seen to do, no more."""
    result = Result.of(ROWS["T1"])
    assert not result.verified
    result.handle(outcome("in order", "synced"))
    result.handle(outcome("in order"))
    assert (result.verified, result.guarantee) == (True, ["in order"])
    result.handle(outcome(flaw="did not come: 2 messages"))
    result.handle(outcome("in order"))
    assert (result.verified, result.notes) == (False, ["did not come: 2 messages"])


# The plots of a measurement, drawn from the results that there are.
@pytest.mark.slow
def test_curves_losses_and_latencies_are_drawn() -> None:
    pytest.importorskip("matplotlib")
    from triack.tools.bench import plots

    sizes, link, delays = Result.of(CURVES["SIZES"]), Result.of(ROWS["T8"]), Result.of(ROWS["T4"])
    sizes.versus = "redis"
    for figure in sizes.figures.values():
        figure.values, figure.versus_values = [5.0], [4.0]
    link.figures["1 % loss"].values = [90.0]
    delays.figures["p50"].values = [1.0]
    delays.histograms = {"triack": {0.5: 3, 0.7: 9}}
    drawn = plots.draw([Result.of(ROWS["T1"]), sizes, link, Result.of(CURVES["WINDOWS"]), delays])
    assert [title.partition(":")[0] for title, _ in drawn] == ["SIZES", "T8", "T4"]
    assert all(plot.startswith("<svg") and ">triack<" in plot for _, plot in drawn)
    assert ">redis<" in drawn[0][1]
    assert re.findall(r"#[0-9a-f]{6}|<dc:date>", drawn[2][1]) == [], "the page colours it, and it is always the same"


@pytest.mark.slow
def test_the_growth_of_a_replay_is_drawn() -> None:
    """A line for each form of logs that was replayed, over the records that there were."""
    pytest.importorskip("matplotlib")
    from triack.tools.bench import plots

    growth = Result.of(GROWTH)
    for millions in (5, 10):
        growth.figures[f"clean, {millions} million"].values = [millions + 12.0]
        growth.details[f"clean, {millions} million records"] = millions * 1_000_000
        growth.details[f"clean, {millions} million a processor s"] = 100_000 * millions
    growth.details["clean, 10 million more a processor s"] = 2_000_000
    (title, plot), (rates, rate_plot) = plots.draw([growth])
    assert title.startswith("GROWTH: how long")
    assert (">clean<" in plot, ">one giant session<" in plot) == (True, False)
    assert rates.startswith("GROWTH: records that a processor judges")
    assert (">clean: one more<" in rate_plot, ">clean: all<" in rate_plot) == (True, True)


@pytest.mark.slow
async def test_a_bridge_is_measured_beside_its_client(tmp_path: Path) -> None:
    if shutil.which("mosquitto") is None:
        pytest.skip("no mosquitto on this machine")
    result = await measured("BRIDGE", tmp_path, 300)
    assert result.verified, result.notes
    assert all(len(figure.values) == 1 and figure.values[0] > 0 for figure in result.figures.values())
