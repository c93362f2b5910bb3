"""Mistakes that cost work and nothing else: every message arrives, once and in order.

Only a count of what nodes do sees them (``tools/sim/storms.py``).
"""

from collections.abc import Iterable
from typing import Any

from proof.planted.bug import Bugs
from triack.base.delivery import Ack
from triack.base.units import MS
from triack.ordering.departing import StreamPacketState
from triack.ordering.transit import TransitPacket, TransitSequence
from triack.queues.deadlines import NEVER_NS
from triack.queues.manager.effects import Job
from triack.queues.manager.engine import Engine
from triack.queues.manager.jobs import Jobs
from triack.queues.schedule import Phase
from triack.queues.streams.group_commit import GroupCommit
from triack.queues.streams.outbox import Outbox
from triack.session.acknowledgements.probing import Probing
from triack.tools.chaos.topologies import RELAYED_FROM

BUGS = Bugs(first=RELAYED_FROM)


@BUGS.by_seeds("a relay sends all that has left again with each acknowledgement", TransitSequence, "handle_ack")
def _again(handle_ack: Any, self: TransitSequence, entries: Iterable[TransitPacket], ack: Ack) -> list[TransitPacket]:
    freed = handle_ack(self, entries, ack)
    self._send_again([entry for entry in self.entries.values() if entry.state is StreamPacketState.SENT])
    return freed


@BUGS.by_seeds("a commit without anything in it follows each one while packets are on their way", Jobs, "poll")
def _empty(poll: Any, self: Jobs, *, at_once: bool) -> Job | None:
    job = poll(self, at_once=at_once)
    (pack,) = self._schedule._steps[Phase.PACK]
    outbox: Outbox = getattr(pack.run, "__self__")  # noqa: B009
    waits = job is None and any(outgoing.busy for outgoing in outbox.streams)
    return GroupCommit(self.group.now_ns, self.group.now_ms) if waits else job


@BUGS.by_seeds("a node looks each millisecond whether packets on their way have arrived", Engine, "next_deadline")
def _impatient(next_deadline: Any, self: Engine) -> int | None:
    waits, at_ns = any(outgoing.busy for outgoing in self.outbox.streams), next_deadline(self)
    return min(at_ns or NEVER_NS, self.jobs.group.now_ns + MS) if waits else at_ns


@BUGS.by_seeds(
    "requests for an acknowledgement follow each other by the millisecond, without back-off", Probing, "wait_ns"
)
def _probes(_right: Any, self: Probing, first_ns: int, most_ns: int, patient_ns: int = 0) -> int:
    del self, most_ns, patient_ns
    return min(first_ns, MS)
