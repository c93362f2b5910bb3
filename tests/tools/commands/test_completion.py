"""Completion in a shell: a real bash that reads what was installed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from triack.base.errors import UsageError
from triack.tools.commands.completion import completion


def install(home: Path, monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    """Run the command for a user whose home that is."""
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("SHELL", f"/bin/{shell}")
    assert completion.main(["--install"], standalone_mode=False) == 0


def test_it_is_installed_once_and_what_was_there_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tmp_path / ".zshrc"
    settings.write_text("alias ll='ls -l'")
    for _ in range(2):
        install(tmp_path, monkeypatch, "zsh")
    script = tmp_path / ".local/share/triack/completion.zsh"
    assert settings.read_text() == f"alias ll='ls -l'\nsource \"{script}\"  # completion of triack\n"
    assert "compdef" in script.read_text()


def test_fish_has_a_place_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "fish")
    assert "complete" in (tmp_path / ".config/fish/completions/triack.fish").read_text()


def test_a_shell_that_nobody_knows_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/ed")
    with pytest.raises(UsageError, match="the shell is ed; say --shell bash, zsh, fish"):
        completion.main([], standalone_mode=False)


@pytest.mark.slow
def test_bash_completes_a_command_and_an_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "bash")
    asked = (
        "source ~/.bashrc; COMP_WORDS=(triack rec); COMP_CWORD=1; _triack_completion triack; echo ${COMPREPLY[@]}; "
        "COMPREPLY=(); COMP_WORDS=(triack send --he); COMP_CWORD=2; _triack_completion triack; echo ${COMPREPLY[@]}"
    )
    bash = shutil.which("bash")
    assert bash is not None
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    told = subprocess.run(
        [bash, "--norc", "-c", asked], env={"HOME": str(tmp_path), "PATH": path}, capture_output=True, check=True
    )
    assert told.stdout.decode().split() == ["receive", "--header", "--help"]
