"""One node of a search: what can happen to it, and what then does."""

from dataclasses import replace

import pytest

from proof.planted.worlds import PLAIN, READING, RECEIVER_DIES
from proof.search.host import NOW_NS, Host, Ids
from proof.search.scope import Part
from tests.proof.search.hosts import DELIVER, opened, started
from triack.queues.streams.group_commit import GroupCommit
from triack.session.protocol.states import SessionState


def names(host: Host) -> set[str]:
    return {name for name, _ in host.choices()}


def running(host: Host) -> set[str]:
    """The timers that may run out."""
    return {key[2] for name, key in host.choices() if name == "timer" and isinstance(key, tuple)}


def test_a_search_begins_with_what_is_on_the_disk() -> None:
    """Each message in a packet of its own, no job in hand, and one connect on its way."""
    first, second, sent = started(PLAIN)
    assert (first.job, second.job) == (None, None)
    assert first.witness.queued == [b"a1", b"a2"]
    assert len(first.disk.outgoing) == 2
    assert [datagram.kind.name for datagram in sent] == ["CONNECT"]


def test_what_can_happen_is_bounded_by_the_scope() -> None:
    """A message less each time, a crash less each time."""
    scope = replace(PLAIN, parts=(Part(sends=2, crashes=1, stops=1, breaks=1, sessions=3), Part()))
    host = started(scope)[0]
    assert names(host) == {"submit", "drain", "crash"}
    host.act(("submit", None))
    assert names(host) == {"submit", "disk", "drain", "crash"}
    host.act(("disk", None))
    assert "break" in names(host)
    host.act(("break", None))
    assert "break" not in names(host)
    host.act(("submit", None))
    assert "submit" not in names(host)
    host.act(("crash", False))
    assert "crash" not in names(host)
    host.act(("drain", None))
    assert "stop" in names(host)
    assert "drain" not in names(host)
    host.act(("stop", None))
    assert not {"stop", "drain"} & names(host)


def test_a_commit_in_hand_is_lost_in_a_crash_or_not() -> None:
    """Both are tried; without one there is nothing to choose."""
    scope = replace(PLAIN, parts=(Part(sends=1, crashes=1, sessions=2), Part()))
    for applied in (False, True):
        host = started(scope)[0]
        assert [what for name, what in host.choices() if name == "crash"] == [False]
        host.act(("submit", None))
        assert isinstance(host.job, GroupCommit)
        assert [what for name, what in host.choices() if name == "crash"] == [False, True]
        host.act(("crash", applied))
        assert host.job is None
        assert host.witness.queued == [b"a1"] * applied


def test_timers_that_stand_still_do_not_run_out() -> None:
    """And those that only repeat themselves do so a few times."""
    first, _, _ = opened(PLAIN)
    assert {key[2] for name, key in first.choices() if name == "timer" and isinstance(key, tuple)} <= {
        "LOSS",
        "PACING",
        "ACK_DELAY",
    }
    patient = opened(replace(PLAIN, parts=(Part(ready=2, patience=1), Part())))[0]
    probes = [key for name, key in patient.choices() if name == "timer" and "PROBE" in str(key)]
    assert len(probes) == 1
    assert patient.act(("timer", probes[0]))
    assert not [key for name, key in patient.choices() if name == "timer" and "PROBE" in str(key)]


def test_only_who_reads_reads() -> None:
    """When there is something, and not while it is on its way from the disk."""
    for scope, reads in ((READING, True), (RECEIVER_DIES, False)):
        _, second, (packet,) = opened(scope)
        second.act(DELIVER, packet)
        assert not second.can_read
        second.act(("disk", None))
        assert second.can_read is reads
        if reads:
            second.act(("read", None))
            assert second.witness.read == [b"a1"]
            assert not second.can_read


def test_a_node_is_beyond_when_it_numbers_too_much() -> None:
    """Sessions or packets."""
    host = opened(PLAIN)[0]
    assert not host.is_beyond
    host.scope = replace(host.scope, packets=1)
    assert host.is_beyond
    host.scope = replace(host.scope, packets=8, parts=(Part(sessions=0), Part()))
    assert host.is_beyond


def test_the_clock_stands_still() -> None:
    """Whatever runs out."""
    first, second, packets = opened(PLAIN)
    second.act(DELIVER, packets[0])
    for host in (first, second):
        for name, key in host.choices():
            if name == "timer":
                host.act((name, key))
        assert host.now_ns == NOW_NS


def test_ids_are_in_order_and_never_the_same() -> None:
    """Not on the other side, nor after a crash."""
    one, other = Ids(0), Ids(1)
    drawn = [ids.getrandbits(bits) for ids in (one, other) for bits in (64, 63, 64, 63)]
    assert len(set(drawn)) == 8
    host = started(RECEIVER_DIES)[1]
    before = host.ids.connections
    host.act(("crash", False))
    assert host.ids.connections >= before
    assert one.randrange(5) == 0


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_message_arrives_in_either_order(order: tuple[int, int]) -> None:
    """The second packet waits for the first."""
    first, second, packets = opened(PLAIN)
    for index in order:
        second.act(DELIVER, packets[index])
        while second.job is not None:
            second.act(("disk", None))
    assert second.witness.kept == first.witness.queued == [b"a1", b"a2"]
    assert {talk.state for talk in second.witness.talks.values()} == {SessionState.OPEN}
