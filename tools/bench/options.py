"""The options of a user for all rows."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from triack.tools.bench.run import Progress
from triack.tools.bench.work import Work


@dataclass(frozen=True, slots=True)
class Options:
    """How rows are measured."""

    folder: Path
    runs: int = 5
    seconds: float | None = None
    messages: int | None = None
    insecure: bool = False
    versus: str = ""
    congestion: str | None = None
    datagram_bytes: int | None = None
    window: int | Literal["auto"] | None = None
    quick: bool = False
    simulated: bool = False

    def folder_of(self, name: str) -> Path:
        """Where a run of that name works."""
        return self.folder / name.replace(" ", "-").replace("/", "-")

    def shaped(self, work: Work) -> Work:
        """The work of a row, as the user wants it."""
        return replace(
            work,
            seconds=work.seconds if self.seconds is None else self.seconds,
            messages=work.messages if self.messages is None else self.messages,
            insecure=self.insecure,
            congestion=self.congestion or work.congestion,
            datagram_bytes=self.datagram_bytes or work.datagram_bytes,
            window=self.window or work.window,
        )


def _nothing(*_told: object) -> None:
    """Ignores the progress."""


@dataclass(frozen=True, slots=True)
class Meter:
    """Receives the progress."""

    begin: Callable[[str, Work], None] = field(default=_nothing)
    watch: Callable[[Progress], None] = field(default=_nothing)
    say: Callable[[str], None] = field(default=_nothing)
