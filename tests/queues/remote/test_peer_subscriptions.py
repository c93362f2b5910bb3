"""What a hostile peer may try with subscriptions, and what an operator sees of it."""

import json

import pytest

from tests.queues.hubs import HubWorld
from triack.base.reasons import DropReason
from triack.queues.remote.remote_subscriptions import RemoteState


@pytest.mark.parametrize("body", [b"{", b"\xff" * 50, json.dumps({"do": "subscribe"}).encode(), b"[" * 10_000])
def test_a_request_that_cannot_be_read_is_counted_and_taken(body: bytes) -> None:
    it = HubWorld("sub")
    it.nodes["sub"].send(it.hub, "$subscriptions", body)
    it.run()
    assert it.hub.live.drops[DropReason.BAD_REQUEST] == 1
    assert it.hub.length("$subscriptions") == 0


def test_a_huge_pattern_is_no_request() -> None:
    it = HubWorld("sub")
    away = it.away("sub", "Games." + ".".join("x" * 1_000))
    away.begin()
    it.run()
    assert it.hub.live.topics.subscriptions == {}
    assert it.hub.live.drops[DropReason.BAD_REQUEST] >= 1


@pytest.mark.parametrize("pattern", ["", "#", "*.x", "Games..x", "Games.#.x", "Games.\x00"])
def test_a_pattern_that_is_none_is_refused(pattern: str) -> None:
    it = HubWorld("sub")
    away = it.away("sub", pattern)
    away.begin()
    it.run()
    assert away.state is RemoteState.OVER
    assert it.hub.live.topics.subscriptions == {}
    assert it.hub.live.drops[DropReason.SUBSCRIPTION_REFUSED] == 1


def test_a_node_that_may_not_subscribe_cannot_even_ask() -> None:
    """Its own subscriptions end; no queue is made for its requests."""
    it = HubWorld("sub")
    it.allow("sub")
    away = it.away("sub", durable=None)
    away.begin()
    it.run()
    assert away.state is RemoteState.OVER
    assert "$subscriptions" not in it.hub.live.queues.mailboxes


def test_an_answer_that_nobody_asked_for_changes_nothing() -> None:
    """Also one with the name of a subscription at another node."""
    it = HubWorld("sub", "evil")
    away = it.away("sub")
    found = away.begin()
    it.run()
    told = {"do": "ended", "name": "audit", "number": found.ask.number, "reason": "", "why": ""}
    it.nodes["evil"].send(it.nodes["sub"], "$subscriptions", json.dumps(told).encode())
    it.run()
    assert away.state is RemoteState.LIVE


def test_a_hub_that_was_put_back_from_a_copy_is_found_and_sends_nothing() -> None:
    """As with any node whose store is older than what others know of it."""
    it = HubWorld("sub")
    away = it.away("sub")
    away.begin()
    it.run()
    copy = it.hub.copy_store()
    it.publish(b"1", b"2")
    it.settle(away)
    it.hub.crash()
    it.hub.restore(copy)
    it.hub.revive()
    it.publish(b"3")
    it.settle(away)
    assert away.read() == [b"1", b"2"]
    assert it.hub.rollbacks or away.node.rollbacks
