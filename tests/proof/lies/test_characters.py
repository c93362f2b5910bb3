"""Single characters of logs that are not as they were: found, harmless by name, or without a meaning."""

import pytest

from proof.lies.characters import SAME, Slip, differences, slips, tell_slip, tell_slips
from proof.lies.logs import Files, honest_files, records_of
from proof.lies.run import Told

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


@pytest.mark.slow
@pytest.mark.gate
def test_each_is_one_character(files: Files) -> None:
    for slip, known, _ in slips(30, logs=1, wide=0):
        (name,) = [name for name in known if slip.files[name] != known[name]]
        before, after = known[name], slip.files[name]
        assert len(after) - len(before) == {"change": 0, "remove": -1, "insert": 1}[slip.kind]
        assert after[: slip.at] == before[: slip.at]
        assert slip.where.startswith(f"{name} line ")


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
