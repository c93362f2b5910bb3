"""The future of a state when the faults stop: all is well in the end, or the result says what is not."""

from dataclasses import replace

import pytest

from proof.planted.worlds import PLAIN, RECEIVER_DIES
from proof.search.fair import run_fair
from proof.search.host import Host
from proof.search.identity import freeze
from proof.search.scope import Part
from tests.proof.search.hosts import DELIVER, opened, started
from triack.ordering.outgoing import OutgoingSequence
from triack.queues.manager.engine import Engine


def fair(*hosts: Host) -> str | None:
    for host in hosts:
        host.settle()
    return run_fair([freeze(host) for host in hosts])


@pytest.mark.plain
def test_a_beginning_ends_well() -> None:
    """Whatever was sent before is lost; it comes again."""
    first, second, _ = started(PLAIN)
    assert fair(first, second) is None


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.plain
def test_a_crash_in_the_middle_ends_well(applied: bool) -> None:
    """With a commit in hand, on the disk or not."""
    first, second, (packet,) = opened(RECEIVER_DIES)
    second.act(DELIVER, packet)
    assert second.job is not None
    second.act(("crash", applied))
    assert fair(first, second) is None


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.plain
def test_a_node_that_closes_comes_back(side: int) -> None:
    """Closing ends in time, and the next life finishes the work."""
    scope = replace(PLAIN, parts=(Part(ready=1, sessions=2, stops=1), Part(sessions=2, stops=1)))
    hosts = opened(scope)[:2]
    hosts[side].act(("drain", None))
    assert fair(*hosts) is None


@pytest.mark.plain
def test_the_states_themselves_are_not_touched() -> None:
    """They are looked at again by the search."""
    first, second, _ = started(PLAIN)
    first.settle()
    second.settle()
    frozen = [freeze(first), freeze(second)]
    assert run_fair(frozen) is None
    assert [freeze(first), freeze(second)] == frozen


@pytest.mark.plain
def test_what_is_never_said_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sender that forgets to resend waits without end."""
    first, second, _ = opened(RECEIVER_DIES)
    second.act(("crash", False))
    assert fair(first, second) is None
    monkeypatch.setattr(OutgoingSequence, "handle_session_closed", lambda self, **_: None)
    assert fair(first, second) == "a still waits for acknowledgements"


@pytest.mark.slow
def test_an_application_that_reads_has_read_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the result says which application missed what."""
    scope = replace(PLAIN, parts=(Part(ready=1), Part(reads=True)))
    first, second, _ = started(scope)
    assert fair(first, second) is None
    monkeypatch.setattr(Host, "_do_read", lambda self, _: None)
    assert fair(*started(scope)[:2]) == "the application of b has read [] of [b'a1']"


@pytest.mark.plain
def test_an_engine_that_raises_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the name of what it raised."""
    first, second, _ = started(PLAIN)

    def fail(*_: object) -> None:
        raise ValueError("planted")

    monkeypatch.setattr(Engine, "handle_datagram", fail)
    assert fair(first, second) == "ValueError: planted"


@pytest.mark.plain
def test_both_sides_end_with_what_was_queued() -> None:
    """A commit that is in hand when the faults stop is finished first."""
    first, second, packets = opened(PLAIN)
    second.act(DELIVER, packets[0])
    assert second.job is not None
    assert fair(first, second) is None
