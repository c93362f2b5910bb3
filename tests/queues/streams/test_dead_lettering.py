"""Messages that are sent no more, until their letters are made: on record at once, in order, and each at most once."""

import pytest

from tests.queues.bare import Bare, events, letters, submitted
from triack.queues.node_settings import NodeSettings
from triack.queues.packing import Outgoing
from triack.queues.streams.group_commit import GroupCommit


@pytest.mark.parametrize("refused", [False, True])
def test_a_refusal_that_comes_before_the_letter_is_part_of_it(refused: bool) -> None:
    """A message that expired after it was sent may have arrived, unless its destination says that it never will."""
    node = Bare()
    outgoing = node.submit("memory://nobody", b"x")
    node.poll()
    node.finish_job()
    (entry,) = outgoing.sequence.entries.values()
    entry.sends = 1
    outbox = node.engine.outbox
    outbox.dead_lettering.purge(outgoing)
    if refused:
        refusal = outgoing.stream_number, outgoing.sequence.sequence, entry.number, "queue-not-found"
        outbox.handle_reject(*refusal, node.engine.jobs.turn(node.now_ns))
        outbox.handle_reject(*refusal, node.engine.jobs.turn(node.now_ns))
    node.poll()
    (letter,) = letters(node)
    assert (letter["dead_reason"], letter["dead_maybe_delivered"]) == ("purged", not refused)


def test_what_is_given_up_is_on_record_at_once() -> None:
    """A session may pass it over before its letter can be made: the disk is busy here, and the message freed first."""
    node = Bare()
    outgoing = submitted(node, Outgoing(b"x"))
    node.submit("memory://nobody", b"y")
    node.poll()
    assert node.job is not None
    node.engine.outbox.dead_lettering.purge(outgoing)
    assert "removed" in events(node.poll())
    (entry,) = [entry for entry in outgoing.sequence.entries.values() if entry.number == 1]
    node.engine.outbox.handle_order_ack(outgoing.stream_number, 1, entry.number, node.engine.jobs.turn(node.now_ns))
    node.finish_job()
    assert "removed" not in events(node.poll())
    assert node.job is None


def test_letters_are_made_in_order_and_wait_for_bodies() -> None:
    """The first was let go from memory: what follows it waits until that body has come from the disk."""
    node = Bare(settings=NodeSettings(body_cache_bytes=1, messages_per_packet=1))
    outgoing = submitted(node, Outgoing(b"1"), Outgoing(b"2", {"label": "l"}))
    dead_lettering = node.engine.outbox.dead_lettering
    first, second = outgoing.sequence.entries.values()
    assert first.body is None
    second.body = b"here"
    dead_lettering.give_up(outgoing, first, "purged")
    dead_lettering.give_up(outgoing, second, "purged")
    dead_lettering.give_up(outgoing, first, "expired")
    assert [item.entries for item in dead_lettering.waiting] == [[first], [second]]
    assert [entry for _, entry in dead_lettering.missing(9)] == [first]
    turn = GroupCommit()
    dead_lettering.dead_letter(turn)
    assert (len(dead_lettering.waiting), turn.departures.dead_lettered) == (2, [])


def test_a_word_about_a_packet_that_has_not_left_is_not_believed() -> None:
    """A relay may invent it, or it is about a copy of an earlier process."""
    node = Bare()
    outgoing = node.submit("memory://nobody", b"x")
    node.poll()
    node.finish_job()
    (entry,) = outgoing.sequence.entries.values()
    refusal = outgoing.stream_number, outgoing.sequence.sequence, entry.number, "relay-denied"
    node.engine.outbox.handle_reject(*refusal, node.engine.jobs.turn(node.now_ns), certain=False)
    assert "removed" not in events(node.poll())
    assert list(outgoing.sequence.entries) == [entry.number]
