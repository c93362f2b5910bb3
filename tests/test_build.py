"""Two builds of the same sources are the same, bit by bit: wherever, whenever and by whom."""

import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
YEAR_S = 365 * 24 * 3_600


def copy_sources(target: Path, mode: int, age_s: int) -> None:
    """The sources as another person has checked them out."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    folders = {Path(it).parts[0] for it in project["tool"]["setuptools"]["package-dir"].values()} | {"docs", "examples"}
    for folder in sorted(folders):
        shutil.copytree(ROOT / folder, target / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ROOT.glob("*.*"):
        if file.suffix in (".toml", ".py", ".md", ".in"):
            shutil.copy(file, target)
    shutil.copy(ROOT / "LICENSE", target)
    for path in target.rglob("*"):
        path.chmod(mode | 0o100 if path.is_dir() else mode)
        os.utime(path, (path.stat().st_mtime - age_s,) * 2)


def build(folder: Path, umask: int) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder / "dist"), str(folder)]
    subprocess.run(command, check=True, capture_output=True, umask=umask, env=environment)
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in (folder / "dist").iterdir()}


@pytest.mark.slow
def test_two_builds_are_the_same_bit_by_bit(tmp_path: Path) -> None:
    """With other file times, modes and umask, and after Python has compiled the examples."""
    found = []
    for name, mode, umask, age_s in (("one", 0o644, 0o022, 0), ("other", 0o600, 0o077, YEAR_S)):
        (tmp_path / name).mkdir()
        copy_sources(tmp_path / name, mode, age_s)
        if name == "other":
            (tmp_path / name / "examples" / "__pycache__").mkdir()
            (tmp_path / name / "examples" / "__pycache__" / "x.cpython-311.pyc").write_bytes(b"compiled")
        found.append(build(tmp_path / name, umask))
    assert sorted(found[0]) == sorted(found[1])
    assert [Path(name).suffix for name in sorted(found[0])] == [".whl", ".gz"]
    assert found[0] == found[1]
