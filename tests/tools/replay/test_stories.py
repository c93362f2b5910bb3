"""Stories: what became of packets, by ranges."""

from triack.tools.replay.stories import Segment, Story, even_share, segments


def story(cls: str = "transactional") -> Story:
    it = Story()
    it.cls = cls
    it.fresh.append((1, 10, 100))
    return it


def test_shares_add_up() -> None:
    assert [even_share(number, 1, 3, 10) for number in (1, 2, 3)] == [3, 3, 4]


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
    assert (it.weigh(4), it.weigh(5), it.weigh(11)) == (7, 10, 0)
    assert it.weigh_all([(4, 5)]) == 17
    assert it.weigh_all([(4, 4)]) == 7
