"""Strangers: each of their ways does no harm, and a node that is too friendly is found out."""

import pytest

from proof.planted.catalogue import bug_named
from tests.tools.chaos.conftest import Make
from triack.base.datagram import Header, Kind, read_header
from triack.base.reasons import DropReason
from triack.base.units import SECOND
from triack.tools.chaos.plan import STRANGE, Fault
from triack.tools.chaos.strangers import Strangers

STRANGER = "udp://stranger-0:1"


@pytest.mark.parametrize("kind", STRANGE)
def test_strangers_change_a_counter_and_nothing_else(make: Make, kind: str) -> None:
    """All arrives, and none of them has got what is for others."""
    scene = make()
    strangers = Strangers(scene.world, scene.network, scene.hosts)
    scene.world.run(SECOND)
    for host in (0, 1):
        strangers.attack(Fault(0, kind, host, after=60, for_ns=2 * SECOND))
    scene.world.run(60 * SECOND)
    assert len(scene.handed()) == 200
    assert strangers.violations == []
    drops = scene.hosts[1].live.drops
    expected = {
        "junk": {DropReason.BAD_VERSION, DropReason.TOO_SHORT},
        "replay": {DropReason.REPLAYED},
        "forge": {DropReason.UNTRUSTED},
        "overtake": {DropReason.REPLAYED},
    }
    assert expected[kind] <= set(drops)


@pytest.mark.plain
def test_a_path_that_is_used_at_once_is_found_out(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then a stranger that is faster than the peer has its session."""
    bug_named("a path is used before it is validated").plant(monkeypatch)
    scene = make()
    strangers = Strangers(scene.world, scene.network, scene.hosts)
    scene.world.run(SECOND // 2)
    strangers.attack(Fault(0, "overtake", 1, for_ns=4 * SECOND))
    scene.world.run(5 * SECOND)
    assert ("path", "udp://b:1 has a session at the address of a stranger") in strangers.violations


@pytest.mark.gate
@pytest.mark.parametrize("passed_on", [True, False])
def test_who_passes_on_a_connect_and_its_accept_is_the_way(make: Make, passed_on: bool) -> None:
    """The session goes by where its accept went. A stranger that passes on the connect alone has none."""
    scene = make()
    a, b = (host.address for host in scene.hosts)
    strangers = Strangers(scene.world, scene.network, scene.hosts)
    strangers.attack(Fault(0, "junk", 1, for_ns=1))
    scene.network.cut(a, b)
    scene.network.cut(b, a)
    see, passing = scene.network.tap, {Kind.CONNECT, Kind.DATA} | ({Kind.ACCEPT} if passed_on else set())
    assert see is not None

    def pass_on(datagram: bytes, sender: str, to: str) -> None:
        see(datagram, sender, to)
        if sender in (a, b) and read_header(datagram).kind in passing:
            strangers.throw(datagram, STRANGER, b if sender == a else a)

    scene.network.tap = pass_on
    scene.world.run(60 * SECOND)
    assert len(scene.handed()) == (200 if passed_on else 0)
    assert strangers.violations == []


def test_who_answers_with_more_than_came_is_found_out(make: Make) -> None:
    """A challenge may have three times the size of what came; a stranger that has sent nothing gets nothing."""
    scene = make()
    strangers = Strangers(scene.world, scene.network, scene.hosts)
    strangers.attack(Fault(0, "junk", 1, after=1, for_ns=1))
    challenge = Header(Kind.CHALLENGE, 1, 1).encode()
    scene.network.send(challenge, "udp://b:1", STRANGER)
    assert strangers.violations == [("amplification", "udp://b:1 sent a stranger 20 bytes")]
