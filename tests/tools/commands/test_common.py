"""What the commands share."""

from pathlib import Path

import pytest

from triack.base.errors import AddressError
from triack.tools.commands.common import name_for


def test_a_node_is_named_after_its_directory_if_that_can_be_a_name(tmp_path: Path) -> None:
    """What was not asked for is no error."""
    assert name_for(None, tmp_path / "plant-a") == "plant-a"
    assert name_for(None, tmp_path / "plant a") == "node"
    assert name_for("b", tmp_path / "plant a") == "b"
    with pytest.raises(AddressError, match="' ' is not a letter"):
        name_for("plant a", tmp_path / "b")
