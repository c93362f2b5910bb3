"""A node with several addresses is reached at each of them, through a firewall that lets in answers and no more."""

import json
import sys

import pytest

from proof.real.homes import HOMES, needs
from proof.real.namespace import lossy, missing
from tests.machine import PATIENCE_S

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("listen", ["udp://0.0.0.0:7801", "udp://[::]:7801"])
def test_each_address_answers(listen: str) -> None:
    """Strangers' handshakes and sessions alike: IPv4, IPv6, and link-local addresses with their scope."""
    if (reason := missing() or needs()) is not None:
        pytest.skip(reason)
    found = lossy(0, [sys.executable, "-m", "proof.real.homes", listen], limit_s=PATIENCE_S)
    assert found.code == 0, found.complaints
    homes = [host for host in HOMES if "[" in listen or ":" not in host]
    assert json.loads(found.output) == dict.fromkeys(homes, "ordered")
