"""Received datagrams that the node has not taken yet: bounded in number and bytes, shared by sources.

Anyone may send from an address, so ``Inbox.source_of``, which its owner sets, finds the source of a datagram. When
there is no room for another datagram, the source with most of them loses one.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable, Iterable

from triack.base.datagram import one_of_each_connection
from triack.base.errors import TransportError
from triack.base.reasons import DropReason
from triack.base.units import in_ns
from triack.transport.turns import Burst, Received, Turns
from triack.transport.wakeup import Wakeup

FEW = 8
"""Datagrams that an owner may take at once, in place of the task that takes bursts: with them it saves a turn of the
loop, and beside more of them a turn is nothing."""
COALESCE_MAX = 64
"""Datagrams that a burst may gather while more keep coming; that many rounds of the loop take less than a
millisecond."""
BACKLOG_MAX = 8_192
"""Datagrams that wait for the node: the windows of more than a hundred peers."""
BACKLOG_BYTES_MAX = 64 * 1024 * 1024
"""The same in bytes, for datagrams as large as TCP connections carry."""
STREAM_MAX = 1_024
"""Datagrams of one source that are read from its TCP connections before those must wait, so that others have room."""
STREAM_BYTES_MAX = 4 * 1024 * 1024
"""The same in bytes: a window of the largest datagrams."""


Trouble = Callable[[str, str], None]
"""Accepts an address that cannot be reached for now, and why."""
SourceOf = Callable[[bytes], Hashable]
"""Returns the source of a datagram, as far as its connection id tells; None: unknown."""


def tell_nobody(_address: str, _cause: str) -> None:
    """Ignore trouble, before another handler is set."""


def same_for_all(_datagram: bytes) -> Hashable:
    """The source of every datagram before ``source_of`` is set."""
    return None


def _loop_ns() -> int:
    """The clock before another one is set."""
    return in_ns(asyncio.get_running_loop().time())


class Inbox:
    """Passes datagrams from the transport's reader to the caller of ``receive``.

    A datagram transport offers, and the excess is dropped; a TCP connection offers and then waits for room.

    Attributes:
        on_arrived: called when there is little to take; its owner then calls ``take_few`` or ``hand_over``, later.
        on_read: the same, but the owner may do so in the call: a reader calls it in its own turn of the loop.
        source_of: the source of a datagram.
        now_ns: the clock.
        turns: what has arrived.
    """

    __slots__ = (
        "_address",
        "_arrived",
        "_awaits_room",
        "_closed",
        "_drops",
        "_room",
        "now_ns",
        "on_arrived",
        "on_read",
        "source_of",
        "turns",
    )

    def __init__(self, address: str, drops: Counter[DropReason]) -> None:
        self._address = address
        self._drops = drops
        self.turns = Turns()
        self._closed = False
        self._arrived = Wakeup()
        self._room = asyncio.Event()
        self._awaits_room = False
        self.source_of: SourceOf = same_for_all
        self.now_ns: Callable[[], int] = _loop_ns
        self.on_arrived: Callable[[], None] = self.hand_over
        self.on_read: Callable[[], None] = self.hand_over

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another datagram, unless one is dropped."""
        return self.turns.count >= BACKLOG_MAX or self.turns.held_bytes >= BACKLOG_BYTES_MAX

    def offer(self, data: bytes, sender: str) -> None:
        """Add a datagram. Count one as dropped if the backlog is full, or if it is empty and so has no meaning."""
        if self._add(data, sender):
            self._tell()

    def offer_burst(self, datagrams: list[bytes], sender: str) -> None:
        """Add datagrams that came together, as ``offer`` does one by one; call ``handle_read`` afterwards."""
        if len(datagrams) == 1:
            self._add(datagrams[0], sender)
            return
        size_bytes, turns, source = sum(map(len, datagrams)), self.turns, self.source_of(datagrams[0])
        has_room = turns.count + len(datagrams) <= BACKLOG_MAX and turns.held_bytes + size_bytes <= BACKLOG_BYTES_MAX
        if has_room and all(datagrams) and self._all_of(source, datagrams):
            turns.add(source, [Received(data, sender) for data in datagrams], size_bytes)
        else:
            for data in datagrams:
                self._add(data, sender)

    def handle_read(self) -> None:
        """All that one turn of the loop has read was offered."""
        if self.turns.count > FEW:
            self.hand_over()
        elif self.turns.count:
            self.on_read()

    def _all_of(self, source: Hashable, datagrams: list[bytes]) -> bool:
        return all(self.source_of(data) == source for data in one_of_each_connection(datagrams))

    def _add(self, data: bytes, sender: str) -> bool:
        if not data:
            self._drops[DropReason.EMPTY] += 1
            return False
        turns, source = self.turns, self.source_of(data)
        if turns.count and self.is_full:
            self._drops[DropReason.RECEIVE_OVERFLOW] += 1
            if not turns.drop_longest(than=source):
                return False
        turns.add(source, [Received(data, sender)], len(data))
        return True

    def _tell(self) -> None:
        if self.turns.count > FEW:
            self.hand_over()
        else:
            self.on_arrived()

    def hand_over(self) -> None:
        """Let the caller of ``take`` have what has arrived."""
        self._arrived.set()

    def take_few(self) -> Burst | None:
        """What has arrived, if it is little and the caller of ``take`` waits, and may wait on; None: ``hand_over``."""
        if self.turns.count > FEW or not self._arrived.is_awaited:
            return None
        burst = self.turns.take(self.now_ns())
        if self.turns.count:
            self.hand_over()
        if self._awaits_room:
            self._make_room()
        return burst

    def _make_room(self) -> None:
        self._awaits_room = False
        self._room.set()

    async def offer_all(self, datagrams: Iterable[bytes], sender: str) -> None:
        """Add all datagrams, waiting for room as often as needed; for TCP connections, which lose nothing."""
        for data in datagrams:
            source = self.source_of(data)
            while not self._has_stream_room(source) and not self._closed:
                self._room.clear()
                self._awaits_room = True
                await self._room.wait()
            if not data:
                self._drops[DropReason.EMPTY] += 1
            else:
                self.turns.add(source, [Received(data, sender)], len(data))
                self._tell()

    def _has_stream_room(self, source: Hashable) -> bool:
        """Whether a TCP connection may bring one more: always if its source has nothing waiting."""
        waiting, held_bytes = self.turns.waiting_of(source)
        return not waiting or not (self.is_full or waiting >= STREAM_MAX or held_bytes >= STREAM_BYTES_MAX)

    def path_gone(self, sender: str) -> None:
        """Report that nothing more comes from ``sender``; this is never dropped."""
        self.turns.add_behind(Received(b"", sender))
        self._arrived.set()

    async def take(self, *, coalesce: bool = False) -> Burst:
        """Wait until there are datagrams, and return those whose turn it is: see ``Turns``.

        Other tasks of the loop always run first, so that a caller in a loop does not work through a backlog without a
        pause. Cancelling the wait loses nothing.

        Args:
            coalesce: first let the rest of a burst come in. asyncio reads one UDP datagram in a round of the loop, and
                the handler of a burst does much of its work once for all of it.

        Raises:
            TransportError: the endpoint is closed.
        """
        busy_ns = await self._let_others() if self.turns.count else 0
        while True:
            while not self.turns.count and not self._closed:
                self._arrived.clear()
                await self._arrived.wait()
            if coalesce:
                await self._coalesce()
            if self._closed:
                raise TransportError(f"cannot receive on {self._address}: the endpoint is closed")
            if burst := self.turns.take(self.now_ns(), busy_ns):
                if self._awaits_room:
                    self._make_room()
                return burst
            busy_ns = await self._let_others()

    async def _let_others(self) -> int:
        """Let other tasks of the loop run. Returns how long they took."""
        began_ns = self.now_ns()
        await asyncio.sleep(0)
        return self.now_ns() - began_ns

    async def _coalesce(self) -> None:
        """Wait as long as every round of the loop brings another datagram."""
        before = 0
        while before < self.turns.count < COALESCE_MAX:
            before = self.turns.count
            await asyncio.sleep(0)

    def close(self) -> None:
        """Wake all waiting callers; forget the datagrams that were not taken."""
        self._closed = True
        self.turns.clear()
        self._arrived.set()
        self._room.set()
