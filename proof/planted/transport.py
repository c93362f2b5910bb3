"""Mistakes of ``transport/``: nonces, and what comes again."""

from proof.planted.bug import Bugs, Patch
from proof.planted.stories import REPLAYED
from triack.base.datagram import Kind
from triack.transport.data_keys import SealingKeys
from triack.transport.replay_window import WINDOW, ReplayWindow

__all__ = ["BUGS"]

BUGS = Bugs()
EVERY = 50
"""One datagram in this many has the counter of the one before it."""


@BUGS.by_seeds("a nonce is used twice")
def _nonce(patch: Patch) -> None:
    seal = SealingKeys.seal

    def careless(
        self: SealingKeys, kind: Kind, connection_id: int, counter: int, payloads: list[bytes], now_ns: int
    ) -> list[bytes]:
        self._last = -1
        return seal(self, kind, connection_id, counter - (counter % EVERY == 0), payloads, now_ns)

    patch.setattr(SealingKeys, "seal", careless)


@BUGS.by_search("the replay window is off by one", REPLAYED, "wrong of")
def _window(patch: Patch) -> None:
    def has(self: ReplayWindow, counter: int) -> bool:
        behind = self.newest - counter
        return behind > 0 and (behind >= WINDOW or not self._missing >> behind & 1)

    patch.setattr(ReplayWindow, "has", has)
