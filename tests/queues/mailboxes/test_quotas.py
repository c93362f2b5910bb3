"""Levels and accounts: who may have more, and until when not."""

import pytest

from triack.base.errors import UsageError
from triack.queues.mailboxes.quotas import Account, Fill, Level
from triack.queues.node_settings import Quota


def test_what_is_full_stays_so_until_a_quarter_is_free() -> None:
    """Nobody stops and goes with every message."""
    level = Level(100)
    level.add(99)
    assert not level.is_full
    level.add(1)
    assert level.is_full
    level.add(-24)
    assert level.is_full
    level.add(-1)
    assert not level.is_full


def test_a_level_of_one_is_full_or_empty() -> None:
    """The smallest there is."""
    level = Level(1)
    level.add(1)
    assert level.is_full
    level.add(-1)
    assert not level.is_full


def test_a_peer_has_a_limit_of_its_own() -> None:
    """Whatever the others have."""
    account = Account(100, 1_000)
    account.add(b"a", 100)
    account.add(b"b", 99)
    assert (account.is_full(b"a"), account.is_full(b"b"), account.is_full(b"c")) == (True, False, False)
    account.add(b"a", -100)
    assert (account.is_full(b"a"), account.of(b"a"), account.total_bytes) == (False, 0, 99)


def test_who_has_little_is_not_stopped_by_who_has_much() -> None:
    """When half of all is used, nobody may have more than an equal share of it; all together never more than all."""
    account = Account(400, 1_000)
    for peer in (b"a", b"b"):
        account.add(peer, 250)
    account.add(b"c", 10)
    assert (account.is_full(b"a"), account.is_full(b"c")) == (True, False)
    for number in range(1_000):
        peer = b"%d" % (number % 40)
        if not account.is_full(peer):
            account.add(peer, 1)
    assert account.total_bytes <= 1_000


def test_the_node_itself_may_have_half() -> None:
    """It is no peer."""
    account = Account(10, 1_000)
    account.own = b"me"
    account.add(b"me", 499)
    assert not account.is_full(b"me")
    account.add(b"me", 1)
    assert account.is_full(b"me")


def test_twice_the_limit_is_over() -> None:
    """For the packets that were on their way when their sender got its stop."""
    account = Account(100, 1_000)
    account.add(b"a", 199)
    assert not account.is_over(b"a")
    assert not account.stays_within(b"a", 1)
    account.add(b"a", 1)
    assert account.is_over(b"a")


def test_what_stays_within_twice_the_limit_is_known_before() -> None:
    """Of a peer that has something, of one that has nothing, and of all."""
    account = Account(100, 1_000)
    assert account.stays_within(b"a", 199)
    assert not account.stays_within(b"a", 200)
    account.add(b"a", 150)
    assert account.stays_within(b"a", 49)
    assert not account.stays_within(b"a", 50)
    account.add(b"b", 800)
    assert not account.stays_within(b"c", 50)


@pytest.mark.parametrize("wrong", [{"messages": 0}, {"size_bytes": -1}, {"when_full": "drop"}])
def test_a_quota_that_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    """Where it is given, by name."""
    with pytest.raises(UsageError, match=next(iter(wrong))):
        Quota(**wrong)  # type: ignore[arg-type]


def test_what_comes_counts_as_if_it_were_there() -> None:
    """For the peer that asks; the levels stay as they are."""
    fill = Fill(Quota(messages=10))
    fill.messages.add(6)
    assert not fill.is_full_with(3)
    assert fill.is_full_with(4)
    assert not fill.is_full
    fill.messages.add(4)
    fill.messages.add(-1)
    assert fill.is_full_with(0)


def test_what_is_taken_at_once_never_fills_a_level() -> None:
    """Of several peers each may have no more than if it came bit by bit."""
    level = Level(10)
    assert (level.takes(9), level.takes(10)) == (True, False)
    level.add(10)
    level.add(-1)
    assert not level.takes(0)
    account = Account(peer_bytes=10, all_bytes=30)
    assert (account.takes(b"a", 9), account.takes(b"a", 10)) == (True, False)
    for peer in (b"a", b"b"):
        account.add(peer, 7)
    assert (account.takes(b"a", 0), account.takes(b"a", 1), account.takes(b"c", 1)) == (True, False, False)


def test_a_queue_takes_what_both_its_quotas_take() -> None:
    fill = Fill(Quota(messages=3, size_bytes=100))
    assert (fill.takes(2, 99), fill.takes(3, 99), fill.takes(2, 100)) == (True, False, False)


def test_who_proves_to_be_a_node_pays_for_it() -> None:
    """For all nodes that it claims to be, from then on and for what was there; the charged peer gets it back."""
    owners: dict[bytes, str] = {}
    account = Account(100, 1_000, lambda node_id: owners.get(node_id, "") or node_id)
    account.add(b"a", 60)
    owners |= {b"a": "evil", b"b": "evil"}
    account.add(b"a", -10)
    assert (account.of(b"a"), account.of(b"b")) == (50, 0)
    account.handle_proved(b"a")
    account.handle_proved(b"b")
    account.add(b"b", 50)
    assert (account.of(b"a"), account.of(b"b"), account.of(b"c")) == (100, 100, 0)
    assert (account.is_full(b"a"), account.has_enough(b"b"), account.is_full(b"c")) == (True, True, False)
    account.add(b"a", -1)
    assert (account.is_full(b"b"), account.has_enough(b"b")) == (True, False)
    owners.clear()
    account.add(b"a", -49)
    account.add(b"b", -50)
    assert (account.of(b"a"), account.of(b"b"), account.total_bytes) == (0, 0, 0)


def test_another_limit_counts_as_if_it_had_always_been_there() -> None:
    """Lower than what is there, it is full; higher, there is room at once."""
    fill = Fill(Quota(messages=10, size_bytes=100))
    fill.messages.add(5)
    fill.set_quota(Quota(messages=5, size_bytes=100))
    assert fill.is_full
    fill.set_quota(Quota(messages=6, size_bytes=100))
    assert not fill.is_full


def test_other_limits_of_an_account_hold_for_those_that_have_something() -> None:
    """And for those that come later."""
    account = Account(100, 1_000)
    account.add(b"a", 50)
    account.set_limits(50, 1_000)
    assert (account.is_full(b"a"), account.takes(b"b", 60)) == (True, False)
    account.set_limits(200, 1_000)
    assert (account.is_full(b"a"), account.takes(b"b", 60)) == (False, True)
