"""Callers that get no answer, for the operator of the node that they call.

Promise: a stranger learns nothing, as nothing is sent. The operator gets one event for each host and reason while the
calls continue, and one row for ``stats``. A flood of invented callers fills no memory, and hides none that were there
before it: each reason has ``CALLERS_MAX`` rows, and further callers are only counted.
"""

from collections.abc import Callable
from dataclasses import dataclass

from triack.base.datagram import Kind
from triack.base.errors import ProtocolError
from triack.base.news import CallRefused
from triack.base.peers import Directory
from triack.base.reasons import DropReason, Trouble
from triack.base.units import SECOND

CALLERS_MAX = 16
"""Rows for each reason: more than an operator sets up at a time, and a screen has room for."""
FORGET_NS = 300 * SECOND
"""After this long without a call a row is removed. A node without an answer calls every two minutes at least
(``Reconnect.away_most_s``)."""
CALL_BYTES = 1_200
"""The least length of a connect with keys, in every version: each path that carries QUIC carries it (RFC 9000, section
14.1). A shorter one from another machine is of another program."""
LOOPBACK = ("127.", "[::1]")
"""How the hosts of this machine begin. A node without keys calls from nowhere else."""
LOOK_NS = 1 * SECOND
"""Between two searches for old rows while there is no room: a flood must not cause one for each datagram."""
OTHERS = "other hosts"
"""Represents the hosts without a row."""

_CONNECT, _ACCEPT, _ENROL = int(Kind.CONNECT), int(Kind.ACCEPT), int(Kind.ENROL)
_TROUBLES = {
    (_CONNECT, DropReason.UNTRUSTED): Trouble.UNTRUSTED,
    (_CONNECT, DropReason.OTHER_SUITE): Trouble.OTHER_SUITE,
    (_CONNECT, DropReason.BAD_VERSION): Trouble.OTHER_VERSION,
    (_CONNECT, DropReason.BAD_MAC): Trouble.WRONG_KEY,
    (_CONNECT, DropReason.TOO_SHORT): Trouble.ONE_WITHOUT_KEYS,
    (_CONNECT, DropReason.BAD_TAG): Trouble.ONE_WITHOUT_KEYS,
    (_ACCEPT, DropReason.BAD_TAG): Trouble.OTHER_PSK,
    (_ENROL, DropReason.CODE_EXPIRED): Trouble.CODE_EXPIRED,
}
"""What an operator can mend, by the first byte of a datagram and the reason of its drop. Other datagrams may be late,
or of any host. A connect of a node without keys is shorter than any connect with keys, and a node without keys finds no
digest of its own in one with keys."""

_TOLD_APART = (Trouble.UNTRUSTED, Trouble.OTHER_VERSION)
"""For these, the calls of one host have a row for each key, or version."""


@dataclass(slots=True)
class Caller:
    """Calls of one host that got no answer for one reason.

    Attributes:
        host: the address that they came from, without the port.
        detail: the key of the caller, or its version.
        since_ns: when the first came; ``last_ns``: when the last did.
        key: the caller's key, where that is known.
        looked_ns: of the row for all others: when old rows were last removed.
    """

    trouble: Trouble
    host: str
    detail: str
    since_ns: int
    last_ns: int
    calls: int = 1
    key: bytes = b""
    looked_ns: int = 0


class Callers:
    """The callers of a node that get no answer.

    Args:
        directory: the peers; a key that is trusted later needs no row any more.

    Attributes:
        describe_key: writes a public key as operators write it.
    """

    def __init__(self, directory: Directory) -> None:
        self.describe_key: Callable[[bytes], str] = bytes.hex
        self._directory = directory
        self._rows: dict[Trouble, dict[tuple[str, str], Caller]] = {trouble: {} for trouble in _TROUBLES.values()}
        self.news: list[CallRefused] = []

    def handle_dropped(self, datagram: bytes, error: ProtocolError, sender: str, now_ns: int) -> None:
        """A datagram was dropped; nothing happens unless an operator can mend the reason."""
        trouble = _TROUBLES.get((datagram[0], error.reason)) if datagram else None
        if trouble is None:
            return
        host, rows = _host_of(sender), self._rows[trouble]
        if not _is_call(trouble, datagram, host):
            return
        detail = error.detail if trouble in _TOLD_APART else ""
        known = rows.get((host, detail)) or self._make_room(rows, now_ns)
        if known is not None:
            known.calls += 1
            known.last_ns = now_ns
            return
        key = bytes.fromhex(detail) if trouble is Trouble.UNTRUSTED else b""
        told = self.describe_key(key) if key else detail
        rows[host, detail] = Caller(trouble, host, told, now_ns, now_ns, key=key)
        self.news.append(CallRefused(host, trouble.value, trouble.say(host, told), trouble.advise(host)))

    def _make_room(self, rows: dict[tuple[str, str], Caller], now_ns: int) -> Caller | None:
        """Make room for a new row. If there is none, returns the row of all others."""
        if len(rows) < CALLERS_MAX:
            return None
        others = rows.get((OTHERS, ""))
        if others is not None and now_ns < others.looked_ns + LOOK_NS:
            return others
        self._forget(rows, lambda row: now_ns - row.last_ns >= FORGET_NS)
        if len(rows) < CALLERS_MAX:
            return None
        others = rows.get((OTHERS, ""))
        if others is None:
            newest = rows.pop(next(reversed(rows)))
            others = rows[OTHERS, ""] = Caller(newest.trouble, OTHERS, "", newest.since_ns, now_ns, newest.calls)
        others.looked_ns = now_ns
        return others

    def handle_directory_changed(self) -> None:
        """The peers have changed: forget the callers that are trusted now."""
        for rows in self._rows.values():
            self._forget(rows, lambda row: self._directory.with_key(row.key) is not None)

    def rows(self, now_ns: int) -> list[Caller]:
        """The callers that have recently called."""
        for rows in self._rows.values():
            self._forget(rows, lambda row: now_ns - row.last_ns >= FORGET_NS)
        return [row for rows in self._rows.values() for row in rows.values()]

    @staticmethod
    def _forget(rows: dict[tuple[str, str], Caller], is_over: Callable[[Caller], bool]) -> None:
        for key in [key for key, row in rows.items() if is_over(row)]:
            del rows[key]


def _host_of(sender: str) -> str:
    place = sender.partition("://")[2]
    return place.rpartition(":")[0] or place


def _is_call(trouble: Trouble, datagram: bytes, host: str) -> bool:
    """Whether a datagram may be that of a node, and not junk that looks alike."""
    is_here = host.startswith(LOOPBACK)
    if trouble is Trouble.ONE_WITHOUT_KEYS:
        return is_here
    return trouble is not Trouble.OTHER_VERSION or is_here or len(datagram) >= CALL_BYTES
