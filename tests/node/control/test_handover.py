"""Where a serving process can be found."""

import tempfile
from pathlib import Path

import pytest

from triack.base.errors import TriackError
from triack.node.control import handover


def test_a_control_socket_that_the_system_would_refuse_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A socket's path holds 103 bytes; nothing is left behind."""
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with pytest.raises(TriackError) as refused:
        handover.make_socket_path()
    assert str(refused.value).startswith(f"control socket {long}/triack-")
    assert str(refused.value).endswith(": the path is too long; set TMPDIR to a shorter one")
    assert list(long.iterdir()) == []
