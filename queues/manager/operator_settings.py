"""The part of an engine by which an operator controls queues: pauses and quotas, which outlive restarts.

Promise: what an operator says is in force immediately, and durable with the next commit.
"""

from triack.base.clock import WallClock
from triack.base.session_log import Record, record_nothing
from triack.queues.mailboxes.local_queues import LocalQueues
from triack.queues.manager.jobs import Jobs
from triack.queues.manager.recorder import Recorder
from triack.queues.node_settings import Quota
from triack.queues.streams.outbox import Outbox
from triack.queues.transit.transits import Transits


class OperatorSettings:
    """What an engine does for an operator. ``jobs`` has the next commit, ``wall`` the time of day."""

    queues: LocalQueues
    outbox: Outbox
    transits: Transits
    jobs: Jobs
    wall: WallClock
    _recorder: Recorder | None

    @property
    def _record(self) -> Record:
        """Writes to the session log, if there is one."""
        return record_nothing if self._recorder is None else self._recorder.add

    def pause(self, name: str, *, arrivals: bool, now_ns: int) -> None:
        """Pause a queue now, and durably with the next commit; see ``Pauses`` for its name."""
        commit = self.jobs.turn(now_ns).commit
        self.queues.pauses.pause(name, arrivals=arrivals, now_ms=self.wall.ms(now_ns), commit=commit)
        self._record("queue_paused", now_ns, queue=name, arrivals=arrivals)
        self._handle_paused(name)

    def resume(self, name: str, now_ns: int) -> bool:
        """Resume a queue now, and durably with the next commit. Returns whether it was paused."""
        if not self.queues.pauses.resume(name, self.jobs.turn(now_ns).commit):
            return False
        self._record("queue_resumed", now_ns, queue=name)
        self._handle_paused(name)
        return True

    def set_quota(self, name: str, quota: Quota | None, now_ns: int) -> None:
        """Set the quota of a queue of this node now, and durably with the next commit; None: as the settings say."""
        queues, commit = self.queues, self.jobs.turn(now_ns).commit
        if quota is None:
            queues.set_quotas.unset(name, commit)
        else:
            queues.set_quotas.set(name, quota, commit)
        queues.handle_quota(name)
        now = queues.quota_of(name)
        limits = {"messages": now.messages, "size_bytes": now.size_bytes, "when_full": now.when_full}
        self._record("queue_quota_set", now_ns, queue=name, **limits, by_settings=quota is None)

    def _handle_paused(self, name: str) -> None:
        if "/" in name:
            self.outbox.handle_paused()
            self.transits.handle_paused()
        elif name in self.queues.mailboxes:
            self.queues.handle_paused(name)
