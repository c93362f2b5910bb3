"""The table of the queues that a node has for itself."""

import pytest

from triack.queues.mailboxes.system_queues import (
    DEAD_LETTER_QUEUE,
    REPLY_QUEUE,
    STANDING_QUEUES,
    SUBSCRIPTIONS_QUEUE,
    SYSTEM_QUEUES,
    Writer,
    is_reserved,
    is_subscribed,
    subscribed_queue,
    system_queue,
)
from triack.queues.node_settings import DeadLetters, Limits, WhenLettersFull


@pytest.mark.parametrize(
    ("name", "reserved"), [(DEAD_LETTER_QUEUE, True), (REPLY_QUEUE, True), ("$other", True), ("orders", False)]
)
def test_names_that_only_the_node_gives(name: str, reserved: bool) -> None:
    assert is_reserved(name) is reserved
    assert (system_queue(name) is not None) is (name in SYSTEM_QUEUES)


def test_dead_letters_stand_apart_with_a_quota_of_their_own() -> None:
    letters = SYSTEM_QUEUES[DEAD_LETTER_QUEUE]
    assert (letters.writer, letters.is_apart, letters.gives_up) == (Writer.NODE, True, False)
    quota = letters.quota(Limits(dead_letters=DeadLetters(messages=3, size_bytes=4_000)))
    assert (quota.messages, quota.size_bytes) == (3, 4_000)
    assert STANDING_QUEUES == (DEAD_LETTER_QUEUE,)


def test_peers_may_write_replies_and_what_is_about_subscriptions() -> None:
    written = [queue.name for queue in SYSTEM_QUEUES.values() if queue.writer is Writer.PEERS]
    assert written == [REPLY_QUEUE, SUBSCRIPTIONS_QUEUE]
    of_one = system_queue(subscribed_queue("audit"))
    assert of_one is not None
    assert (of_one.name, of_one.writer, of_one.gives_up) == ("$sub.audit", Writer.PEERS, True)
    assert is_subscribed("$sub.audit")
    assert not is_subscribed("sub.audit")


@pytest.mark.parametrize(
    ("when_full", "said"),
    [
        ("keep", ": new letters are lost until somebody reads them"),
        ("drop oldest", ": the oldest letters are lost until somebody reads them"),
    ],
)
def test_the_operator_hears_which_letters_are_lost(when_full: WhenLettersFull, said: str) -> None:
    """Of no other queue messages are lost when it is full: their senders wait."""
    limits = Limits(dead_letters=DeadLetters(when_full=when_full))
    assert [queue.overflow(limits) for queue in SYSTEM_QUEUES.values()] == [said, "", ""]
