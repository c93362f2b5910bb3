"""The id of a boot of the machine."""

from pathlib import Path

import pytest

from triack.store import boot as boots

ID = "0f3c6f5e-1b2d-4a5b-8c9d-001122334455"


@pytest.mark.parametrize(
    ("content", "name"),
    [(f"{ID}\n", bytes.fromhex(ID.replace("-", ""))), *[(it, b"") for it in (None, "", "not hex", "0f3c")]],
)
def test_all_processes_of_a_boot_have_one_name_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str | None, name: bytes
) -> None:
    if content is not None:
        (tmp_path / "boot_id").write_text(content)
    monkeypatch.setattr(boots, "BOOT_ID", tmp_path / "boot_id")
    boots.boot_id.cache_clear()
    assert boots.boot_id() == name
    boots.boot_id.cache_clear()
