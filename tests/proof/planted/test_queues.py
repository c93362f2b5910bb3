"""The queue manager's bugs: each changes what is committed, what leaves, or what comes back."""

from collections import Counter

import pytest

from proof.planted.bug import Bug
from proof.planted.catalogue import bug_named
from proof.planted.queues import BUGS
from tests.proof.planted.changes import changes_of
from triack.base.delivery import Delivery
from triack.queues.mailboxes.mailbox import Mailbox, Notices, QueuedPacket
from triack.queues.packing import Outgoing, pack_one


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_each_still_changes_something(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a name that is there, and with what can be called as the right one is."""
    assert len(changes_of(bug, monkeypatch)) == 1


def test_what_is_put_back_from_the_disk_is_not_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if nobody had seen it before."""
    changes_of(bug_named("messages come again after a restart without a word"), monkeypatch)
    packet = QueuedPacket([], b"", 1, 1, 1, Delivery.EXPRESS, 1, 0, [b""], restored=True)
    Mailbox(1, "q", Notices(Counter())).put(packet, pack_one(Outgoing(b"a"), 1, 0))
    assert not packet.restored
