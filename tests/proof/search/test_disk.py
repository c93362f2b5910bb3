"""The disk that the search uses, held against the store that ships: the same commits, the same content."""

from dataclasses import replace
from pathlib import Path
from random import Random
from shutil import copytree

import pytest

from proof.search.disk import Disk
from triack.base.commit import (
    Commit,
    MessageRow,
    OutgoingRow,
    OutgoingStreamRow,
    PeerRow,
    PositionRow,
    Read,
    StoreContent,
    key_of,
)
from triack.base.delivery import Delivery
from triack.base.names import StreamId
from triack.queues.packing import pack
from triack.store.store import Store

NODE = b"n" * 16
NODES = [bytes([number]) * 16 for number in range(3)]
BODIES = [pack([b"x" * size_bytes], 2_000, 1, 1)[0][0].body for size_bytes in (1, 40, 1_500)]
STARTS, COMMITS = 6, 25


class Life:
    """Commits as an engine makes them, drawn by chance: keys of packets are new, deletions are ranges."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._serial = 0
        self._next_key = 1
        self._queues = 0

    def commit(self) -> Commit:
        """The next one."""
        chance = self._random
        self._serial += 1
        commit = Commit(serial=self._serial if chance.random() < 0.9 else 0)
        for _ in range(chance.randrange(4)):
            chance.choice([self._send, self._arrive, self._delete, self._remember])(commit)
        return commit

    def _keys(self) -> list[int]:
        first, self._next_key = self._next_key, self._next_key + self._random.randrange(1, 4)
        return [key_of(self._random.choice([1, 2]), number) for number in range(first, self._next_key)]

    def _send(self, commit: Commit) -> None:
        stream = self._random.choice([1, 2])
        commit.streams[stream] = OutgoingStreamRow(stream, "udp://b:1", "q", Delivery.RECOVERABLE, 1, self._next_key)
        commit.outgoing += [OutgoingRow(key, 1, 0, self._random.choice(BODIES)) for key in self._keys()]

    def _arrive(self, commit: Commit) -> None:
        self._queues += 1
        origin, stream = self._random.choice(NODES), self._random.choice([1, 2])
        commit.queues.append((self._queues, f"q{self._queues}"))
        keys = self._keys()
        commit.messages += [MessageRow(key, origin, stream, 1, key, (self._random.choice(BODIES),)) for key in keys]
        commit.progress[keys[0]] = self._random.randbytes(3)
        number = self._random.randrange(100)
        commit.positions[StreamId(origin, stream)] = PositionRow(
            origin, stream, Delivery.TRANSACTIONAL, "q", 1, number, b""
        )

    def _delete(self, commit: Commit) -> None:
        group, first = self._random.choice([1, 2]), self._random.randrange(1, self._next_key + 1)
        span = (key_of(group, first), key_of(group, first + self._random.randrange(4)))
        self._random.choice([commit.outgoing_deletes, commit.message_deletes]).append(span)

    def _remember(self, commit: Commit) -> None:
        commit.state[self._random.choice("abc")] = self._random.choice([None, b"1", b"2"])
        peer = self._random.choice(NODES)
        commit.peers[peer] = PeerRow(peer, 1, self._serial)


def bodies(disk: Disk | Store, content: StoreContent) -> list[dict[int, bytes]]:
    """What all the rows hold, and that one which is not there holds nothing."""
    reads = [
        Read("outgoing", [*(row.key for row in content.outgoing), key_of(9, 9)]),
        Read("messages", [*(row.key for row in content.messages), key_of(9, 9)]),
    ]
    for read in reads:
        disk.read(read)
    return [read.bodies for read in reads]


@pytest.mark.parametrize("seed", range(4))
def test_it_keeps_what_the_store_keeps(tmp_path: Path, seed: int) -> None:
    """Start after start, whether the last one ended in good order or not."""
    life, disk, sizes = Life(seed), Disk(NODE), []
    for start in range(1, STARTS + 1):
        folder = tmp_path / f"{start}"
        store = Store(folder, checkpoint_pages=8)
        try:
            # How much room there is, and what is in hand, only a real disk can say.
            content = replace(store.load(NODE, start), room_bytes=None, disk_bytes=None, in_hand=None)
            outgoing, messages, transit = list(content.outgoing), list(content.messages), list(content.transit)
            content = replace(content, outgoing=outgoing, messages=messages, transit=transit)
            assert disk.load(start) == content
            assert bodies(disk, content) == bodies(store, content)
            sizes.append(len(outgoing) + len(messages) + len(content.peers))
            for _ in range(COMMITS):
                commit = life.commit()
                disk.apply(commit)
                store.apply(commit)
            if start % 2:
                # As a process leaves it that is killed here.
                copytree(folder, tmp_path / f"{start + 1}")
        finally:
            store.close()
        if not start % 2:
            folder.rename(tmp_path / f"{start + 1}")
    assert max(sizes) > COMMITS
