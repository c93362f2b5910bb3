"""The states of a subscription to another node, and what the store keeps of it."""

import pytest

from tests.queues.hubs import HubWorld
from triack.base.delivery import Delivery
from triack.base.errors import StoreDamaged
from triack.base.news import SubscriptionLost
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


@pytest.mark.slow
@pytest.mark.gate
def test_a_hub_that_is_away_for_days_gets_one_message_about_what_lives() -> None:
    it = HubWorld("sub")
    away = it.away("sub", durable=None)
    away.begin()
    it.run()
    it.hub.crash()
    it.run(2_000)
    (stream,) = [it for it in away.node.live.outbox.streams if it.queue == "$subscriptions"]
    assert stream.unacknowledged <= 1
    it.hub.start()
    it.run(130)
    it.publish(b"1")
    it.settle(away)
    assert away.read() == [b"1"]


@pytest.mark.parametrize(("cut_s", "lost"), [(20, False), (200, True)])
def test_a_cut_that_lasts_longer_than_a_subscription_is_told(cut_s: int, lost: bool) -> None:
    """One that is not durable begins anew after it, and its reader can know that messages are missed."""
    it = HubWorld("sub")
    away = it.away("sub", durable=None)
    found = away.begin()
    it.run()
    it.publish(b"1")
    it.settle(away)
    it.world.cut(it.hub, it.nodes["sub"])
    it.publish(b"2")
    it.run(cut_s)
    it.world.heal()
    it.run(60)
    it.publish(b"3")
    it.settle(away)
    assert away.read() == ([b"1", b"3"] if lost else [b"1", b"2", b"3"])
    assert [event for event in it.nodes["sub"].news if isinstance(event, SubscriptionLost)] == (
        [SubscriptionLost("hub/topic:Games.#", found.name)] if lost else []
    )
