"""Messages that a commit brings into a queue of this node are seen when it has returned."""

from tests.queues.bare import Bare
from triack.queues.streams.group_commit import GroupCommit


def test_a_message_is_in_its_queue_when_its_commit_has_returned() -> None:
    node = Bare()
    node.submit("", b"x")
    node.poll()
    assert isinstance(node.job, GroupCommit)
    ((mailbox, (packet,), head),) = node.job.local.queued
    assert head is not None
    assert (mailbox.length, packet.size_bytes) == (0, len(packet.pieces[0]))
    node.finish_job()
    assert mailbox.length == 1
