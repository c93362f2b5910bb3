"""Effects that the engine wants done. ``Engine.poll`` returns them in the order in which a host must do them.

The order of effects, for one call of ``poll``:

    1. WriteRecords    what the next job will change, so that the log has it if the process dies in between
    2. StartJob        one commit or read at a time; the host answers with ``Engine.handle_done``
    3. WriteRecords    everything else that has happened
    4. Tell            for the program and the operator
    5. KeepConnection  for TCP connections whose conversation is open now: the transport keeps them
    6. Send            datagrams leave after the operating system has the records about them
    7. DropConnection  for TCP connections without one any longer; the last datagrams have left

Each part is absent when there is nothing to do. There is at most one job. If there is none at first, gathering what to
send may show that bodies must be read; the records before that job are then those of 3, too.
"""

from dataclasses import dataclass

from triack.base.errors import RollbackDetected
from triack.base.news import NodeEvent
from triack.queues.fetching import Fetch
from triack.queues.peers.kept_connections import DropConnection, KeepConnection
from triack.queues.streams.group_commit import GroupCommit

Job = GroupCommit | Fetch
"""A job of the host's worker: apply ``GroupCommit.commit``, or fetch the bodies of a ``Fetch``."""


@dataclass(slots=True)
class WriteRecords:
    """Append whole lines to the session log; the operating system must have them before the next effect."""

    data: bytes


@dataclass(slots=True)
class StartJob:
    """Give the store a job, and continue; the next job comes only after ``Engine.handle_done``."""

    job: Job


@dataclass(slots=True)
class Tell:
    """Give the program and the operator an event of the node."""

    event: NodeEvent


@dataclass(slots=True)
class TellRollback:
    """Tell the operator that a store was found to be an older copy of itself."""

    error: RollbackDetected


@dataclass(slots=True)
class Send:
    """Send the datagrams to an address, in this order, best effort."""

    address: str
    datagrams: list[bytes]


Effect = WriteRecords | StartJob | Tell | TellRollback | KeepConnection | Send | DropConnection
