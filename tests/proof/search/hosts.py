"""Two nodes of a search, without the search."""

from proof.search.datagrams import Datagram
from proof.search.host import Host
from proof.search.scope import Scope

DELIVER = ("deliver", None)


def started(scope: Scope) -> tuple[Host, Host, list[Datagram]]:
    """Both nodes as a search begins, and what they have sent."""
    first, second = Host(scope, 0), Host(scope, 1)
    return first, second, first.begin() + second.begin()


def opened(scope: Scope) -> tuple[Host, Host, list[Datagram]]:
    """Two nodes in a session, and the packets that are on their way from the first to the second."""
    first, second, (connect,) = started(scope)
    (accept,) = second.act(DELIVER, connect)
    return first, second, first.act(DELIVER, accept)
