"""A short life of a store with everything in it, and what it must hold at every moment: the basis of the disk proofs.

The model that says what must be there is that of the search: plain dictionaries that share nothing with the store.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from proof.search.disk import Disk as Model
from triack.base.commit import Commit, MessageRow, OutgoingRow, OutgoingStreamRow, PeerRow, PositionRow, Read
from triack.base.names import StreamId
from triack.queues.packing import pack
from triack.store.store import Store
from triack.tools.sim.disk import Disk, ProcessCrashed

FOLDER = Path("on-the-simulated-disk")
"""A path that is no directory here: creating or reading it would show."""
NODE_ID = b"n" * 16
ORIGIN = b"o" * 16
CHECKPOINT_PAGES = 12
BODY = pack([b"a message of some length"] * 3, 400, 1, 1)[0][0].body


@dataclass(slots=True)
class Life:
    """The commits and starts of a store so far."""

    states: list[Model] = field(default_factory=lambda: [Model(NODE_ID)])
    done: int = 0
    started: list[int] = field(default_factory=list)
    busy: bool = False

    def allowed(self) -> list[Model]:
        """What a start may find after the process ended at this moment."""
        return self.states[self.done : self.done + 1 + self.busy]

    def apply(self, store: Store, commit: Commit) -> None:
        """Give the store a commit, and remember the state that must follow."""
        if len(self.states) == self.done + 1:
            self.states.append(_after(self.states[-1], commit))
        self.busy = True
        store.apply(commit)
        self.busy = False
        self.done += 1


def _after(seen: Model, commit: Commit) -> Model:
    tables: dict[str, Any] = {
        it.name: dict(rows) for it in fields(seen) if isinstance(rows := getattr(seen, it.name), dict)
    }
    after = replace(seen, **tables)
    after.apply(commit)
    return after


def open_store(disk: Disk, page_bytes: int = 1024) -> Store:
    """The store on a disk, with a log so small that it begins again every few commits."""
    return Store(FOLDER, vfs=disk.vfs, page_bytes=page_bytes, checkpoint_pages=CHECKPOINT_PAGES)


@contextmanager
def crashing(disk: Disk, when: Callable[[str], bool]) -> Iterator[None]:
    """The process dies before an effect of which that is true; it need not come to that."""

    def crash(what: str) -> None:
        if when(what):
            raise ProcessCrashed(what)

    disk.on_effect = crash
    try:
        with suppress(ProcessCrashed):
            yield
    finally:
        disk.on_effect = None


@contextmanager
def losing_power(disk: Disk, effects: int) -> Iterator[None]:
    """Lose power before effect number ``effects`` of the block, or after the block."""
    left = iter([False] * effects + [True])
    try:
        with crashing(disk, lambda _: next(left, False)):
            yield
    finally:
        disk.lose_power()


def see(store: Store, start: int) -> tuple[Model, list[int]]:
    """Start a store and read everything in it. Returns it, but for the number of its starts, and the earlier starts."""
    content = store.load(NODE_ID, start)
    outgoing = Read("outgoing", [row.key for row in content.outgoing])
    messages = Read("messages", [row.key for row in content.messages])
    store.read(outgoing)
    store.read(messages)
    seen = Model(
        NODE_ID,
        serial=content.serial,
        peers=content.peers,
        streams={row.stream: row for row in content.streams},
        outgoing={
            row.key: OutgoingRow(row.key, row.messages, row.reach_by_ms, outgoing.bodies[row.key])
            for row in content.outgoing
        },
        queues=dict(content.queues),
        messages={
            row.key: MessageRow(
                *(row.key, row.origin, row.stream, row.sequence, row.number),
                (messages.bodies[row.key],),
                row.delivery,
            )
            for row in content.messages
        },
        progress={row.key: row.progress for row in content.messages if row.progress is not None},
        positions={StreamId(row.origin, row.stream): row for row in content.positions},
        state=content.state,
    )
    return seen, list(content.starts)


def commits() -> Iterator[Commit]:
    """Every kind of row, written, replaced and deleted; some commits large, most small."""
    yield Commit(
        queues=[(1, "orders"), (2, "dead-letter")],
        streams={1: OutgoingStreamRow(1, "udp://b:1", "orders", 2, 1, 2)},
        outgoing=[OutgoingRow(key, 1, 0, BODY[:20]) for key in range(1, 31)],
        peers={ORIGIN: PeerRow(ORIGIN, 99, 7)},
        state={"reader": b"0"},
        serial=1,
    )
    for number in range(1, 7):
        yield Commit(
            messages=[MessageRow(number, ORIGIN, 1, 1, number, (BODY[: 40 + number],))],
            positions={StreamId(ORIGIN, 1): PositionRow(ORIGIN, 1, 2, "orders", 1, number, b"")},
            serial=1 + number,
        )
    yield Commit(progress={2: b"half"}, outgoing_deletes=[(1, 2), (9, 30)], message_deletes=[(1, 1)], serial=8)
    yield Commit(
        messages=[MessageRow(number, ORIGIN, 1, 1, number, (BODY * 3,)) for number in range(7, 11)],
        positions={StreamId(ORIGIN, 1): PositionRow(ORIGIN, 1, 2, "orders", 1, 10, b"f" * 40)},
        peers={ORIGIN: PeerRow(ORIGIN, 99, 8)},
        serial=9,
    )
    for number in range(3):
        yield Commit(state={"reader": b"%d" % number, "other": None if number else b"x"}, serial=10 + number)
    yield Commit(
        message_deletes=[(2, 8)],
        streams={stream: OutgoingStreamRow(stream, "udp://b:1", "orders", 2, 1, 9) for stream in (1, 2)},
        serial=13,
    )
    yield Commit(
        stream_deletes=[2],
        position_deletes=[StreamId(ORIGIN, 1)],
        positions={StreamId(ORIGIN, 0): PositionRow(ORIGIN, 0, 2, "", 1, 0, b"")},
        serial=14,
    )


def _beyond_the_log(page_bytes: int) -> Commit:
    body = BODY * (4 * CHECKPOINT_PAGES * page_bytes // len(BODY))
    return Commit(messages=[MessageRow(11, ORIGIN, 1, 1, 11, (body,))])


def reference(
    disk: Disk,
    life: Life,
    end: Callable[[Store], None],
    *,
    page_bytes: int = 1024,
    opened: Callable[[Store], None] | None = None,
) -> None:
    """Three starts of a store: the first ends orderly, the second by being killed."""
    todo = list(commits())
    todo.insert(9, _beyond_the_log(page_bytes))
    for number, part in enumerate((todo[:6], todo[6:11], todo[11:])):
        store = open_store(disk, page_bytes)
        if opened is not None:
            opened(store)
        store.load(NODE_ID, 100 + number)
        life.started.append(100 + number)
        for commit in part:
            life.apply(store, commit)
        if number == 0:
            store.close()
        elif number == 1:
            disk.kill()
        else:
            end(store)
