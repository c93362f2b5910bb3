"""How a table that grows by batches is stored: each batch writes a piece, and every other one merges older pieces in.

Piece ``b`` has what the batches from ``b & (b + 1)`` to ``b`` wrote: 0, 0-1, 2, 0-3, 4, 4-5, 6, 0-7 and so on. So a
table of n batches has at most log2(n) + 1 pieces, and nothing is written more often than that.
"""

from __future__ import annotations


def pieces_of(batch: int) -> list[int]:
    """Return the pieces of the table after a batch, by their last batches; the newest one first.

    Args:
        batch: the batch, or -1 for none.
    """
    pieces = []
    while batch >= 0:
        pieces.append(batch)
        batch = _first_of(batch) - 1
    return pieces


def merged_by(batch: int) -> list[int]:
    """Return the pieces of the table before a batch that the batch merges into its own piece."""
    return [piece for piece in pieces_of(batch - 1) if piece >= _first_of(batch)]


def _first_of(batch: int) -> int:
    return batch & (batch + 1)
