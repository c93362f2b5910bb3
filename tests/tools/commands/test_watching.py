"""Views that are drawn again and again."""

import asyncio
import io
import sys

import click
import pytest

from triack.tools.commands.watching import repeat


async def test_once_is_once(capsys: pytest.CaptureFixture[str]) -> None:
    async def draw() -> None:
        click.echo("seen")

    await repeat(draw, None)
    assert capsys.readouterr().out == "seen\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("kind", [io.StringIO, Terminal])
async def test_again_is_until_it_is_ended(kind: type[io.StringIO], monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pipe one below the other; on a terminal in its place, on a screen that is left as it was."""
    out, drawn, enough = kind(), list[int](), asyncio.Event()

    async def draw() -> None:
        drawn.append(len(drawn))
        click.echo(f"view {drawn[-1]}")
        if len(drawn) == 3:
            enough.set()

    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv("TERM", "xterm")
    watching = asyncio.create_task(repeat(draw, 0.001))
    await enough.wait()
    await asyncio.sleep(0.01)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert "view 0" in out.getvalue()
    assert "view 2" in out.getvalue()
    assert ("\x1b[?1049h" in out.getvalue()) == ("\x1b[?1049l" in out.getvalue()) == (kind is Terminal)
