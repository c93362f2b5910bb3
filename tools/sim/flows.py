"""A middle box of the simulated network: hosts behind it are seen elsewhere, and reached only by flows that it knows.

It does what firewalls and address translators do for UDP (RFC 4787: address- and port-dependent mapping and filtering,
refreshed by what leaves). A flow begins with the first datagram from a host behind it to an address outside. It lets in
what comes from that address, until nothing has left by it for its life. What leaves later begins another flow, which is
seen at another port.
"""

from dataclasses import dataclass

__all__ = ["FIRST_PORT", "FlowTable"]

FIRST_PORT = 40_000
"""Hosts behind a middle box are seen at ports above this one."""


@dataclass(slots=True)
class _Flow:
    """Who speaks with whom, and until when the middle box knows it."""

    inside: str
    outside: str
    seen: str
    until_ns: int


class FlowTable:
    """What all middle boxes of a world know."""

    def __init__(self) -> None:
        self._lives_ns: dict[str, int] = {}
        self._by_ends: dict[tuple[str, str], _Flow] = {}
        self._by_seen: dict[str, _Flow] = {}
        self._ports = FIRST_PORT

    def hide(self, address: str, life_ns: int) -> None:
        """Put a host behind a middle box that forgets flows after so long; 0 takes it out again."""
        if life_ns:
            self._lives_ns[address] = life_ns
        else:
            self._lives_ns.pop(address, None)

    def handle_leaving(self, inside: str, outside: str, now_ns: int) -> str:
        """A datagram leaves. Returns where its sender is seen, or an empty text if it is not behind a middle box."""
        life_ns = self._lives_ns.get(inside)
        if life_ns is None:
            return ""
        flow = self._by_ends.get((inside, outside))
        if flow is None or now_ns >= flow.until_ns:
            self._ports += 1
            flow = _Flow(inside, outside, f"{inside.rpartition(':')[0]}:{self._ports}", now_ns)
            self._by_ends[inside, outside] = self._by_seen[flow.seen] = flow
        flow.until_ns = now_ns + life_ns
        return flow.seen

    def home_of(self, to: str) -> str:
        """Whose flow is seen at an address, whether it is still known or not; the address itself if it is no flow's."""
        flow = self._by_seen.get(to)
        return to if flow is None else flow.inside

    def inside_of(self, to: str, sender: str, now_ns: int) -> str | None:
        """To whom something goes that comes from outside: where there is no middle box, ``to`` itself; None: nobody."""
        flow = self._by_seen.get(to)
        if flow is None:
            return None if to in self._lives_ns else to
        return flow.inside if sender == flow.outside and now_ns < flow.until_ns else None
