"""Which commits are done as soon as the disk has synced a few pages: they need no separate thread."""

from collections.abc import Sized

from triack.base.commit import Commit

BRIEF_ROWS = 16
"""A commit of this many rows needs less processor time than the system call that syncs it."""
BRIEF_BYTES = 16 * 1024
"""The contents of those rows: a page or two of the log."""


def is_brief(commit: Commit) -> bool:
    """Whether a commit writes few rows and deletes few."""
    messages = [body for row in commit.messages for body in row.bodies]
    added: tuple[Sized, ...] = (commit.outgoing, messages, commit.progress, commit.positions, commit.state)
    added += commit.stream_deletes, commit.position_deletes, commit.transit, commit.transit_streams
    added += commit.subscriptions, commit.subscription_deletes
    spans = commit.outgoing_deletes, commit.message_deletes, commit.transit_deletes
    if max(map(len, spans)) > BRIEF_ROWS or sum(map(len, added)) > BRIEF_ROWS:
        return False
    if sum([last - first + 1 for some in spans for first, last in some]) > BRIEF_ROWS:
        return False
    size_bytes = sum([len(row.body) for row in commit.outgoing]) + sum(map(len, messages))
    size_bytes += sum([len(row.body) for row in commit.transit])
    return size_bytes + sum([len(value or b"") for value in commit.state.values()]) <= BRIEF_BYTES
