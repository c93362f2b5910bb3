"""What has come to a relay: by hop count, and which packet each one named as its previous."""

from triack.tools.replay.transit.brought import Brought


def came(brought: Brought, number: int, packets: int, previous: int, hops: int = 0, cls: str = "transactional") -> None:
    brought.take({"class": cls, "number": number, "packets": packets, "previous": previous, "hops": hops})


def test_a_packet_may_come_by_several_ways() -> None:
    brought = Brought()
    came(brought, 1, 10, 0, hops=1)
    came(brought, 5, 2, 4, hops=3)
    assert brought.came_by(1, 1, 10) == []
    assert brought.came_by(3, 4, 7) == [(4, 4), (7, 7)]
    assert brought.came_by(2, 1, 2) == [(1, 2)]


def test_all_but_the_first_of_a_run_name_the_one_before_them() -> None:
    brought = Brought()
    came(brought, 5, 3, 2)
    assert brought.named(5, 7, 2) == []
    assert brought.named(5, 7, 4) == [(5, 5)]
    assert brought.named(6, 7, 5) == []
    assert brought.named(6, 8, 2) == [(6, 6), (8, 8)]


def test_of_other_classes_the_highest_previous_counts() -> None:
    brought = Brought()
    came(brought, 5, 3, 4, cls="express")
    came(brought, 8, 1, 2, cls="express")
    assert brought.unwanted == 4
