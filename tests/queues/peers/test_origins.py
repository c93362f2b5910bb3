"""By whom the messages of a node come, and what it is called here."""

from triack.queues.peers.origins import Brought, Origins

ORIGIN = b"o" * 16


def test_an_origin_has_the_name_of_its_first_relay_and_the_last_neighbour() -> None:
    """Messages go back by the neighbour that brought the newest stream."""
    origins = Origins()
    assert origins.bind(ORIGIN, "hub", "plant-a")
    assert not origins.bind(ORIGIN, "hub", "plant-a")
    assert origins.bind(ORIGIN, "hub-2", "plant-a")
    assert origins.of(ORIGIN) == Brought("hub-2", "plant-a")
    assert Brought("hub-2", "plant-a").name == "plant-a@hub-2"


def test_an_origin_without_streams_is_forgotten() -> None:
    origins = Origins()
    origins.forget(ORIGIN)
    origins.bind(ORIGIN, "hub", "plant-a")
    origins.forget(ORIGIN)
    assert origins.of(ORIGIN) is None
