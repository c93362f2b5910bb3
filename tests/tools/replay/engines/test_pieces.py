"""The pieces of a table have everything that was written, once, and are few."""

from triack.tools.replay.engines.pieces import merged_by, pieces_of


def test_pieces_have_what_every_batch_wrote_and_no_row_is_moved_often() -> None:
    holds: dict[int, list[int]] = {}
    for batch in range(200):
        assert set(merged_by(batch)) <= set(pieces_of(batch - 1)) <= holds.keys()
        holds[batch] = [batch, *(old for piece in merged_by(batch) for old in holds[piece])]
        pieces = pieces_of(batch)
        assert sorted(old for piece in pieces for old in holds[piece]) == list(range(batch + 1))
        assert set(pieces) - {batch} <= set(pieces_of(batch - 1)), "what was merged is gone"
        assert len(pieces) <= (batch + 1).bit_length()
    assert max(sum(old in piece for piece in holds.values()) for old in range(200)) <= 8


def test_before_the_first_batch_there_is_nothing() -> None:
    assert pieces_of(-1) == []
    assert merged_by(0) == []
    assert (merged_by(1), merged_by(2), merged_by(3)) == ([0], [], [2, 1])
