"""How much may lie in a node, and how much does: of one queue, of one peer, and of all of them.

Pure accounting; who asks decides what happens at a limit. What is full stays so until a quarter of its limit is free
again, so that nobody stops and goes with every message.
"""

from collections.abc import Callable

from triack.queues.node_settings import Quota

__all__ = ["NO_LIMIT", "Account", "Fill", "Level", "Payer", "PayerOf"]

NO_LIMIT = 2**62
"""More than any disk has."""

Payer = str | bytes
"""Who is charged for what a node sends: the peer that has proved to be it, by name, or the node itself by its id."""


class Level:
    """A quantity and its limit.

    Attributes:
        value: the quantity.
        limit: at which it is full.
        is_full: since it was at its limit, until a quarter of that is free.
    """

    __slots__ = ("is_full", "limit", "value")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.value = 0
        self.is_full = False

    def add(self, amount: int) -> None:
        """More, or less."""
        self.value += amount
        if self.value >= self.limit:
            self.is_full = True
        elif self.value <= self.limit - self.limit // 4:
            self.is_full = False

    def takes(self, amount: int) -> bool:
        """Whether it is not full, and would not be with so much more."""
        return not self.is_full and self.value + amount < self.limit


class Fill:
    """What counts against the quota of a queue: also what waits for its commit, and unfinished messages.

    Attributes:
        messages: those that are not acknowledged.
        bytes: of the packets that hold them.
        is_told: whether the operator was told that the queue is full.
    """

    __slots__ = ("bytes", "is_told", "messages")

    def __init__(self, quota: Quota) -> None:
        self.messages = Level(quota.messages)
        self.bytes = Level(quota.size_bytes)
        self.is_told = False

    @property
    def is_full(self) -> bool:
        """Whether the queue has reached its quota, or comes from there."""
        return self.messages.is_full or self.bytes.is_full

    def takes(self, messages: int, size_bytes: int) -> bool:
        """Whether it is not full, and would not be with so much more."""
        return self.messages.takes(messages) and self.bytes.takes(size_bytes)

    def fits(self, messages: int, size_bytes: int) -> bool:
        """Whether it would not be above its quota with so much more."""
        return (
            self.messages.value + messages <= self.messages.limit and self.bytes.value + size_bytes <= self.bytes.limit
        )

    def is_full_with(self, messages: int) -> bool:
        """Whether it takes no more, beside so many messages that were accepted and are in no packet yet."""
        return self.is_full or self.messages.value + messages >= self.messages.limit


PayerOf = Callable[[bytes], Payer]


class Account:
    """Bytes of one kind, or a number of things, by the peer that they come from.

    One peer may have so many, and the node itself half of what is for all. When that half is used, none may have more
    than its share of it: whoever has little is never stopped by those who have much.

    What comes names the node that it is from. The peer that has proved to be that node pays, however many nodes it
    claims to be; a node that nobody has proved to be pays for itself. What was charged stays charged to who paid
    for it, until it goes or ``handle_proved`` moves it.

    Args:
        peer_bytes: limit of one peer.
        all_bytes: limit of all.
        payer_of: who pays for a node; by default the node itself.
    """

    __slots__ = ("_all_bytes", "_charged", "_levels", "_payer_of", "_peer_bytes", "own", "total_bytes")

    def __init__(self, peer_bytes: int, all_bytes: int, payer_of: PayerOf | None = None) -> None:
        self._peer_bytes = min(peer_bytes, all_bytes)
        self._all_bytes = all_bytes
        self._payer_of = payer_of
        self._levels: dict[Payer, Level] = {}
        # By node: who pays, and how much.
        self._charged: dict[bytes, tuple[Payer, int]] = {}
        self.own = b""
        self.total_bytes = 0

    def _payer(self, node_id: bytes) -> Payer:
        charged = self._charged.get(node_id)
        if charged is not None:
            return charged[0]
        return node_id if self._payer_of is None else self._payer_of(node_id)

    def _level(self, node_id: bytes) -> Level | None:
        return self._levels.get(self._payer(node_id))

    def of(self, node_id: bytes) -> int:
        """What the peer has that pays for a node."""
        level = self._level(node_id)
        return 0 if level is None else level.value

    def add(self, node_id: bytes, size_bytes: int) -> None:
        """More, or less."""
        payer = self._payer(node_id)
        value = size_bytes + (self._charged[node_id][1] if node_id in self._charged else 0)
        if value:
            self._charged[node_id] = payer, value
        else:
            self._charged.pop(node_id, None)
        self._charge(payer, size_bytes)
        self.total_bytes += size_bytes

    def _charge(self, payer: Payer, size_bytes: int) -> None:
        level = self._levels.get(payer)
        if level is None:
            limit = self._all_bytes // 2 if payer == self.own else self._peer_bytes
            level = self._levels[payer] = Level(max(1, limit))
        level.add(size_bytes)
        if not level.value:
            del self._levels[payer]

    def handle_proved(self, node_id: bytes) -> None:
        """Another peer than before has proved to be a node: it pays for what is there of it."""
        charged = self._charged.pop(node_id, None)
        if charged is not None:
            before, value = charged
            self._charge(before, -value)
            payer = self._payer(node_id)
            self._charged[node_id] = payer, value
            self._charge(payer, value)

    def takes(self, node_id: bytes, size_bytes: int) -> bool:
        """Whether a peer may have more, and still could with so much more."""
        level = self._level(node_id)
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
        """Whether a peer has reached what one peer may have, whatever the others have."""
        level = self._level(node_id)
        return level is not None and level.is_full

    def has_enough(self, node_id: bytes) -> bool:
        """The same, of things that come and go one by one: there is room for one as soon as one has gone."""
        level = self._level(node_id)
        return level is not None and (level.value >= level.limit or self._is_crowded(level, self._all_bytes // 2))

    def is_over(self, node_id: bytes) -> bool:
        """Whether a peer has twice as much as it may, having been told."""
        level = self._level(node_id)
        return level is not None and (level.value >= 2 * level.limit or self._is_crowded(level, self._all_bytes))

    def stays_within(self, node_id: bytes, size_bytes: int) -> bool:
        """Whether a peer that was told would still not have twice as much as it may with so much more."""
        level = self._level(node_id)
        value, limit = (0, self._peer_bytes) if level is None else (level.value, level.limit)
        return value + size_bytes < 2 * limit and self.total_bytes + size_bytes < self._all_bytes

    def _is_crowded(self, level: Level, all_bytes: int) -> bool:
        return self.total_bytes >= all_bytes and level.value * len(self._levels) >= all_bytes
