"""Which logs may lack their ends, and how far they are known to go."""

import pytest

from triack.tools.replay.checks.findings import Due, Life, Opening, settled
from triack.tools.replay.judges.endings import Endings
from triack.tools.replay.judges.starts import Starts

KILLED = Life("b", 1, 0, 1000, False, "beta", 50, True, last_n=50, boot="one")
NEXT = Life("b", 2, 2000, 3000, True, "beta", 9, True, last_n=9, boot="one", known=50)
ALPHA = Life("a", 1, 0, 3000, True, "alpha", 90, True, last_n=90, boot="other")


def endings(*lives: Life, openings: tuple[Opening, ...] = ()) -> Endings:
    by_start = {(life.node, life.incarnation): life for life in (ALPHA, *lives)}
    return Endings(by_start, openings, Starts(by_start, openings))


@pytest.mark.parametrize(
    ("lives", "lacks"),
    [
        ((KILLED, NEXT), False),
        ((KILLED._replace(stopped=True),), False),
        ((KILLED,), True),
        ((KILLED, NEXT._replace(boot="two")), True),
        ((KILLED, NEXT._replace(known=51)), True),
        ((KILLED._replace(boot=""), NEXT._replace(boot="")), True),
    ],
)
def test_a_log_is_whole_or_may_lack_its_end(lives: tuple[Life, ...], lacks: bool) -> None:
    """It stopped, or the next start knows of the same boot and of no more records."""
    assert endings(*lives).lacking(Due("seen", "b", 1, "a", 1, 10)) == ({("b", 1)} if lacks else set())


def test_the_end_of_the_last_start_settles_nothing() -> None:
    """The acts of a start are looked for in its own log; only earlier logs may have lost what explains them."""
    assert endings(KILLED).lacking(settled("b")) == set()
    assert endings(KILLED, NEXT._replace(boot="two")).lacking(settled("b")) == {("b", 1)}
    assert endings(KILLED, NEXT._replace(boot="two")).lacking(settled("b", 2)) == set()


def test_a_log_with_fewer_records_than_its_store_knows_of_is_short() -> None:
    assert endings(KILLED, NEXT).short() == []
    assert endings(KILLED, NEXT._replace(known=51)).short() == [("b", 1)]
    assert endings(KILLED, NEXT._replace(known=51)).known_of("b", 1) == 51


def test_a_log_is_known_as_far_as_its_peer_shows() -> None:
    """Alpha's record 40 has left a trace in beta's log, its record 41 none; and before record 5 they had not met."""
    here = Opening("a", 1, "b", "s", 10, 0, "", 0, True, n=5, reached=40)
    there = Opening("b", 1, "a", "s", 11, 0, "", 0, True, n=3)
    known = endings(KILLED, openings=(here, there))
    for kind in ("seen", "whole"):
        assert known.lacking(Due(kind, "b", 1, "a", 1, 40)) == set()
        assert known.lacking(Due(kind, "b", 1, "a", 1, 41)) == {("b", 1)}
    assert known.lacking(Due("whole", "b", 1, "a", 1, 4)) == set()


def test_a_later_start_has_left_the_end_behind() -> None:
    """Records of alpha after it met beta's next start have no cause in the end of the one before."""
    openings = (
        Opening("a", 1, "b", "s", 10, 20, "", 0, True, n=5, reached=8),
        Opening("b", 1, "a", "s", 11, 0, "", 0, True, n=3),
        Opening("a", 1, "b", "t", 30, 0, "", 0, True, n=60, reached=70),
        Opening("b", 2, "a", "t", 31, 0, "", 0, True, n=3),
    )
    known = endings(KILLED, NEXT._replace(boot="two"), openings=openings)
    assert known.lacking(Due("whole", "b", 1, "a", 1, 59)) == {("b", 1)}
    assert known.lacking(Due("whole", "b", 1, "a", 1, 61)) == set()
