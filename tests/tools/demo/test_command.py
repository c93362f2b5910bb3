"""A demo reports missing libraries before it begins."""

import sys
from pathlib import Path

import pytest

from triack.tools.cli import main


@pytest.mark.parametrize(
    ("missing", "engine", "said"),
    [
        (
            "pyspark",
            "spark",
            "replay on Spark needs PySpark: pip install 'triack[spark]', or use --engine local",
        ),
        (
            "java",
            "spark",
            (
                "replay on Spark needs Java 17 or later, and JAVA_HOME is {home}, which has no bin/java: install it, "
                "or use --engine local"
            ),
        ),
    ],
)
def test_what_is_not_installed_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    missing: str,
    engine: str,
    said: str,
) -> None:
    for package in ("matplotlib", "pyspark"):
        pytest.importorskip(package)
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        main(["demo", "--engine", engine, "--keep", str(tmp_path / "kept")])
    assert (ended.value.code, capsys.readouterr().err) == (1, f"triack: {said.format(home=tmp_path)}\n")
    assert not (tmp_path / "kept").exists()
