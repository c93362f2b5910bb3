"""The options of a user for all rows."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from triack.tools.bench.run import Progress
from triack.tools.bench.work import Work

__all__ = ["Meter", "Options"]


@dataclass(frozen=True, slots=True)
class Options:
    """How rows are measured.

    Attributes:
        folder: where data goes: on the disk that is to be measured.
        seconds: of each run; None for those of the row.
        messages: of each run in place of a time.
        versus: the peer to measure in turns, or "".
        congestion: how Triack shares the network; None for the row's own.
        datagram_bytes: the largest datagram; None for the row's own.
        window: packets that may be unacknowledged, or ``"auto"``; None for the row's own.
        quick: whether rows of many runs make only some of them.
        simulated: whether policies are compared on simulated links, and not on real nodes.
    """

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
    """Receives the progress.

    Attributes:
        begin: (name of the run, its work); called before each run.
        watch: gets the progress of that run.
        say: a line when a run is done.
    """

    begin: Callable[[str, Work], None] = field(default=_nothing)
    watch: Callable[[Progress], None] = field(default=_nothing)
    say: Callable[[str], None] = field(default=_nothing)
