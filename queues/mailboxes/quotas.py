"""Quotas of a node and their use: of one queue, of one peer, and of all.

Pure accounting; the caller decides what happens at a limit. A full quota stays full until a quarter of its limit is
free again, so that senders do not stop and start with every message.
"""

from collections.abc import Callable

from triack.queues.node_settings import Quota

NO_LIMIT = 2**62
"""More than any disk has."""

Payer = str | bytes
"""Payer for what a node sends: the name of the peer that has proved to be it, or else the node's own id."""


class Level:
    """A quantity and its limit. It is full from that limit on, until a quarter of it is free again."""

    __slots__ = ("is_full", "limit", "value")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.value = 0
        self.is_full = False

    def add(self, amount: int) -> None:
        """Add an amount, which may be negative."""
        self.value += amount
        if self.value >= self.limit:
            self.is_full = True
        elif self.value <= self.limit - self.limit // 4:
            self.is_full = False

    def set_limit(self, limit: int) -> None:
        """Set another limit, as if it had been in force from the start."""
        self.limit = limit
        self.is_full = False
        self.add(0)

    def takes(self, amount: int) -> bool:
        """Whether it is not full, and this amount would not make it full."""
        return not self.is_full and self.value + amount < self.limit


class Fill:
    """Use of a queue's quota, including messages that wait for their commit, and unfinished ones.

    ``is_told``: whether the operator was notified that the queue is full.
    """

    __slots__ = ("bytes", "is_told", "messages")

    def __init__(self, quota: Quota) -> None:
        self.messages = Level(quota.messages)
        self.bytes = Level(quota.size_bytes)
        self.is_told = False

    def set_quota(self, quota: Quota) -> None:
        """Set another quota; what is in the queue stays there."""
        self.messages.set_limit(quota.messages)
        self.bytes.set_limit(quota.size_bytes)

    @property
    def is_full(self) -> bool:
        """Whether the queue has reached its quota, and a quarter of it has not been free since."""
        return self.messages.is_full or self.bytes.is_full

    def takes(self, messages: int, size_bytes: int) -> bool:
        """Whether it is not full, and these amounts would not make it full."""
        return self.messages.takes(messages) and self.bytes.takes(size_bytes)

    def fits(self, messages: int, size_bytes: int) -> bool:
        """Whether these amounts would not exceed its quota."""
        return (
            self.messages.value + messages <= self.messages.limit and self.bytes.value + size_bytes <= self.bytes.limit
        )

    def is_full_with(self, messages: int) -> bool:
        """Whether it accepts no more, given the number of accepted messages that are in no packet yet."""
        return self.is_full or self.messages.value + messages >= self.messages.limit


PayerOf = Callable[[bytes], Payer]


