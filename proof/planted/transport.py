"""Mistakes of ``transport/``: nonces, and what is repeated."""

from typing import Any

from proof.planted.bug import Bugs
from proof.planted.stories import REPLAYED
from triack.base.datagram import Kind
from triack.transport.data_keys import SealingKeys
from triack.transport.replay_window import WINDOW, ReplayWindow

BUGS = Bugs()
EVERY = 50


@BUGS.by_seeds("a nonce is used twice", SealingKeys, "seal")
def _nonce(
    seal: Any, self: SealingKeys, kind: Kind, connection_id: int, counter: int, payloads: list[bytes], now_ns: int
) -> list[bytes]:
    self._last = -1
    return seal(self, kind, connection_id, counter - (counter % EVERY == 0), payloads, now_ns)


@BUGS.by_search("the replay window is off by one", REPLAYED, "wrong of", ReplayWindow, "has")
def _window(_right: Any, self: ReplayWindow, counter: int) -> bool:
    behind = self.newest - counter
    return behind > 0 and (behind >= WINDOW or not self.missing >> behind & 1)
