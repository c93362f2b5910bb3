"""What the worst neighbour says gets past the node's first look: it can be read, and contradicts nothing by itself."""

from collections.abc import Callable, Iterable
from itertools import islice
from random import Random

import pytest

from proof.worst import KINDS, Liar
from triack.base.delivery import Delivery
from triack.ordering import wire
from triack.queues.packing import check


@pytest.mark.parametrize("say", KINDS, ids=[kind.__name__ for kind in KINDS])
def test_what_it_says_can_be_read(say: Callable[[Liar], Iterable[tuple[Delivery, bytes]]]) -> None:
    """Else it would be dropped at the door, and the proof would show nothing."""
    said = list(islice(say(Liar(Random(1), b"o" * 16, b"v" * 16)), 200))
    assert said or say is Liar.pieces
    for _, content in said:
        packet = wire.decode(content)
        if isinstance(packet, wire.SequenceHeader):
            check(packet.body, may_have_priority=False)
