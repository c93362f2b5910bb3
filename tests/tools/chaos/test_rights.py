"""Permissions that come and go: forbidden messages are refused, and a host that takes one is found."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.tools.chaos.scenes import STREAM, Trusting, plan_of
from triack.base.units import SECOND
from triack.queues.streams.inbox import Inbox
from triack.tools.chaos.plan import Fault, Plan

WAVERING = replace(STREAM, gap_ns=SECOND, batch=3, wavers=True)
FORBID = Fault(0, "forbid", 1, 0, after=0, for_ns=100 * SECOND)


def forbid_for_a_while(scene: Trusting) -> None:
    scene.world.run(2 * SECOND)
    scene.trust.rights.forbid(FORBID)
    scene.world.run(3 * SECOND)
    assert scene.trust.rights.of(1, 0) == ()
    scene.trust.heal(scene.work.history)
    assert scene.trust.rights.of(1, 0) == ("*",)
    scene.work.finish()
    scene.world.run(30 * SECOND)
    scene.work.read_dead_letters(scene.hosts[0])
    scene.work.history.finish()
    scene.trust.judge(scene.work.history)


def test_what_comes_meanwhile_is_refused_and_what_comes_later_is_taken(make: Callable[[Plan], Trusting]) -> None:
    """Every message is handed out, or a dead letter with the reason."""
    scene = make(plan_of(streams=(WAVERING,)))
    forbid_for_a_while(scene)
    (seen,) = scene.work.history.streams
    assert seen.refused
    assert seen.handed
    assert seen.refused | seen.handed.keys() == seen.fates.keys()
    assert scene.trust.violations == scene.work.history.violations == []


@pytest.mark.plain
def test_a_node_that_does_not_hear_of_it_is_found_out(
    make: Callable[[Plan], Trusting], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on as it was when the stream began."""
    monkeypatch.setattr(Inbox, "handle_directory_changed", lambda self: None)
    scene = make(plan_of(streams=(WAVERING,)))
    forbid_for_a_while(scene)
    sentences = [sentence for rule, sentence in scene.trust.violations if rule == "permission"]
    assert sentences
    assert all("while its sender might not send there" in sentence for sentence in sentences)


@pytest.mark.plain
def test_a_node_that_never_forgives_is_found_out(
    make: Callable[[Plan], Trusting], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A forbidden stream stays so."""
    scene = make(plan_of(streams=(WAVERING,)))
    scene.world.run(2 * SECOND)
    scene.trust.rights.forbid(FORBID)
    scene.world.run(SECOND)
    monkeypatch.setattr(Inbox, "handle_directory_changed", lambda self: None)
    forbid_for_a_while(scene)
    assert [rule for rule, sentence in scene.trust.violations if "may send there again" in sentence] == ["permission"]
