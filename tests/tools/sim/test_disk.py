"""A disk when processes and machines end, its damage and copies, and that all depends on the seed."""

import os
import subprocess
import sys
from random import Random

import apsw
import pytest

from tests.machine import PATIENCE_S
from tests.tools.sim.files import open_database, rows, written
from triack.tools.sim.disk import Disk, Kept, sectors

# ---- what survives


def test_a_write_is_seen_at_once_and_gone_with_the_power(disk: Disk) -> None:
    """Unless it was synced; a killed process takes nothing with it."""
    file = written(disk, b"synced")
    file.xSync(2)
    file.xWrite(b"lost", 6)
    assert disk.files() == {"log": b"syncedlost"}
    disk.kill()
    assert disk.files() == {"log": b"syncedlost"}
    disk.lose_power_with([])
    assert disk.files() == {"log": b"synced"}


def test_exactly_what_is_chosen_survives_in_the_chosen_order(disk: Disk) -> None:
    """Parts of writes, too; what lies between is zero."""
    file = written(disk, b"")
    file.xSync(2)
    file.xWrite(b"aaaa", 0)
    file.xWrite(b"bbbb", 2)
    file.xTruncate(5)
    before = disk.snapshot()
    for kept, content in (
        ([], b""),
        ([Kept(0)], b"aaaa"),
        ([Kept(0), Kept(1)], b"aabbbb"),
        ([Kept(1), Kept(0)], b"aaaabb"),
        ([Kept(1), Kept(2)], b"\0\0bbb"),
        ([Kept(0, 1, 3)], b"\0aa"),
        ([Kept(0), Kept(1, 3)], b"aaaa\0b"),
    ):
        disk.restore(before)
        disk.lose_power_with(kept)
        assert disk.files() == {"log": content}, kept


def test_power_loss_leaves_nothing_everything_prefixes_parts_and_torn_writes() -> None:
    """Each of them is seen within some seeds, and without tearing no write is torn."""
    seen: dict[bool, set[bytes]] = {}
    for tears in (False, True):
        for seed in range(300):
            disk = Disk(Random(seed))
            disk.tears = tears
            file = written(disk)
            file.xSync(2)
            for number in range(3):
                file.xWrite(bytes([65 + number]) * 600, number * 600)
            disk.lose_power()
            seen.setdefault(tears, set()).add(disk.files()["log"])
            disk.close()
    whole = [bytes([65 + number]) * 600 for number in range(3)]
    nothing, everything, prefix, part = b"", b"".join(whole), whole[0] + whole[1], bytes(600) + whole[1]
    assert {nothing, everything, prefix, part} <= seen[False]
    assert len(seen[False]) == 8
    assert seen[False] < seen[True]
    assert any(content.count(b"A") == 512 for content in seen[True])
    assert any(content.count(b"A") % 256 for content in seen[True] - seen[False])


def test_sectors_are_those_of_the_disk(disk: Disk) -> None:
    """Not those of the write: one that begins in the middle of a sector is cut where the sector ends."""
    file = written(disk)
    file.xWrite(b"x" * 1_000, 500)
    assert sectors(disk.unsynced[-1]) == [(0, 12), (12, 524), (524, 1000)]


# ---- what is broken


def test_bytes_rot_as_seen_and_as_kept(disk: Disk) -> None:
    """A damaged file stays so without power; as many bits flip as were asked for."""
    file = written(disk, bytes(1_000))
    file.xSync(2)
    disk.rot(5)
    content = disk.files()["log"]
    assert sum(byte.bit_count() for byte in content) == 5
    disk.damage("log", 10, b"xyz")
    disk.cut("log", 500)
    disk.lose_power_with([])
    assert disk.files()["log"] == content[:10] + b"xyz" + content[13:500]


# ---- SQLite on it


def test_sqlite_keeps_what_it_synced_and_no_more(disk: Disk) -> None:
    """Committed with a sync: there. Without: not there, so this disk does lose."""
    database = open_database(disk)
    database.execute("INSERT INTO rows VALUES (1)")
    database.pragma("synchronous", "OFF")
    database.execute("INSERT INTO rows VALUES (2)")
    seen = disk.snapshot()
    disk.kill()
    assert rows(disk) == [1, 2]
    disk.restore(seen)
    disk.lose_power_with([])
    assert rows(disk) == [1]


def test_a_copy_goes_its_own_way(disk: Disk) -> None:
    """On another disk, with what was not synced; the original does not notice."""
    file = written(disk, b"one")
    file.xSync(2)
    file.xWrite(b"two", 0)
    copy = Disk(Random(2))
    copy.restore(disk.snapshot())
    assert copy.files() == disk.files() == {"log": b"two"}
    copy.lose_power_with([])
    assert (copy.files(), disk.files()) == ({"log": b"one"}, {"log": b"two"})
    copy.close()


# ---- the same again

SCRIPT = """
import gc, sys
gc.disable() if sys.argv[1] == "off" else gc.set_threshold(1)
from random import Random
from tests.tools.sim.test_disk import lived
print(lived(7))
"""


def lived(seed: int) -> str:
    """The bytes that some work, some faults and a loss of power leave."""
    disk = Disk(Random(seed))
    disk.faults.write = disk.faults.sync = 0.01
    for number in range(60):
        try:
            database = open_database(disk)
            database.execute("INSERT INTO rows VALUES (?)", (number,))
        except apsw.Error:
            pass
        if number % 7 == 0:
            disk.lose_power()
        else:
            disk.kill()
    found = disk.fingerprint()
    disk.close()
    return found


@pytest.mark.slow
def test_the_same_seed_leaves_the_same_bytes() -> None:
    """In this process twice, in others with other hash seeds and collectors; another seed leaves others."""
    first = lived(7)
    assert lived(7) == first != lived(8)
    for hash_seed, collector in (("0", "off"), ("1", "eager")):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, collector],
            env=os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.stdout.strip() == first, done.stderr
