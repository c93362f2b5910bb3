"""A middle box of the simulated network: hosts behind it appear at other addresses, and only known flows reach them.

It acts like firewalls and address translators for UDP (RFC 4787: address- and port-dependent mapping and filtering,
refreshed by outgoing datagrams). A flow begins with the first datagram from a host behind it to an address outside. It
lets in datagrams from that address, until nothing has left by it for its life. A later datagram begins another flow, at
another port.
"""

from dataclasses import dataclass

FIRST_PORT = 40_000


@dataclass(slots=True)
class _Flow:
    """The two ends of a flow, and until when the middle box knows it."""

    inside: str
    outside: str
    seen: str
    until_ns: int


class FlowTable:
    """The flows of all middle boxes of a world."""

    def __init__(self) -> None:
        self._lives_ns: dict[str, int] = {}
        self._by_ends: dict[tuple[str, str], _Flow] = {}
        self._by_seen: dict[str, _Flow] = {}
        self._ports = FIRST_PORT

    def hide(self, address: str, life_ns: int) -> None:
        """Put a host behind a middle box that forgets flows after that time. 0: remove the middle box."""
        if life_ns:
            self._lives_ns[address] = life_ns
        else:
            self._lives_ns.pop(address, None)

    def handle_leaving(self, inside: str, outside: str, now_ns: int) -> str:
        """A datagram leaves. Returns where its sender appears, or an empty text if it is not behind a middle box."""
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
        """The inside address of the flow seen at an address, even a forgotten one; else the address itself."""
        flow = self._by_seen.get(to)
        return to if flow is None else flow.inside

    def inside_of(self, to: str, sender: str, now_ns: int) -> str | None:
        """The receiver of a datagram from outside: without a middle box, ``to`` itself; None for no receiver."""
        flow = self._by_seen.get(to)
        if flow is None:
            return None if to in self._lives_ns else to
        return flow.inside if sender == flow.outside and now_ns < flow.until_ns else None
