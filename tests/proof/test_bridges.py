"""A link that is down for some seconds: what each way of passing messages on makes of it."""

import asyncio
import shutil

import pytest

from proof.bridges import WAYS, Outcome, away, outage

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _has_mosquitto() -> None:
    if shutil.which("mosquitto", path="/usr/sbin:/usr/bin") is None:
        pytest.skip("no mosquitto on this machine")


@pytest.mark.parametrize("way", WAYS)
def test_what_is_lost_is_counted(way: str) -> None:
    """With a kill in the middle, Triack loses nothing; mosquitto forgets what it has not written."""
    found = asyncio.run(outage(way, 400, 6))
    assert found.acknowledged > 0
    if way == "Triack":
        assert found == Outcome(found.acknowledged, lost=0, repeated=0)
    elif way == "mosquitto as it comes":
        assert found.lost > 0, "it had nothing on its disk"


def test_a_gateway_takes_messages_for_a_cloud_that_is_away() -> None:
    told: list[str] = []
    asyncio.run(away(1_000, told.append))
    assert len(told) == 10
    assert told[-1].startswith("    1,000 messages taken: at most ")
