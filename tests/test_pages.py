"""The commands that the documentation shows work when they are typed, and print what the page says."""

import re
import shutil
import subprocess
import sys
import sysconfig
from importlib import metadata
from operator import attrgetter
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import triack
from tests.machine import PATIENCE_S
from tests.pages import ROOT, read_blocks, type_page
from tests.tools.forkserver import put_command

PAGES = sorted(
    page
    for page in [*ROOT.glob("docs/**/*.md"), ROOT / "README.md"]
    if any(kind == "console" for kind, _ in read_blocks(page))
)
BIN = Path(sys.executable).parent


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "README.md"], ids=lambda page: page.stem)
def test_the_commands_of_a_page(page: Path, tmp_path: Path) -> None:
    """The README's are started as they are installed; these as ``tests/tools/forkserver.py`` does it."""
    if "mosquitto_pub" in page.read_text() and not (shutil.which("mosquitto") and shutil.which("mosquitto_pub")):
        pytest.skip("no mosquitto, or no clients of it, on the PATH (Debian: mosquitto, mosquitto-clients)")
    (tmp_path / "bin").mkdir()
    (tmp_path / "home").mkdir()
    asking, variable = put_command(tmp_path / "bin")
    assert type_page(page, tmp_path / "home", f"{tmp_path / 'bin'}:{BIN}", variable, (asking,)) > 0


def test_the_limits_of_a_peer_are_the_defaults() -> None:
    """Each setting that its table names, with its value."""
    rows = re.findall(r"^\| (`[a-z_.]+`.*?) \| (.*?) \|", (ROOT / "docs" / "peer-cost.md").read_text(), re.MULTILINE)
    shown = {name: value for names, value in rows for name in re.findall(r"`((?:limits|session|max)[a-z_.]+)`", names)}
    assert len(shown) == 13
    for name, value in shown.items():
        default = attrgetter(name)(triack.NodeSettings())
        parts = (default.messages, default.size_bytes) if isinstance(default, triack.Quota) else (default,)
        assert all(amount(part) in value for part in parts), (name, value)


def amount(value: int) -> str:
    """As people read it."""
    for shift, unit in ((30, "GiB"), (20, "MiB")):
        if not value % (1 << shift):
            return f"{value >> shift} {unit}"
    return f"{value:,}"


@pytest.mark.gate
@pytest.mark.slow
def test_the_commands_of_the_readme_from_pip_install_on(tmp_path: Path, wheel: Path) -> None:
    """In a fresh environment that has the libraries which the extra ``cli`` names, and no Triack yet."""
    fresh = make_environment(tmp_path / "venv", "triack[cli]")
    (tmp_path / "home").mkdir()
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheel), "PIP_CONFIG_FILE": "/dev/null"}
    assert type_page(ROOT / "README.md", tmp_path / "home", str(fresh), offline) > 5


@pytest.mark.slow
def test_a_plain_installation_is_the_library(tmp_path: Path, wheel: Path) -> None:
    """With its few libraries alone; the command says what it needs."""
    fresh = make_environment(tmp_path / "venv", "triack")
    subprocess.run([fresh / "pip", "install", "-q", "--no-index", "--find-links", wheel, "triack"], check=True)
    program = (
        "import triack.sync\nwith triack.sync.open('a', data=None, insecure=True) as a: a.send('q', b'x').ordered(9)"
    )
    subprocess.run([fresh / "python", "-c", program], check=True, timeout=PATIENCE_S)
    told = subprocess.run([fresh / "triack", "-h"], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (told.returncode, told.stderr) == (
        1,
        "triack: the command line needs a few libraries more: pip install 'triack[cli]'\n",
    )
    listed = subprocess.run([fresh / "pip", "list"], capture_output=True, text=True, check=True).stdout
    assert not {"click", "rich", "structlog"} & {line.split()[0] for line in listed.splitlines()}


def test_what_a_package_index_shows_leads_nowhere_else() -> None:
    """It has no links into the repository; ``test_examples`` tries its program."""
    page = metadata.metadata("triack")["Description"]
    assert page.startswith("# Triack")
    assert re.findall(r"\]\((?!https://)", page) == []


def make_environment(folder: Path, wanted: str) -> Path:
    """A fresh virtual environment with pip and the libraries that are required, from here, as they cost no time then.

    Returns its folder of commands.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    site = folder / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    for name in required(Requirement(wanted)) - {"triack"} | {"pip"}:
        for file in metadata.files(name) or []:
            top = file.parts[0]
            if top != ".." and not (site / top).exists():
                (site / top).symlink_to(str(metadata.distribution(name).locate_file(top)))
    pip = folder / "bin" / "pip"
    pip.write_text(f"#!{folder}/bin/python\nfrom pip._internal.cli.main import main\nraise SystemExit(main())\n")
    pip.chmod(0o755)
    return folder / "bin"


def required(wanted: Requirement) -> set[str]:
    """The distributions that must be installed for this, itself included."""
    found = {wanted.name}
    for text in metadata.requires(wanted.name) or []:
        needed = Requirement(text)
        if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in {"", *wanted.extras}):
            found |= required(needed)
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the project's wheel, built from a copy."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    shutil.copytree(
        ROOT, source, ignore=shutil.ignore_patterns(".*", "build", "dist", "__pycache__", "*.egg-info", "tests")
    )
    options = ["-q", "--no-deps", "--no-index", "--no-build-isolation", "-w", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, source], check=True)
    return folder


def test_each_line_of_the_log_is_on_its_page() -> None:
    """By what is fixed of it, wherever a line is written."""
    page = (ROOT / "docs" / "log-lines.md").read_text()
    rows = re.findall(r"^\| \w+(?:, \w+)* \| (.*?) \|", page, re.MULTILINE)
    lines = [
        line
        for room in ("node", "tools")
        for path in (ROOT / room).rglob("*.py")
        for line in re.findall(r"operator_log\.\w+\(f?\"(.+?)\"", path.read_text())
    ]
    assert len(lines) > 10
    for line in lines:
        fixed = [part.strip(" :;,") for part in re.split(r"\{.*?\}", line)]
        assert any(all(part in row for part in fixed if part) for row in rows), line
