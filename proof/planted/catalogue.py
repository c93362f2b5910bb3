"""All planted bugs, room by room.

A proof that finds nothing proves nothing; one that finds all of these has at least looked there. A new kind of mistake
belongs into the list as soon as it was made once.
"""

from proof.planted import (
    answers,
    bodies,
    bridged,
    journals,
    ordering,
    queues,
    relays,
    remote,
    session,
    store,
    storms,
    topics,
    transport,
)
from proof.planted.bug import Bug

BUGS: tuple[Bug, ...] = (
    *session.BUGS, *ordering.BUGS, *queues.BUGS, *answers.BUGS, *journals.BUGS, *bodies.BUGS, *relays.BUGS,
    *bridged.BUGS,
    *topics.BUGS, *remote.BUGS, *storms.BUGS,
    *transport.BUGS, *store.BUGS,
)  # fmt: skip


def bug_named(name: str) -> Bug:
    """The bug of that name. Raises KeyError."""
    return {bug.name: bug for bug in BUGS}[name]
