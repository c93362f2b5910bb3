"""What a lying relay can do to sealed messages is nothing, unless proofs or bounds are not checked."""

import pytest

from proof.planted.bug import Bug
from proof.planted.lying_relay import LIES
from proof.planted.relays import BUGS


def test_an_honest_program_believes_no_lie() -> None:
    assert LIES.run() == ""


@pytest.mark.parametrize("bug", [bug for bug in BUGS if bug.scope is LIES], ids=lambda bug: bug.name)
def test_each_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    assert bug.says in LIES.run()
