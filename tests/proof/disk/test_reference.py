"""The life that the proofs break has what makes it hard."""

from pathlib import Path
from random import Random

from proof.disk.power import moments
from proof.disk.reference import FOLDER
from tests.proof.disk.lives import DATABASE, LOG, started
from triack.tools.sim.disk import Disk


def test_the_reference_life_has_what_makes_it_hard() -> None:
    """It begins a log again, ends orderly and by a kill, and fills more than a checkpoint's worth of pages."""
    effects = [moment.effect for moment in moments(0, 1024)]
    assert effects.count(f"delete {LOG}") == 2
    assert effects.count(f"sync {DATABASE}") > 5
    assert effects.count(f"sync {LOG}") > 15
    assert len(effects) > 250


def test_names_in_a_file_system_of_sqlite_need_no_folder() -> None:
    """Nothing is made beside the simulated files."""
    disk = Disk(Random(1))
    started(disk, b"a").close()
    assert list(disk.files()) == [DATABASE]
    assert not Path(FOLDER).exists()
    disk.close()
