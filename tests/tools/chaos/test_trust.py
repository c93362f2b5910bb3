"""Keys that are exchanged and peers that are revoked: nothing suffers from the one, nothing gets past the other."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.tools.chaos.scenes import STREAM, Trusting, plan_of
from triack.base.units import MS, SECOND
from triack.queues.manager.engine import Engine
from triack.tools.chaos.plan import Fault, Plan
from triack.transport.secure import SecureChannels

SLOW = replace(STREAM, gap_ns=800 * MS)


@pytest.mark.parametrize("host", [0, 1])
def test_a_key_is_exchanged_while_messages_flow(make: Callable[[Plan], Trusting], host: int) -> None:
    """In the end there is a new one, nobody knows the old one, and all has arrived."""
    scene = make(plan_of())
    scene.world.run(SECOND)
    old = scene.hosts[host].identity.keys
    for _ in range(2):
        # The second is asked for while the first goes on, and is left alone.
        scene.trust.rotate(Fault(0, "rotate", host, for_ns=2 * SECOND))
    scene.world.run(SECOND)
    assert old[0] in scene.hosts[host].identity.keys
    scene.world.run(30 * SECOND)
    (new,) = scene.hosts[host].identity.keys
    assert new not in old
    other, name = scene.hosts[1 - host], scene.hosts[host].name
    known = other.directory.named(name)
    assert known is not None
    assert known.keys == scene.hosts[host].peer.keys
    assert scene.handed == 200
    scene.trust.judge(scene.work.history)
    assert scene.trust.violations == []


def test_what_a_revoked_peer_has_waits_until_it_is_trusted_again(make: Callable[[Plan], Trusting]) -> None:
    """Its session ends, nothing of it arrives, and then everything does."""
    scene = make(plan_of(streams=(SLOW,)))
    scene.world.run(2 * SECOND)
    scene.trust.revoke(Fault(0, "revoke", 1, 0, for_ns=5 * SECOND))
    assert scene.trust.apart(0, 1)
    scene.world.run(SECOND)
    before = scene.handed
    assert 0 < before < 200
    scene.world.run(3 * SECOND)
    assert scene.handed == before
    scene.world.run(30 * SECOND)
    assert not scene.trust.apart(1, 0)
    assert scene.handed == 200
    scene.trust.judge(scene.work.history)
    assert scene.trust.violations == []


def test_some_are_forgiven_only_when_all_else_is_at_rest(make: Callable[[Plan], Trusting]) -> None:
    """The others with the end of the faults."""
    scene = make(plan_of(hosts=3))
    scene.trust.revoke(Fault(0, "revoke", 1, 0, for_ns=500 * SECOND))
    assert not scene.trust.heal(scene.work.history)
    scene.trust.revoke(Fault(0, "revoke", 2, 0, forever=True))
    assert scene.trust.heal(scene.work.history)
    assert (scene.trust.apart(0, 1), scene.trust.apart(0, 2)) == (False, True)
    scene.trust.forgive()
    assert not scene.trust.apart(0, 2)


def test_a_node_that_does_not_listen_is_found_out(
    make: Callable[[Plan], Trusting], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session goes on, and what comes by it is taken."""
    scene = make(plan_of(streams=(SLOW,)))
    scene.world.run(2 * SECOND)
    with monkeypatch.context() as patch:
        patch.setattr(Engine, "handle_directory_changed", lambda self, now_ns: None)
        scene.trust.revoke(Fault(0, "revoke", 1, 0, for_ns=5 * SECOND))
        scene.world.run(3 * SECOND)
    scene.trust.forgive()
    scene.trust.judge(scene.work.history)
    sentences = {sentence for rule, sentence in scene.trust.violations if rule == "revoked"}
    assert sentences == {
        "b has a session with a a second after it was revoked",
        "b took messages of a, which is revoked",
    }


def test_a_node_that_lets_anybody_in_is_found_out(
    make: Callable[[Plan], Trusting], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends the session, and answers the next connect."""
    scene = make(plan_of())
    scene.world.run(SECOND)
    peer = scene.hosts[0].peer
    answer = SecureChannels.answer

    def lax(self: SecureChannels, *args: object) -> object:
        monkeypatch.setattr(self._directory, "_by_key", dict.fromkeys(peer.keys, peer))
        return answer(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(SecureChannels, "answer", lax)
    scene.trust.revoke(Fault(0, "revoke", 1, 0, for_ns=5 * SECOND))
    scene.world.run(4 * SECOND)
    scene.trust.forgive()
    scene.trust.judge(scene.work.history)
    assert ("revoked", "b opened a session with a, which is revoked") in scene.trust.violations


def test_what_is_forbidden_is_so_from_the_start(make: Callable[[Plan], Trusting]) -> None:
    """And stays so when the sender changes its key; its other queues are as they were."""
    forbidden = replace(STREAM, queue="closed", count=20, forbidden=True)
    scene = make(plan_of(streams=(STREAM, forbidden)))
    scene.trust.rotate(Fault(0, "rotate", 0, for_ns=100 * MS))
    scene.world.run(30 * SECOND)
    assert scene.handed == 200
    scene.work.read_dead_letters(scene.hosts[0])
    assert scene.work.history.streams[1].refused == set(range(20))
    assert scene.work.history.violations == []
