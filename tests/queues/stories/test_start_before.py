"""What a start writes down of the log of the one before: a reader can tell whether its end is gone."""

from typing import Any

from triack.base.delivery import Delivery
from triack.tools.replay.log.files import parse_records
from triack.tools.sim.host import SimHost
from triack.tools.sim.network import Network
from triack.tools.sim.world import World


def machine() -> SimHost:
    world = World(1)
    host = SimHost(world, Network(world), "a", "udp://a:1")
    host.start()
    return host


def send(host: SimHost) -> None:
    """Commit a message to a queue of the node itself."""
    engine = host.live
    host.act(lambda: engine.submit(engine.outgoing_stream("", "orders", Delivery.TRANSACTIONAL), b"one", 3))
    host.world.run(10**9)


def told(host: SimHost) -> dict[str, Any]:
    """What the last start knows of the one before."""
    (record,) = [it for it in parse_records(bytes(host.records[-1])) if it["event"] == "start_before"]
    return record


def test_the_first_start_knows_of_no_records() -> None:
    host = machine()
    assert (told(host)["n"], told(host)["records"], told(host)["boot"]) == (2, 0, "a 0")


def test_a_start_knows_how_many_records_preceded_the_last_commit() -> None:
    host = machine()
    send(host)
    written = len(parse_records(bytes(host.records[-1])))
    host.end()
    host.start()
    assert 0 < told(host)["records"] <= written
    assert told(host)["boot"] == "a 0"


def test_of_a_start_without_a_commit_nothing_is_known() -> None:
    """The records of the start before it count no more."""
    host = machine()
    send(host)
    for _ in range(2):
        host.end()
        host.start()
    assert told(host)["records"] == 0
