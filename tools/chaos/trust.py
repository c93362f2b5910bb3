"""Trust in a simulated world, with keys and permissions: changed while all run, and watched.

A key is exchanged as docs/keys.md says: its node answers with both, then the others learn the new one, then the old one
goes, and no message may be lost. If a host revokes a peer, within a second it has no session with it, and no message of
it enters a queue, until it is trusted again; messages that the peer accepted meanwhile wait there.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from random import Random

from triack.base.units import SECOND
from triack.tools.chaos.history import History
from triack.tools.chaos.host import Host
from triack.tools.chaos.plan import Fault, Plan
from triack.tools.chaos.rights import Rights, records_of
from triack.tools.sim.residents import draw_key, public_of
from triack.tools.sim.world import World

REVOKED_NS = 1 * SECOND
"""This long after a peer is revoked its last session has ended (promise X8), and what it sent is in a queue or nowhere.
"""
STEPS = 5


@dataclass(slots=True)
class Spell:
    """A time in which one host does not trust another."""

    host: int
    other: int
    begin_ns: int | None
    lasts: bool
    end_ns: int = 0


class Trust:
    """The operators of all hosts."""

    def __init__(self, plan: Plan, hosts: list[Host], world: World) -> None:
        self.violations: list[tuple[str, str]] = []
        self._hosts = hosts
        self._world = world
        self._random: Random = world.chance("trust")
        self._may_subscribe = bool(plan.away)
        self._published = [replace(host.peer, may_subscribe=("#",)) if plan.away else host.peer for host in hosts]
        # Machines with relays know only their neighbours, and let them relay.
        self._links = plan.links
        self._apart: list[tuple[int, int]] = []
        if plan.links:
            self._published = [replace(peer, may_relay=("*",), relays_for=("*",)) for peer in self._published]
            self._apart = [pair for pair in combinations(range(len(hosts)), 2) if pair not in plan.links]
        self._sealing = [{stream.sender, stream.receiver} for stream in plan.streams if stream.sealed]
        self.rights = Rights(plan, hosts, world, self._tell_again)
        self._rotating: set[int] = set()
        self._spells: list[Spell] = []
        # A host that stands still does nothing within a second.
        self._late = {fault.host for fault in plan.faults if fault.kind == "pause"}

    def begin(self) -> None:
        """Apply the lasting prohibitions from the start, and let hosts know only their neighbours."""
        for host, other in permutations(range(len(self._hosts)), 2) if self._may_subscribe else ():
            self._tell(host, other)
        for host, other in self.rights.pairs:
            self._tell(host, other)
        for one, other in self._links:
            self._tell(one, other)
            self._tell(other, one)
        for one, other in self._apart:
            if {one, other} in self._sealing:
                # They know only each other's keys.
                self._hosts[one].know(replace(self._hosts[other].peer, addresses=()))
                self._hosts[other].know(replace(self._hosts[one].peer, addresses=()))
                continue
            self._hosts[one].forget(self._hosts[other].name)
            self._hosts[other].forget(self._hosts[one].name)

    def _tell(self, host: int, other: int) -> None:
        self._hosts[host].know(replace(self._published[other], may_send=self.rights.of(host, other)))

    # ---- keys

    def rotate(self, fault: Fault) -> None:
        """Exchange a host's key for a new one."""
        index = fault.host
        if index in self._rotating:
            return
        self._rotating.add(index)
        identity, step_ns = self._hosts[index].identity, max(1, fault.for_ns // STEPS)
        old, new = identity.keys, draw_key(self._world, f"{self._hosts[index].name} at {self._world.now_ns}")

        def finish() -> None:
            identity.use_keys((new,))
            self._rotating.remove(index)

        steps: list[Callable[[], None]] = [
            lambda: identity.use_keys((*old, new)),
            lambda: self._publish(index, (*old, new), step_ns),
            lambda: identity.use_keys((new, *old)),
            lambda: self._publish(index, (new,), step_ns),
            finish,
        ]
        for number, step in enumerate(steps):
            self._world.at(number * step_ns, step)

    def _publish(self, index: int, keys: tuple[bytes, ...], within_ns: int) -> None:
        self._published[index] = replace(self._published[index], keys=tuple(map(public_of, keys)))
        for host in range(len(self._hosts)):
            if host != index:
                self._world.at(self._random.randrange(within_ns), lambda host=host: self._tell_again(host, index))  # type: ignore[misc]

    def _tell_again(self, host: int, other: int) -> None:
        if self._spell(host, other) is None:
            self._tell(host, other)

    # ---- revocations

    def revoke(self, fault: Fault) -> None:
        """Stop trusting a peer, for a while."""
        if self._spell(fault.host, fault.other) is not None:
            return
        host, other = self._hosts[fault.host], self._hosts[fault.other]
        spell = Spell(fault.host, fault.other, None, lasts=fault.forever)
        self._spells.append(spell)
        host.forget(other.name)
        if host.engine is None:
            self._begin(spell)
        else:
            host.act(lambda: self._begin(spell))
        if not fault.forever:
            self._world.at(fault.for_ns, lambda: self._end(spell))

    def _begin(self, spell: Spell) -> None:
        spell.begin_ns = self._world.now_ns
        self._world.at(REVOKED_NS, lambda: self._look(spell))

    def _end(self, spell: Spell) -> None:
        if not spell.end_ns:
            spell.end_ns = self._world.now_ns
            self._tell(spell.host, spell.other)

    def _spell(self, host: int, other: int) -> Spell | None:
        return next((one for one in self._spells if not one.end_ns and (one.host, one.other) == (host, other)), None)

    def apart(self, one: int, other: int) -> bool:
        """Whether one of two does not trust the other now."""
        return self._spell(one, other) is not None or self._spell(other, one) is not None

    def heal(self, history: History) -> bool:
        """Give trust and permissions back where planned. Returns whether any host is still revoked."""
        self.rights.heal(history)
        for spell in self._spells:
            if not spell.lasts:
                self._end(spell)
        return any(not spell.end_ns for spell in self._spells)

    def forgive(self) -> None:
        """All hosts trust each other again."""
        for spell in self._spells:
            self._end(spell)

    def _look(self, spell: Spell) -> None:
        host, name = self._hosts[spell.host], self._hosts[spell.other].name
        if spell.end_ns or host.engine is None or spell.host in self._late:
            return
        left = [one for one in host.engine.handshakes.conversations.values() if one.peer_name == name]
        if any(not conversation.session.is_closed for conversation in left):
            self.violations.append(("revoked", f"{host.name} has a session with {name} a second after it was revoked"))

    # ---- the verdict

    def judge(self, history: History) -> None:
        """Nothing of a revoked peer opens a session, or enters a queue; nor what it may not send."""
        self.rights.judge(history, self._late)
        self.violations += self.rights.violations
        for spell in self._spells:
            if spell.begin_ns is not None and spell.host not in self._late:
                self._judge(spell, spell.begin_ns)

    def _judge(self, spell: Spell, begin_ns: int) -> None:
        host, other = self._hosts[spell.host], self._hosts[spell.other]
        node_id = next((str(record["node"]) for record in records_of(other)), "")
        for record in records_of(host):
            if not begin_ns < record["at_ns"] < spell.end_ns:
                continue
            if record["event"] == "session_opened" and record["peer"] == node_id:
                self.violations.append(("revoked", f"{host.name} opened a session with {other.name}, which is revoked"))
            late = record["at_ns"] > begin_ns + REVOKED_NS
            if record["event"] == "committed" and record["origin"] == node_id and late:
                self.violations.append(("revoked", f"{host.name} took messages of {other.name}, which is revoked"))
