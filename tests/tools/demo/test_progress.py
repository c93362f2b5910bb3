"""How far the demo has come, on a terminal and elsewhere."""

import asyncio
from io import StringIO
from types import SimpleNamespace

import pytest
from rich.console import Console

from tests.machine import PATIENCE_S
from triack.tools.demo import progress
from triack.tools.demo.progress import shown
from triack.tools.demo.run import Transfer


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something is shown at every step of the loop, and each time two seconds are over."""
    seconds = iter(range(0, 10_000, 2))
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: float(next(seconds))))
    monkeypatch.setattr(progress, "PLAIN_S", 0)
    monkeypatch.setattr(progress, "TERMINAL_S", 0)


async def until(out: StringIO, text: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while text not in out.getvalue():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0)


async def test_elsewhere_it_is_a_line_from_time_to_time() -> None:
    out, transfer = StringIO(), Transfer(sent=5000, ordered=2000, delivered=1000)
    async with shown(transfer, 9999, Console(file=out, width=100)):
        await until(out, "\n")
        assert out.getvalue().splitlines()[0] == "sent 5,000  ordered 2,000  delivered 1,000  500/s"
        transfer.delivered = 4000
        await until(out, "sent 5,000  ordered 2,000  delivered 4,000  1,500/s\n")
    before = out.getvalue()
    await asyncio.sleep(0.01)
    assert out.getvalue() == before


async def test_on_a_terminal_it_is_live() -> None:
    """And the end is shown, though it came between two looks."""
    out, transfer = StringIO(), Transfer()
    async with shown(transfer, 300, Console(file=out, width=120, force_terminal=True, color_system=None)):
        await until(out, "0/300")
        transfer.sent, transfer.ordered, transfer.delivered = 300, 299, 298
    text = out.getvalue()
    assert all(it in text for it in ("sent", "300/300", "ordered", "299/300", "delivered", "298/300"))


async def test_nothing_is_shown_without_a_console(capsys: pytest.CaptureFixture[str]) -> None:
    async with shown(Transfer(), 1, None):
        await asyncio.sleep(0.01)
    assert capsys.readouterr() == ("", "")


async def test_what_fails_meanwhile_is_not_hidden() -> None:
    async def fail(out: StringIO) -> None:
        async with shown(Transfer(), 1, Console(file=out)):
            await until(out, "\n")
            raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        await fail(StringIO())
