"""Which commits are done as soon as the disk has synced a few pages: they need no separate thread."""

from triack.base.commit import Commit

BRIEF_ROWS = 16
"""A commit of this many rows needs less processor time than the system call that syncs it."""
BRIEF_BYTES = 16 * 1024
"""The contents of those rows: a page or two of the log."""


def is_brief(commit: Commit) -> bool:
    """Whether a commit writes few rows and deletes few.

    Each kind of rows is asked for itself: a commit of one message has few kinds.
    """
    rows = size_bytes = deleted = 0
    for packets in (commit.outgoing, commit.transit):
        if packets:
            rows += len(packets)
            if rows > BRIEF_ROWS:
                return False
            size_bytes += sum([len(row.body) for row in packets])
    for row in commit.messages:
        rows += len(row.bodies)
        if rows > BRIEF_ROWS:
            return False
        size_bytes += sum(map(len, row.bodies))
    for others in (commit.progress, commit.positions, commit.state, commit.transit_streams, commit.subscriptions):
        if others:
            rows += len(others)
    if commit.state:
        size_bytes += sum([len(value or b"") for value in commit.state.values()])
    for spans in (commit.outgoing_deletes, commit.message_deletes, commit.transit_deletes):
        for first, last in spans[: BRIEF_ROWS + 1]:
            deleted += last - first + 1
    for keys in (commit.stream_deletes, commit.position_deletes, commit.subscription_deletes):
        if keys:
            deleted += len(keys)
    return rows <= BRIEF_ROWS and size_bytes <= BRIEF_BYTES and deleted <= BRIEF_ROWS
