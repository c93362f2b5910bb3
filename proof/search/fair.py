"""The outcome of a state when the faults stop: what is sent from here on arrives, disks work, the clock runs."""

from heapq import heappop, heappush

from proof.search.datagrams import Datagram
from proof.search.host import NOW_NS, Action, Host
from proof.search.identity import thaw
from proof.search.inside import conversations
from proof.search.witness import sentence
from triack.base.units import MS, SECOND

DELAY_NS = 10 * MS
COMMIT_NS = 1 * MS
PATIENCE_NS = 60 * SECOND
CLOSE_NS = 2 * SECOND

_Event = tuple[int, int, int, Action, Datagram | None]


def run_fair(frozen: list[bytes]) -> str | None:
    """Let two nodes continue with an empty network. Returns what is wrong in the end, or None."""
    try:
        return _Run([thaw(data) for data in frozen]).run()
    except Exception as error:  # noqa: BLE001 - the run exists to find whatever the engine raises
        return sentence(error)


class _Run:
    def __init__(self, hosts: list[Host]) -> None:
        self._hosts = hosts
        self._events: list[_Event] = []
        self._serial = 0
        self._now_ns = NOW_NS
        self._timers = [0, 0]

    def run(self) -> str | None:
        for host in self._hosts:
            if host.job is not None:
                self._plan(COMMIT_NS, host.side, ("disk", None))
            if host.engine.draining:
                self._plan(CLOSE_NS, host.side, ("stop", None))
            self._follow(host, host.drain())
        while (wrong := self._wrong()) is not None:
            if not self._events or self._events[0][0] > NOW_NS + PATIENCE_NS:
                return wrong
            self._step()
        return None

    def _plan(self, delay_ns: int, side: int, action: Action, heard: Datagram | None = None) -> None:
        self._serial += 1
        heappush(self._events, (self._now_ns + delay_ns, self._serial, side, action, heard))

    def _step(self) -> None:
        self._now_ns, _, side, action, heard = heappop(self._events)
        host = self._hosts[side]
        host.now_ns = self._now_ns
        if action[0] == "disk" and host.job is None:
            return
        if action[0] == "tick":
            self._timers[side] = 0
        self._follow(host, host.act(action, heard))

    def _follow(self, host: Host, sent: list[Datagram]) -> None:
        had_job = any(event[2] == host.side and event[3][0] == "disk" for event in self._events)
        for datagram in sent:
            self._plan(DELAY_NS, datagram.to, ("deliver", None), datagram)
        if host.job is not None and not had_job:
            self._plan(COMMIT_NS, host.side, ("disk", None))
        if host.can_read and not any(event[2] == host.side and event[3][0] == "read" for event in self._events):
            self._plan(COMMIT_NS, host.side, ("read", None))
        deadline_ns = host.engine.next_deadline()
        armed_ns = self._timers[host.side]
        if deadline_ns is not None and not (armed_ns and armed_ns <= deadline_ns):
            self._timers[host.side] = deadline_ns
            self._plan(max(1, deadline_ns - self._now_ns), host.side, ("tick", None))

    # ---- the end

    def _wrong(self) -> str | None:
        for host, other in (self._hosts, self._hosts[::-1]):
            engine, witness = host.engine, host.witness
            name = "ab"[host.side]
            if host.job is not None or engine.busy_storing:
                return f"{name} is still storing"
            if any(outgoing.busy for outgoing in engine.outbox.streams):
                return f"{name} still waits for acknowledgements"
            if sorted(other.witness.kept) != sorted(witness.queued):
                return f"{name} queued {witness.queued}, the other side has {other.witness.kept}"
            if host.part.reads and witness.read != witness.kept:
                return f"the application of {name} has read {witness.read} of {witness.kept}"
            if engine.draining:
                return f"{name} is still closing"
            for conversation in conversations(engine).values():
                session = conversation.session
                if not conversation.is_open or session.session_id not in _open_sessions(other):
                    return f"session {session.session_id:x} of {name} is {session.state.value} for ever"
        return None


def _open_sessions(host: Host) -> list[int]:
    live = conversations(host.engine).values()
    return [conversation.session.session_id for conversation in live if conversation.is_open]
