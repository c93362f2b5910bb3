"""How many handshakes a node accepts: all, as long as few come; under load a share for each host.

A stranger that knows a node's public key can make it compute shared secrets. Below ``CONNECTS_PER_SECOND`` that costs
little, and no proof is asked for. Above it, a connect must prove that its sender receives at its address
(``cookies``), and each host has a share, in a table of fixed size: hosts that fall on the same place share one.

Pure: clock and randomness are arguments.
"""

from triack.base.paths import address_in
from triack.base.units import SECOND
from triack.transport.address import Address
from triack.transport.cookies import mac
from triack.transport.strangers import host_of

CONNECTS_PER_SECOND = 100
"""Accepted without a question, also in one burst: a handshake costs a quarter of a millisecond, so this is a fortieth
of a core."""
CONNECTS_PER_HOST = 20
"""A second for each host, also in one burst: a site behind one address connects in a moment, and the busiest host
costs half a percent of a core. WireGuard accepts as many."""
PLACES = 1_024
"""For hosts: 8 KiB in all. To shut out one host, an attacker must own others that fall on the same place."""
_PLACE_BYTES = 8
"""Bytes of a mac: enough to choose a place evenly."""


class Admission:
    """Counts connects. A count is the moment at which it is back at zero (ITU-T I.371, virtual scheduling).

    ``secret`` is random, so that no attacker can know which hosts fall on the same place.
    """

    __slots__ = ("_all_ns", "_hosts_ns", "_secret")

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._all_ns = 0
        self._hosts_ns = [0] * PLACES

    def is_loaded(self, now_ns: int) -> bool:
        """Whether this connect needs a proof, as too many come; if not, it is counted."""
        after_ns = _after(self._all_ns, CONNECTS_PER_SECOND, now_ns)
        self._all_ns = after_ns or self._all_ns
        return after_ns is None

    def admits(self, address: str, now_ns: int) -> bool:
        """Whether the host at that address has some of its share left; if so, this is counted."""
        place = self._place(address)
        after_ns = _after(self._hosts_ns[place], CONNECTS_PER_HOST, now_ns)
        self._hosts_ns[place] = after_ns or self._hosts_ns[place]
        return after_ns is not None

    def _place(self, address: str) -> int:
        host = Address.parse(address_in(address), listening=True).host
        key = host_of(host) if ":" in host else host
        return int.from_bytes(mac(self._secret, key.encode())[:_PLACE_BYTES]) % PLACES


def _after(count_ns: int, per_second: int, now_ns: int) -> int | None:
    """The count with one more, at that rate and with a burst of that size; None: too many."""
    after_ns = max(count_ns, now_ns) + SECOND // per_second
    return after_ns if after_ns <= now_ns + SECOND else None
