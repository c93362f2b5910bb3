"""The ordering's bugs: each changes a sequence, a filter, a tier, or what frees a packet."""

import pytest

from proof.planted.bug import Bug
from proof.planted.catalogue import bug_named
from proof.planted.ordering import BUGS
from tests.proof.planted.changes import changes_of
from triack.base.delivery import FREED_BY, Ack, Delivery, Role
from triack.ordering.order_settings import OrderSettings
from triack.ordering.tiers import ResendTimer


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_each_still_changes_something(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a name that is there, and with what can be called as the right one is."""
    assert len(changes_of(bug, monkeypatch)) == 1


def test_a_skipped_tier_counts_three_attempts_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """But only when something goes out again."""
    changes_of(bug_named("a resend tier is skipped"), monkeypatch)
    timer = ResendTimer(OrderSettings())
    timer.handle_expired(0, resends=False)
    assert timer.attempt == 0
    timer.handle_expired(0, resends=True)
    assert timer.attempt == 3


def test_what_frees_a_packet_is_one_entry_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others stay."""
    right = dict(FREED_BY)
    changes_of(bug_named("recoverable messages are freed by the session ack"), monkeypatch)
    assert right | {(Delivery.RECOVERABLE, Role.ORIGIN): Ack.SESSION} == FREED_BY
