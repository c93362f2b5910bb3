"""What the first bytes of a body say, of each kind; the bodies are those of ``queues.packing``."""

import pytest

from triack.base.commit import HEAD_BYTES
from triack.queues import body_head
from triack.queues.packing import JOURNAL, LargeMessage, Outgoing, pack, split_to_seal


def heads(*messages: Outgoing, limit_bytes: int = 1_000, priority: int = 0) -> list[tuple[bytes, int]]:
    """The first bytes of the bodies of these messages, and the size of each body."""
    packed, _ = pack(list(messages), limit_bytes, 7, 50, None, priority)
    return [(packet.body[:HEAD_BYTES], len(packet.body)) for packet in packed]


def test_the_head_of_a_batch_says_how_many_messages_it_has_and_from_when() -> None:
    ((head, size_bytes),) = heads(Outgoing(b"1", receive_by_ms=90), Outgoing(b"2", receive_by_ms=90), priority=5)
    assert (body_head.count_of(head), body_head.ordinal_of(head), body_head.sent_at_of(head)) == (2, 7, 50)
    assert (body_head.priority_of(head), body_head.receive_by_of(head)) == (5, 90)
    assert body_head.fragment_range(head, size_bytes) is None
    assert (body_head.large_of(head), body_head.cares_of(head)) == (0, False)


def test_the_head_of_a_fragment_says_its_place() -> None:
    pieces = heads(Outgoing(bytes(2_500)))
    at = 0
    for piece in pieces:
        found = body_head.fragment_range(*piece)
        assert found is not None
        assert found[:2] == (7, at)
        at += found[2]
    assert [body_head.count_of(head) for head, _ in pieces] == [1] * len(pieces)


def test_a_head_says_whether_something_follows_from_what_happens_to_its_messages() -> None:
    ((head, _),) = heads(Outgoing(b"1", {JOURNAL: True}))
    assert body_head.cares_of(head)


def test_a_message_that_stands_for_a_large_one_has_its_ordinal() -> None:
    ((head, _),) = heads(LargeMessage(b"12345678", ordinal=40))
    assert body_head.large_of(head) == 40


@pytest.mark.parametrize("message", [Outgoing(b"1"), LargeMessage(b"12345678", ordinal=40)], ids=["plain", "large"])
def test_a_sealed_body_is_not_taken_for_an_opened_one_or_for_a_large_message(message: Outgoing) -> None:
    (packet,), _ = pack([message], 1_000, 7, 50)
    sealed, _ = split_to_seal(packet.body)
    opened = body_head.mark_opened(packet.body)
    assert [body_head.is_sealed(it) for it in (packet.body, sealed, opened)] == [False, True, False]
    assert [body_head.was_sealed(it) for it in (packet.body, sealed, opened)] == [False, False, True]
    assert (body_head.large_of(sealed), body_head.large_of(opened)) == (0, body_head.large_of(packet.body))
    assert body_head.count_of(opened) == body_head.count_of(packet.body) == 1


def test_times_move_and_a_copy_for_a_journal_has_no_consequences() -> None:
    ((head, _),) = heads(Outgoing(b"1", {JOURNAL: True}, receive_by_ms=90))
    moved = body_head.move_times(head, 5)
    assert (body_head.sent_at_of(moved), body_head.receive_by_of(moved)) == (55, 95)
    kept = body_head.kept_until(head, 1_000)
    assert (body_head.cares_of(kept), body_head.receive_by_of(kept)) == (False, 1_000)
