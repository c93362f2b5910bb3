"""The local engine: files to verdicts, with the place of every violation."""

from pathlib import Path

from tests.tools.replay.faults import FAULTS, ready
from triack.tools.replay.engines.local_engine import judge_records, replay_local
from triack.tools.replay.log.files import find_logs


def test_a_violation_names_its_file_and_line(tmp_path: Path) -> None:
    world = ready()
    FAULTS["order_ack_too_early"](world)
    world.save(tmp_path)
    (found,) = [it for it in replay_local(find_logs([tmp_path])).findings if it.check == "order_ack_before_commit"]
    line = Path(found.file).read_text().splitlines()[found.line - 1]
    assert '"event": "order_ack_sent"' in line
    assert f'"wall_ns": {found.wall_ns}' in line


def test_records_in_memory_are_judged_alike(tmp_path: Path) -> None:
    world = ready()
    FAULTS["lost_transactional"](world)
    records = world.all_records()
    world.save(tmp_path)
    one, other = judge_records(records), replay_local(find_logs([tmp_path])).findings
    assert [it.identity for it in one] == [it.identity for it in other]


def test_progress_is_reported(tmp_path: Path) -> None:
    ready().save(tmp_path)
    logs, told = find_logs([tmp_path]), list[str]()
    assert replay_local(logs, told.append) == replay_local(logs)
    assert told == [f"file {at} of {len(logs)}, 0 records of it judged" for at in range(1, len(logs) + 1)]