class Account:
    """Bytes of one kind, or a number of things, by the peer that they come from.

    Each peer has a limit, and the node itself may have half of the limit of all. When half of the limit of all is used,
    no peer may have more than its equal share of that half: a peer that has little is never stopped by those that have
    much.

    Each item names the node that it comes from. The peer that has proved to be that node pays, however many nodes it
    claims to be; a node that no peer has proved to be pays for itself. The payer keeps the charge until the item goes
    or ``handle_proved`` moves it.

    Args:
        payer_of: the payer for a node; by default the node itself.
    """

    __slots__ = ("_all_bytes", "_charged", "_levels", "_payer_of", "_peer_bytes", "own", "total_bytes")

    def __init__(self, peer_bytes: int, all_bytes: int, payer_of: PayerOf | None = None) -> None:
        self._peer_bytes = min(peer_bytes, all_bytes)
        self._all_bytes = all_bytes
        self._payer_of = payer_of
        self._levels: dict[Payer, Level] = {}
        # By node: its payer, and the amount.
        self._charged: dict[bytes, tuple[Payer, int]] = {}
        self.own = b""
        self.total_bytes = 0

    def _payer(self, node_id: bytes) -> Payer:
        charged = self._charged.get(node_id)
        if charged is not None:
            return charged[0]
        return node_id if self._payer_of is None else self._payer_of(node_id)

    def _level(self, node_id: bytes) -> Level | None:
        # Only what is charged has a level.
        return self._levels.get(self._payer(node_id)) if self._levels else None

    def of(self, node_id: bytes) -> int:
        """The total of the peer that pays for a node."""
        level = self._level(node_id)
        return 0 if level is None else level.value

    def add(self, node_id: bytes, size_bytes: int) -> None:
        """Charge an amount, which may be negative."""
        known = node_id in self._charged
        if known:
            payer, value = self._charged[node_id]
        else:
            payer, value = (node_id if self._payer_of is None else self._payer_of(node_id)), 0
        value += size_bytes
        if value:
            self._charged[node_id] = payer, value
        elif known:
            del self._charged[node_id]
        if payer not in self._levels:
            self._levels[payer] = Level(self._limit_of(payer))
        level = self._levels[payer]
        level.add(size_bytes)
        if not level.value:
            del self._levels[payer]
        self.total_bytes += size_bytes

    def _limit_of(self, payer: Payer) -> int:
        return (self._all_bytes // 2 if payer == self.own else self._peer_bytes) or 1

    def set_limits(self, peer_bytes: int, all_bytes: int) -> None:
        """Set other limits; everything charged stays charged."""
        self._peer_bytes = min(peer_bytes, all_bytes)
        self._all_bytes = all_bytes
        for payer, level in self._levels.items():
            level.set_limit(self._limit_of(payer))

    def handle_proved(self, node_id: bytes) -> None:
        """A peer has proved to be a node: move the node's charges to it."""
        if node_id in self._charged:
            _, value = self._charged[node_id]
            self.add(node_id, -value)
            self.add(node_id, value)

    def takes(self, node_id: bytes, size_bytes: int) -> bool:
        """Whether a peer is below its limits, and would still be with this amount."""
        level = self._level(node_id) if self._levels else None
        if level is None:
            return size_bytes < self._peer_bytes and self.total_bytes + size_bytes < self._all_bytes // 2
        return level.takes(size_bytes) and self.total_bytes + size_bytes < self._all_bytes // 2

    def is_full(self, node_id: bytes) -> bool:
        """Whether a peer may have no more."""
        level = self._level(node_id)
        if level is None:
            return False
        return level.is_full or self._is_crowded(level, self._all_bytes // 2)

    def has_share(self, node_id: bytes) -> bool:
        """Whether a peer has reached the limit of one peer, whatever the others have."""
        level = self._level(node_id)
        return level is not None and level.is_full

    def has_enough(self, node_id: bytes, more: int = 0) -> bool:
        """Whether a peer may have no more of things counted singly: there is room as soon as one has gone.

        The peer alone may exceed its limit by ``more``, however many others there are.
        """
        level = self._level(node_id)
        crowded = not more and level is not None and self._is_crowded(level, self._all_bytes // 2)
        return crowded or (level is not None and level.value >= level.limit + more)

    def is_over(self, node_id: bytes) -> bool:
        """Whether a peer that was asked to stop has twice its limit."""
        level = self._level(node_id)
        return level is not None and (level.value >= 2 * level.limit or self._is_crowded(level, self._all_bytes))

    def stays_within(self, node_id: bytes, size_bytes: int) -> bool:
        """Whether a peer that was asked to stop would stay below twice its limit with this amount."""
        level = self._level(node_id)
        value, limit = (0, self._peer_bytes) if level is None else (level.value, level.limit)
        return value + size_bytes < 2 * limit and self.total_bytes + size_bytes < self._all_bytes

    def _is_crowded(self, level: Level, all_bytes: int) -> bool:
        return self.total_bytes >= all_bytes and level.value * len(self._levels) >= all_bytes

    def check_invariants(self) -> None:
        """Assert that the charges of nodes equal those of their payers, and that none is below zero."""
        if not self._levels and not self._charged and not self.total_bytes:
            return
        paid: dict[Payer, int] = {}
        for payer, value in self._charged.values():
            assert value > 0
            paid[payer] = paid.get(payer, 0) + value
        assert paid == {payer: level.value for payer, level in self._levels.items()}
        assert self.total_bytes == sum(paid.values())
