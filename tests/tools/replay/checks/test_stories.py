"""Stories: what became of packets, by ranges."""

from triack.tools.replay.checks.stories import Segment, Story, even_share, segments, waiting
from triack.tools.replay.log.ranges import RangeSet


def story(cls: str = "transactional") -> Story:
    it = Story()
    it.cls = cls
    it.fresh.append((1, 10, 100))
    return it


def test_shares_add_up() -> None:
    assert [even_share(number, number, (1, 3, 10)) for number in (1, 2, 3)] == [3, 3, 4]
    assert [even_share(1, number, (1, 3, 10)) for number in (1, 2, 3)] == [3, 6, 10]


def test_what_was_acked_and_is_nowhere_is_lost() -> None:
    it = story()
    it.commits["b"].add(1, 6, 60)
    it.acked = 8
    assert list(segments(it)) == [Segment(7, 8, 0, 0, 0, lost=True)]
    kept = story("recoverable")
    kept.stored.add(2, 2)
    kept.covered.add(1, 1)
    assert [(part.first, part.delivered, part.lost) for part in segments(kept)] == [(1, 1, False), (2, 0, True)]


def test_a_packet_is_weighed_by_its_record_or_its_share() -> None:
    it = story()
    it.weights.put(4, 4, 7)
    assert [it.weigh_all([(number, number)]) for number in (4, 5, 11)] == [7, 10, 0]
    assert it.weigh_all([(4, 5)]) == 17
    assert it.weigh_all([(3, 4), (5, 11)]) == 10 + 7 + 60


def test_of_several_ranges_the_one_with_the_fewest_messages_counts() -> None:
    it = story()
    it.recovered += [(6, 15, 50), (9, 9, 3)]
    assert [it.weigh_all([(number, number)]) for number in (5, 6, 9, 12)] == [10, 5, 3, 5]
    assert it.weigh_all([(5, 12)]) == 10 + 3 * 5 + 3 + 3 * 5


def test_a_range_longer_than_anybody_could_count_is_weighed() -> None:
    """A commit goes past whatever its origin says that nobody wants."""
    it = story()
    it.weights.put(10**17, 10**17, 4)
    assert it.weigh_all([(1, 10**17)]) == 100 + 4


def test_what_is_nowhere_and_was_not_given_up_waits() -> None:
    it = story()
    it.queued.add(1, 10)
    it.commits["b"].add(1, 3, 30)
    it.removed.append((5, 6, 20))
    it.covered.add(7, 7)
    assert list(waiting(it, RangeSet([(9, 9)]))) == [(4, 4), (8, 8), (10, 10)]
