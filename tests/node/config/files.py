"""Files of settings for tests."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from triack.base.errors import ConfigError
from triack.node.config.config import Config, Sources


def read(folder: Path, text: str, environment: Mapping[str, str] | None = None) -> Config:
    file = folder / "triack.toml"
    file.write_text(text)
    return Sources(file, environment or {}).read()


def problems_of(folder: Path, text: str, environment: Mapping[str, str] | None = None) -> list[str]:
    """Every mistake, without the folder of the file."""
    with pytest.raises(ConfigError) as caught:
        read(folder, text, environment)
    return [problem.removeprefix(f"{folder}/") for problem in caught.value.problems]
