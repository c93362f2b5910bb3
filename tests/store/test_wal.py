"""The log that a process left behind: synced commits are found, unsynced ones are no damage, damage is named.

The store is on the simulated disk, where power can be lost and each call can fail.
"""

from collections.abc import Callable
from random import Random

import pytest

from proof.disk.reference import FOLDER, NODE_ID, crashing, open_store, see
from tests.proof.disk.lives import DATABASE, LOG, started, state
from triack.base.commit import Commit, MessageRow, PeerRow
from triack.base.errors import StoreDamaged, StoreError, StoreFailed
from triack.store.folder import STORE_FILE
from triack.store.store import Store
from triack.tools.sim.disk import Disk, Kept, ProcessCrashed


def test_a_crash_comes_out_of_every_call_of_the_store() -> None:
    """As what it is, and not as an error that somebody could handle."""
    disk = Disk(Random(1))
    store = started(disk, b"a")

    def crash(what: str) -> None:
        raise ProcessCrashed(what)

    disk.on_effect = crash
    with pytest.raises(ProcessCrashed):
        store.apply(Commit(state={"key": b"b"}))
    with pytest.raises((ProcessCrashed, StoreFailed)):
        store.apply(Commit(state={"key": b"c"}))
    disk.on_effect = None
    assert state(disk) == b"a"
    disk.close()


def test_a_sync_that_failed_can_be_survived_twice() -> None:
    """The system shows what never reached the disk; the next process makes it durable before it builds on it."""
    disk = Disk(Random(1))
    store = started(disk, b"a", b"b")
    disk.fail_later("sync", 0, drops=True)
    with pytest.raises(StoreFailed, match=STORE_FILE):
        store.apply(Commit(state={"key": b"c"}))
    disk.kill()
    store = open_store(disk)
    assert see(store, 2)[0].state["key"] == b"c", "the system still shows it"
    disk.lose_power_with([])
    assert state(disk) == b"c", "what a start has seen stays"
    disk.close()


def start_until(disk: Disk, effect: int) -> None:
    """Start the store, and lose power before that effect."""
    left = iter([False] * effect + [True])
    disk.kill()
    with crashing(disk, lambda _: next(left, False)):
        see(open_store(disk), 2)
    disk.lose_power()


@pytest.mark.gate
def test_what_a_start_reads_is_on_the_disk_before_it_writes() -> None:
    """Power is lost at each step of the start that follows a failed sync: never a mixture of old and new."""
    for effect in range(60):
        disk = Disk(Random(effect))
        store = started(disk, *(b"%d" % number for number in range(4)))
        disk.fail_later("sync", 0, drops=True)
        with pytest.raises(StoreFailed):
            store.apply(Commit(state={"key": b"last", "other": b"x"}, serial=9))
        start_until(disk, effect)
        assert state(disk) in (b"3", b"last")
        disk.close()


@pytest.mark.gate
def test_what_belongs_to_an_older_header_stays_until_the_newer_one_is_on_the_disk() -> None:
    """The log begins again, that sync fails, and power is lost at each step of the start that follows."""
    for effect in range(40):
        disk = Disk(Random(effect))
        store, number = started(disk, b"0"), 0

        def fail_on_header(what: str, disk: Disk = disk) -> None:
            last = disk.unsynced[-1] if disk.unsynced else None
            if what == f"sync {LOG}" and last is not None and last.offset == 0 and len(last.data) == 32:
                disk.fail_later("sync", 0, drops=True)

        disk.on_effect = fail_on_header
        with pytest.raises(StoreFailed):  # noqa: PT012 - one of them
            for number in range(1, 100):
                store.apply(Commit(state={"key": b"%d" % number}, serial=number))
        for again in range(4):
            start_until(disk, effect + again)
        assert state(disk) == b"%d" % (number - 1)
        disk.close()


def test_the_head_of_a_frame_that_is_half_old_is_no_commit() -> None:
    """It lies in two sectors, and of an interrupted write the second is left: the mark of an old commit, a new salt."""
    disk, number = Disk(Random(1)), 0
    store = Store(FOLDER, vfs=disk.vfs, page_bytes=512, checkpoint_pages=60)
    store.load(NODE_ID, 1)
    straddling = next(at for at in range(32, 60 * 536, 536) if at % 512 > 488)

    def is_in_it(what: str) -> bool:
        return what == f"sync {LOG}" and straddling in [change.offset for change in disk.unsynced][1:-2]

    with crashing(disk, is_in_it):
        for number in range(1, 100):
            rows = [MessageRow(number, NODE_ID, 1, 1, number, (b"m",))]
            peers = {NODE_ID: PeerRow(NODE_ID, 1, number)}
            store.apply(Commit(state={"key": b"%d" % number}, peers=peers, messages=rows, serial=number))
    assert disk.unsynced[-2].offset > straddling
    disk.lose_power_with([Kept(place) for place in range(1, len(disk.unsynced))])
    disk.damage(LOG, straddling, (9).to_bytes(4) + (14).to_bytes(4))
    assert state(disk) == b"%d" % (number - 1)
    disk.close()


@pytest.mark.gate
def test_a_log_that_ends_within_a_frame_lacks_that_commit_only() -> None:
    """Power was lost while a large commit made it grow; the head of the last frame lies in two sectors."""
    disk = Disk(Random(1))
    store = started(disk, b"a")
    straddling = next(at for at in range(32, 1_000_000, 1_048) if at % 512 > 488)
    with crashing(disk, lambda what: what == f"sync {LOG}"):
        store.apply(Commit(messages=[MessageRow(1, NODE_ID, 1, 1, 1, (b"m" * 60 * 1024,))], state={"key": b"b"}))
    whole = disk.snapshot()
    head = [change.offset for change in disk.unsynced].index(straddling)
    torn = [Kept(head, 0, size) for size in range(1, 24)] + [Kept(head + 1, 0, size) for size in range(1, 1_024, 7)]
    for last in torn:
        disk.restore(whole)
        disk.lose_power_with([*(Kept(place) for place in range(last.place)), last])
        assert state(disk) == b"a"
        assert (len(disk.files()[LOG]) - 32) % 1_048 == 0
    disk.close()


