"""``triack systemd``: units that systemd itself finds no fault with."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.tools.processes import triack as command
from triack.tools.operate.systemd import unit

needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
LISTEN = ("--listen", "udp://[::]:7801")


def verify(path: Path, *options: str) -> None:
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(path.parent)}
    done = subprocess.run(
        ["systemd-analyze", *options, "verify", path], capture_output=True, text=True, check=False, env=environment
    )
    assert (done.returncode, [line for line in done.stderr.splitlines() if path.name in line]) == (0, [])


@needs_systemd
@pytest.mark.parametrize("options", [(), ("--user",)])
def test_systemd_finds_no_fault(options: tuple[str, ...], tmp_path: Path) -> None:
    done = command("systemd", "--name", "plant-b", *options, "--to", tmp_path, "--", *LISTEN)
    assert done.returncode == 0, done.stderr
    path = tmp_path / "triack-plant-b.service"
    assert done.stdout.decode().startswith(f"{path}\nthen: systemctl {' '.join(options)}".rstrip())
    verify(path, *options)


@needs_systemd
def test_little_is_exposed(tmp_path: Path) -> None:
    path = tmp_path / "triack-a.service"
    path.write_text(unit("a", LISTEN, user="triack", program=("/usr/bin/true",)))
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=25", path], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout.decode()[-200:]


def test_words_that_systemd_would_expand_stay_as_they_are() -> None:
    text = unit("a", ("--log", 'a %h "$HOME" b'), user="u", program=("/opt/tri ack",))
    assert 'ExecStart="/opt/tri ack" serve --log "a %%h \\"$$HOME\\" b" --name a --data %S/triack/a\n' in text


def test_a_directory_of_the_callers_choice_is_taken() -> None:
    assert "%S" not in unit("a", ("--data", "/srv/a"), user=None, program=("/usr/bin/triack",))
    assert "WantedBy=default.target" in unit("a", (), user=None, program=("/usr/bin/triack",))


def test_a_name_that_is_none_is_refused(tmp_path: Path) -> None:
    done = command("systemd", "--name", "../a", "--to", tmp_path)
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
