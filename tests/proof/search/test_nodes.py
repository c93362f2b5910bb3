"""The states of one node: met once, and each step from them taken once."""

from dataclasses import replace

import pytest

from proof.planted.catalogue import bug_named
from proof.planted.worlds import PLAIN, RECEIVER_DIES
from proof.search.datagrams import Datagrams
from proof.search.identity import thaw
from proof.search.nodes import Nodes
from proof.search.witness import Violation
from tests.proof.search.hosts import opened, started
from triack.queues.manager.engine import Engine


def test_a_state_has_one_number() -> None:
    """However often, and on whatever way, it is met."""
    nodes = Nodes(PLAIN, 0, Datagrams())
    assert [nodes.number(started(PLAIN)[0]) for _ in range(3)] == [0, 0, 0]
    assert nodes.number(opened(PLAIN)[0]) == 1
    assert nodes.number(started(PLAIN)[0]) == 0
    assert len(nodes.known) == 2


@pytest.mark.plain
def test_a_state_remembers_what_the_search_asks() -> None:
    """Where it can be reached, what is queued and kept, and what can happen."""
    nodes = Nodes(PLAIN, 0, Datagrams())
    start = nodes.known[nodes.number(started(PLAIN)[0])]
    open_ = nodes.known[nodes.number(opened(PLAIN)[0])]
    assert (start.queued, start.kept, start.forgotten) == ((b"a1", b"a2"), (), ())
    assert start.connections == open_.connections != ()
    assert (start.opened, open_.opened) == ((), open_.connections)
    assert open_.choices == thaw(open_.frozen).choices()


@pytest.mark.plain
def test_a_step_is_taken_once() -> None:
    """By the engine; then it is remembered, with what was sent."""
    _, second, packets = opened(PLAIN)
    datagrams = Datagrams()
    nodes = Nodes(PLAIN, 1, datagrams)
    number, packet = nodes.number(second), datagrams.number(packets[0])
    step = nodes.hear(number, packet)
    assert step is not None
    assert step.node != number
    assert [str(datagrams.known[bit]) for bit in range(8) if step.sent >> bit & 1] == [
        "DATA of session a01 [session ack to 1]"
    ]
    assert nodes.steps == 1
    assert nodes.hear(number, packet) is step
    own = nodes.own_steps(number)
    steps = nodes.steps
    assert nodes.own_steps(number) is own
    assert nodes.steps == steps


@pytest.mark.plain
def test_what_changes_nothing_is_no_step() -> None:
    """A copy of an acknowledgement; and it can never do anything again."""
    first, second, packets = opened(PLAIN)
    datagrams = Datagrams()
    nodes = Nodes(PLAIN, 0, datagrams)
    (ack,) = second.act(("deliver", None), packets[0])
    before, heard = nodes.number(first), datagrams.number(ack)
    assert nodes.live(before, 1 << heard) == 1 << heard
    step = nodes.hear(before, heard)
    assert step is not None
    assert nodes.hear(step.node, heard) is None
    assert nodes.live(step.node, 1 << heard) == 0
    keeping = Nodes(replace(PLAIN, keeps=True), 0, datagrams)
    number = keeping.number(thaw(nodes.known[step.node].frozen))
    assert keeping.live(number, 1 << heard) == 1 << heard


def test_what_nobody_can_take_is_not_live() -> None:
    """A packet for a connection that has died; a connect always is."""
    _, second, packets = opened(RECEIVER_DIES)
    datagrams = Datagrams()
    nodes = Nodes(RECEIVER_DIES, 1, datagrams)
    connect = started(RECEIVER_DIES)[2][0]
    packet, call = 1 << datagrams.number(packets[0]), 1 << datagrams.number(connect)
    assert nodes.live(nodes.number(second), packet | call) == packet | call
    second.act(("crash", False))
    assert nodes.live(nodes.number(second), packet | call) == call


@pytest.mark.plain
def test_what_leaves_the_scope_is_no_step() -> None:
    """The search does not go there: neither for what comes by itself nor for what arrives."""
    _, second, packets = opened(PLAIN)
    datagrams = Datagrams()
    for packets_max, goes in ((8, True), (-1, False)):
        second.scope = replace(PLAIN, packets=packets_max)
        nodes = Nodes(second.scope, 1, datagrams)
        assert (nodes.hear(nodes.number(second), datagrams.number(packets[0])) is not None) is goes


@pytest.mark.plain
def test_a_broken_promise_and_a_broken_engine_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The step says which; the node stays where it was."""
    _, second, packets = opened(PLAIN)
    datagrams = Datagrams()
    nodes = Nodes(PLAIN, 1, datagrams)
    number, packet = nodes.number(second), datagrams.number(packets[0])
    with monkeypatch.context() as patch:
        bug_named("the order ack speaks of what is not yet committed").plant(patch)
        step = nodes.hear(number, packet)
        assert step is not None
        idle = [step for _, step in nodes.own_steps(step.node) if step.broken]
        assert [step.broken for step in idle] == ["order ack to 1 left, and number 1 is not on disk"]

    def fail(*_: object) -> None:
        raise Violation("planted")

    monkeypatch.setattr(Engine, "handle_datagram", fail)
    broken = nodes.hear(number, datagrams.number(packets[1]))
    assert broken is not None
    assert (broken.node, broken.sent, broken.broken) == (number, 0, "planted")
