"""The id of a boot of the machine."""

from pathlib import Path

import pytest

from triack.store import boot as boots


@pytest.fixture(autouse=True)
def unknown() -> None:
    boots.boot_id.cache_clear()


def test_all_processes_of_a_boot_have_one_name_for_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "boot_id"
    file.write_text("0f3c6f5e-1b2d-4a5b-8c9d-001122334455\n")
    monkeypatch.setattr(boots, "BOOT_ID", file)
    assert boots.boot_id() == bytes.fromhex("0f3c6f5e1b2d4a5b8c9d001122334455")


@pytest.mark.parametrize("content", [None, "", "not hex", "0f3c"])
def test_a_system_that_does_not_tell_has_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str | None
) -> None:
    file = tmp_path / "boot_id"
    if content is not None:
        file.write_text(content)
    monkeypatch.setattr(boots, "BOOT_ID", file)
    assert boots.boot_id() == b""
    boots.boot_id.cache_clear()
