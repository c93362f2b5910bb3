"""A small measurement of a row, for the tests of each kind."""

from pathlib import Path

from triack.tools.bench.figures import Result
from triack.tools.bench.measure import measure
from triack.tools.bench.options import Meter, Options
from triack.tools.bench.rows import rows_of


async def measured(
    name: str, folder: Path, messages: int | None, *, versus: str = "", seconds: float = 0.5, simulated: bool = False
) -> Result:
    """One run of a row, of those that ``--quick`` makes."""
    (row,) = rows_of((name,))
    said: list[str] = []
    options = Options(folder, 1, seconds, messages, versus=versus, quick=True, simulated=simulated)
    result = await measure(row, options, Meter(say=said.append))
    if result.is_measured:
        assert said
        assert said[0].startswith(name)
    return result
