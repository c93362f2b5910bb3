"""The numbers by which messages are named."""

from tests.queues.outgoing import make_outgoing
from triack.queues.streams.ordinals import ORDINALS_BLOCK, Ordinals


def test_no_two_starts_and_no_two_queues_share_one() -> None:
    """Each outgoing queue takes a block; what another start gives out is far from it."""
    first, second = Ordinals(1), Ordinals(2)
    given = []
    for ordinals in (first, first, second):
        outgoing = make_outgoing()
        outgoing.submit_many([b""] * 1_000, 0)
        ordinals.number(outgoing)
        given.append(outgoing.ordinal_of(outgoing.submit(b"", 0)))
    assert given[1] == given[0] + ORDINALS_BLOCK
    assert given[2] - given[1] > 2**39
