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

ROOMS = (
    session, ordering, queues, answers, journals, bodies, relays, bridged, topics, remote, storms, transport, store,
)  # fmt: skip
BUGS: tuple[Bug, ...] = tuple(bug for room in ROOMS for bug in room.BUGS)


def bug_named(name: str) -> Bug:
    """The bug of that name. Raises KeyError."""
    return {bug.name: bug for bug in BUGS}[name]
