"""T8 on a real link of two namespaces: Triack and TCP get through, in order, and the losses are counted."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.tools.bench.measuring import measured
from triack.tools.bench.link import T8_LINK, _one, share
from triack.tools.bench.namespace import missing
from triack.tools.bench.options import Meter
from triack.tools.bench.run import Outcome
from triack.tools.bench.work import Work
from triack.tools.sim.faults import Faults


def test_a_full_link_is_a_hundred_percent_of_what_it_lets_through() -> None:
    outcome = Outcome(1, 1, 1.0, 1.0, 11_250_000.0, True, [], "", {}, {}, {})
    assert share(outcome, replace(T8_LINK, loss=0.1)) == 100


@pytest.mark.slow
async def test_a_loss_has_its_figures(tmp_path: Path) -> None:
    if missing() is not None:
        pytest.skip(str(missing()))
    result = await measured("T8", tmp_path, None, seconds=0.1)
    assert result.verified, result.notes
    assert "no gap, none twice, in order" in result.guarantee
    figure = result.figures["5 % loss"]
    assert 0 < figure.values[0] <= 100
    assert 0 <= figure.versus_values[0] <= 100


@pytest.mark.slow
async def test_a_slow_link_carries_a_stream_of_large_packets(tmp_path: Path) -> None:
    """The kernel's own TCP at 2 Mbit/s: all come once and in order, and the link is not filled with copies."""
    if missing() is not None:
        pytest.skip(str(missing()))
    work = Work(size=16_384, transport="tcp", datagram_bytes=65_000, window=64, messages=40)
    slow = Faults(rate_bps=2_000_000, delay_ns=25_000_000, queue_bytes=64_000)
    outcome = await _one("triack", "", work, slow, tmp_path / "slow", Meter())
    assert (outcome.verified, outcome.delivered) == (True, 40), outcome.flaw
    assert outcome.facts["sender"]["wire_bytes"] < 2 * 40 * 16_384


async def test_without_namespaces_it_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from triack.tools.bench import link

    monkeypatch.setattr(link, "missing", lambda: "there is no ip here")
    result = await measured("T8", tmp_path, None)
    assert (result.notes, result.headline.values) == (["not run: there is no ip here"], [])
