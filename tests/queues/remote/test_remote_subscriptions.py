"""The states of a subscription to another node, and what the store keeps of it."""

import pytest

from tests.queues.hubs import HubWorld
from triack.base.delivery import Delivery
from triack.base.errors import StoreDamaged
from triack.queues.remote.remote_subscriptions import (
    TRANSITIONS,
    RemoteEvent,
    RemoteState,
    RemoteSubscription,
)
from triack.queues.remote.requests import Subscribe


def test_each_state_has_each_event_but_the_last() -> None:
    assert set(TRANSITIONS) == set(RemoteState) - {RemoteState.OVER}
    assert all(set(row) == set(RemoteEvent) for row in TRANSITIONS.values())


def test_the_store_keeps_a_durable_one() -> None:
    ask = Subscribe("audit", 7, "Games.#", True, Delivery.RECOVERABLE, 10)
    found = RemoteSubscription("hub", ask, shared=True, state=RemoteState.LIVE)
    again = RemoteSubscription.decode("audit", found.encode())
    assert (again.peer, again.ask, again.shared, again.state) == ("hub", ask, True, RemoteState.LIVE)
    with pytest.raises(StoreDamaged):
        RemoteSubscription.decode("audit", b"[1]")


def test_a_hub_that_is_away_for_days_gets_one_message_about_what_lives() -> None:
    it = HubWorld("sub")
    away = it.away("sub", durable=None)
    away.begin()
    it.run()
    it.hub.crash()
    it.run(2_000)
    (stream,) = [it for it in away.node.live.outbox.streams if it.queue == "$subscriptions"]
    assert stream.unacknowledged <= 1
    it.hub.revive()
    it.run(130)
    it.publish(b"1")
    it.settle(away)
    assert away.read() == [b"1"]
