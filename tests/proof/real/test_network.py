"""Through the worst weather, on real sockets: everything arrives once, in order and undamaged."""

from pathlib import Path

import pytest

from proof.real.network import cross, outage, weather

SCHEMES = ["udp", "tcp"]
EFFICIENT = 1.3
"""Bytes that may be sent for a byte of payload, times what the loss makes necessary."""


@pytest.mark.slow
@pytest.mark.gate
@pytest.mark.parametrize("loss", [0.02, 0.1])
async def test_a_little_loss_costs_little(tmp_path: Path, loss: float) -> None:
    found = await cross(tmp_path, weather(loss=loss), scheme="udp", messages=500, size_bytes=1_000)
    assert found.violations == []
    assert found.messages == 500
    # The sender cannot know that its last packets need no repair: small transfers pay more for that than large ones.
    assert found.overhead < 1.1 * EFFICIENT / (1 - loss)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("loss", "messages"), [(0.3, 300), (0.5, 100)])
async def test_everything_bad_at_once(tmp_path: Path, scheme: str, loss: float, messages: int) -> None:
    """Loss, copies, overtaking and damage, at shares that no network has."""
    faults = weather(loss=loss, duplicate=0.1, reorder=0.1, corrupt=0.1)
    found = await cross(tmp_path, faults, scheme=scheme, messages=messages, size_bytes=500)
    assert found.violations == []
    assert found.messages == messages
    if scheme == "udp":
        assert found.damaged > 5


@pytest.mark.slow
async def test_nothing_damaged_is_believed(tmp_path: Path) -> None:
    """When every other datagram is damaged, each of those is dropped for what it is."""
    found = await cross(tmp_path, weather(corrupt=0.5), scheme="udp", messages=50, size_bytes=500)
    assert found.violations == []
    assert found.damaged > 20
    said = {"bad-tag", "bad-version", "bad-header", "unknown-kind", "unknown-connection", "too-short", "empty"}
    assert set(found.drops) <= said
    # The last ones may still be on their way.
    assert found.damaged - 5 <= sum(found.drops.values()) <= found.damaged


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "both"), [("udp", True), ("tcp", False)])
async def test_an_outage_longer_than_a_session(tmp_path: Path, scheme: str, both: bool) -> None:
    """Messages that were sent meanwhile arrive afterwards, in order; the long run measures how soon."""
    found = await outage(tmp_path, scheme=scheme, seconds=2.5, both=both)
    assert found.violations == []
    assert found.first_delivery_s < 20


@pytest.mark.slow
@pytest.mark.gate
async def test_who_loses_everything_delivers_nothing(tmp_path: Path) -> None:
    """The checks of a crossing bite."""
    found = await cross(tmp_path, weather(loss=1), scheme="udp", messages=2, size_bytes=100, limit_s=0.3)
    assert found.violations == ["0 of 2 messages after 0.3 s"]
