"""What a bridge to a broker has done, for the operator of its node; ``triack.bridges`` runs it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from triack.base.reasons import Trouble
from triack.stats.troubles import TroubleStats, row_of


@dataclass(frozen=True, slots=True)
class BridgeStats:
    """One bridge. Its counts begin with the process.

    Attributes:
        name: of the bridge.
        broker: its broker, as the settings have it.
        is_up: whether it is connected.
        since_s: for how long that has been so.
        taken: messages that came from the broker and are on the disk of this node.
        given: messages that the broker has acknowledged.
        waiting: messages that came and are not on the disk yet, and messages that the broker has not acknowledged.
        repeated: messages taken that the broker marked as sent again; those without a key may be stored twice.
        refused: messages of either side that can never be passed on; they are in the queue ``NAME.refused``.
        refusals: how many of them for each reason (``BridgeReason``).
        dropped: messages of QoS 0 that found no room.
        waits_for: why nothing is taken from the broker or given to it now; None if nothing prevents it.
        last_error: the newest of all failures; None before the first.
    """

    name: str
    broker: str
    is_up: bool
    since_s: float
    taken: int = 0
    given: int = 0
    waiting: int = 0
    repeated: int = 0
    refused: int = 0
    dropped: int = 0
    waits_for: str | None = None
    last_error: str | None = None
    refusals: dict[str, int] = field(default_factory=dict)


def find_bridge_troubles(bridges: Iterable[BridgeStats]) -> Iterator[TroubleStats]:
    """What stops bridges now."""
    for it in bridges:
        if not it.is_up and it.last_error is not None:
            yield row_of(Trouble.BROKER_AWAY, it.name, it.last_error, it.since_s)
        elif it.waits_for is not None:
            yield row_of(Trouble.BRIDGE_WAITS, it.name, it.waits_for)