def test_a_failed_checkpoint_ends_the_store() -> None:
    """SQLite would go on: the commit is safe in the log. But this disk is not to be trusted any more."""
    disk = Disk(Random(1))
    store = started(disk)
    disk.on_effect = lambda what: disk.fail_later("sync", 0) if what == f"write {DATABASE}" else None
    with pytest.raises(StoreFailed, match="EIO"):  # noqa: PT012 - one of them
        for number in range(1, 100):
            store.apply(Commit(state={"key": b"%d" % number}, serial=number))
    disk.on_effect = None
    with pytest.raises(StoreFailed, match="EIO"):
        store.apply(Commit(state={"key": b"more"}))
    disk.calm()
    store.close()
    assert state(disk) == b"%d" % number
    disk.close()


def test_the_directory_is_synced_before_anything_is_promised() -> None:
    """SQLite syncs it, and does not look whether that worked; the store does."""
    effects: list[str] = []
    for failing in range(1, 6):
        disk = Disk(Random(1))
        disk.on_effect = effects.append
        disk.fail_later("sync", failing - 1)
        try:
            store = started(disk, b"promised")
        except StoreError:
            disk.close()
            continue
        store.apply(Commit(state={"key": b"promised"}))
        disk.lose_power_with([])
        disk.calm()
        assert state(disk) == b"promised", effects
        disk.close()


def damaged(change: Callable[[Disk], None]) -> str:
    """What a start says after a change to the files of a killed store with four commits."""
    disk = Disk(Random(1))
    started(disk, b"a", b"b", b"c", b"d")
    disk.kill()
    change(disk)
    try:
        return repr(state(disk))
    except StoreDamaged as error:
        return str(error)
    finally:
        disk.close()


def frames(disk: Disk) -> list[int]:
    """The offsets of the frames in the log, without those left from before it began again."""
    content = disk.files()[LOG]
    return [at for at in range(32, len(content), 1048) if content[at + 8 : at + 16] == content[16:24]]


@pytest.mark.parametrize("frame", [-4, -3])
@pytest.mark.parametrize("at", [0, 4, 8, 12, 16, 20, 24, 500, 1_047])
def test_rot_in_the_last_commit_but_one_is_found_wherever_it_is(frame: int, at: int) -> None:
    """One later commit is enough to know that this one was on the disk: in each frame's head, in each page."""

    def flip(disk: Disk) -> None:
        offset = frames(disk)[frame] + at
        disk.damage(LOG, offset, bytes([disk.files()[LOG][offset] ^ 0x40]))

    assert "later commits" in damaged(flip)


def test_rot_in_the_last_commit_looks_as_if_it_had_been_interrupted() -> None:
    """The one thing that cannot be told; the commit before it is there."""
    assert damaged(lambda disk: disk.damage(LOG, frames(disk)[-1] + 100, b"rot")) == repr(b"c")


def test_a_log_without_its_header_is_missed() -> None:
    """Unless all that it held was in the database by then."""
    for size in (32, 512):
        assert "header is not what was written" in damaged(lambda disk, size=size: disk.damage(LOG, 0, bytes(size)))  # type: ignore[misc]
    disk = Disk(Random(1))
    started(disk, b"a", b"b").close()
    assert LOG not in disk.files()
    assert state(disk) == b"b"
    disk.close()


def test_a_commit_that_need_not_be_synced_survives_crashes_only() -> None:
    """A process that dies loses nothing; a loss of power may take what no synced commit has followed."""
    disk = Disk(Random(1))
    store = started(disk, b"a")
    store.apply(Commit(state={"key": b"b"}))
    assert not disk.unsynced
    store.apply(Commit(state={"key": b"c"}, synced=False))
    assert disk.unsynced
    copied = disk.snapshot()
    disk.kill()
    assert state(disk) == b"c"
    disk.kill()
    disk.restore(copied)
    disk.lose_power_with([])
    assert state(disk) == b"b"
    disk.close()


def test_a_synced_commit_takes_those_before_it_along() -> None:
    disk = Disk(Random(1))
    store = started(disk, b"a")
    store.apply(Commit(state={"other": b"kept"}, synced=False))
    store.apply(Commit(state={"key": b"b"}))
    assert not disk.unsynced
    disk.lose_power()
    kept = see(open_store(disk), 2)[0].state
    assert (kept["other"], kept["key"]) == (b"kept", b"b")
    disk.close()


def test_commits_that_need_not_be_synced_may_be_torn_anywhere() -> None:
    """A loss of power leaves all up to some commit, and the synced ones. To a store that syncs all, that is damage."""
    left, damages = set[bytes](), 0
    for seed in range(100):
        disk = Disk(Random(seed))
        store = started(disk, b"a", b"b")
        for value in (b"c", b"d", b"e"):
            store.apply(Commit(state={"key": value}, synced=False))
        disk.lose_power()
        copied = disk.snapshot()
        try:
            state(disk)
        except StoreDamaged:
            damages += 1
        disk.kill()
        disk.restore(copied)
        torn = Store(FOLDER, vfs=disk.vfs, lease_words=disk.leases_of(FOLDER), torn=True)
        left.add(torn.load(NODE_ID, 2).state["key"])
        disk.close()
    assert damages
    assert left == {b"b", b"c", b"d", b"e"}
