"""The kernel's packet filter drops 30 % each way, in a network namespace of the test's own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from proof.real.namespace import lossy, missing
from tests.machine import PATIENCE_S
from triack.tools.bench.namespace import PATH

pytestmark = pytest.mark.slow

MESSAGES = 300
TOOLS = os.environ | {"PATH": PATH}


@pytest.fixture(autouse=True)
def namespaces() -> None:
    if (reason := missing()) is not None:
        pytest.skip(reason)


@pytest.mark.parametrize("scheme", ["udp", "portable", "tcp"])
def test_messages_get_through(scheme: str) -> None:
    """All, once and in order, as the application saw it and as the replay of the session logs shows."""
    command = [sys.executable, "-m", "proof.real.network", scheme, str(MESSAGES), "100", str(PATIENCE_S)]
    found = lossy(30, command, limit_s=PATIENCE_S + 30)
    assert found.code == 0, found.complaints
    crossing = json.loads(found.output)
    assert crossing["violations"] == []
    assert crossing["messages"] == MESSAGES
    assert found.passed > 5
    assert found.dropped > 0


def test_a_command_that_fails_or_hangs_is_not_taken_for_a_success() -> None:
    assert lossy(30, ["false"]).code == 1
    assert lossy(30, ["sleep", "60"], limit_s=1).code is None


def test_a_filter_that_the_kernel_does_not_take_is_reported() -> None:
    """Its own words come along, and the command does not run in a network that loses nothing."""
    found = lossy(200, ["echo", "ran"])
    assert (found.code, found.output) == (1, "")
    assert "mod 100 < 200" in found.complaints


def test_by_hand_it_makes_a_namespace_of_its_own_and_leaves_this_one_alone() -> None:
    """Rules in the namespace of the machine would lose everybody's packets until somebody finds them."""
    before = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=False, env=TOOLS).stdout
    inside = [sys.executable, "-c", "import os; print(os.readlink('/proc/self/ns/net'))"]
    by_hand = [sys.executable, "-m", "proof.real.namespace", "30", *inside]
    found = subprocess.run(by_hand, capture_output=True, text=True, check=True)
    here = str(Path("/proc/self/ns/net").readlink())
    assert "net:[" in found.stdout
    assert here not in found.stdout
    after = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=False, env=TOOLS).stdout
    assert after == before
    refused = [sys.executable, "-m", "proof.real.namespace", "--inside", here, "30", "true"]
    failed = subprocess.run(refused, capture_output=True, text=True, check=False)
    assert "no network namespace of its own" in failed.stderr
