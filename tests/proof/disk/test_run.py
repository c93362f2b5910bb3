"""The store on the simulated disk: power lost at every moment, every call failing in turn, and every kind of damage.

A part of each is tried; ``triack chaos --disk`` tries all of it.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import apsw
import pytest

from proof.disk import run as store_proofs
from proof.disk.damage import Damage, prove_damage, victim
from proof.disk.errors import prove_errors
from proof.disk.power import PowerProof, moments, prove_power
from proof.disk.reference import FOLDER, NODE_ID, Life, open_store, reference, see
from triack.base.commit import Commit, MessageRow, PeerRow
from triack.base.errors import StoreDamaged, StoreError, StoreFailed, StoreInUse
from triack.store.store import STORE_FILE, Store
from triack.tools.sim.disk import Disk, Kept, ProcessCrashed

DATABASE = f"{FOLDER}/{STORE_FILE}"
LOG = f"{DATABASE}-wal"


def started(disk: Disk, *states: bytes) -> Store:
    """A new store with one commit for each state."""
    store = open_store(disk)
    store.load(b"n" * 16, 1)
    for number, state in enumerate(states, 1):
        store.apply(Commit(state={"key": state}, serial=number))
    return store


def state(disk: Disk) -> bytes | None:
    """What a new process finds."""
    disk.kill()
    return see(open_store(disk), 2)[0].state.get("key")


# ---- power


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page_bytes", "powersafe", "every"), [(1024, True, 7), (512, True, 30), (4096, True, 70), (1024, False, 20)]
)
def test_a_loss_of_power_takes_nothing_that_had_returned(page_bytes: int, powersafe: bool, every: int) -> None:
    """Before every call that changes the disk, with all that a disk may have kept by then; also while it is opened."""
    proof = prove_power(page_bytes=page_bytes, powersafe=powersafe, every=every)
    assert proof.violations == []
    assert proof.states > proof.distinct > 150
    assert proof.interrupted > (0 if every > 7 else 50)


def test_the_reference_life_has_what_makes_it_hard() -> None:
    """It begins a log again, ends orderly and by a kill, and fills more than a checkpoint's worth of pages."""
    effects = [moment.effect for moment in moments(0, 1024)]
    assert effects.count(f"delete {LOG}") == 2
    assert effects.count(f"sync {DATABASE}") > 5
    assert effects.count(f"sync {LOG}") > 15
    assert len(effects) > 250


def test_two_processes_cannot_have_one_store() -> None:
    """Until the first is gone, however it went."""
    disk = Disk(Random(1))
    store = started(disk, b"a")
    with pytest.raises(StoreInUse, match=STORE_FILE):
        open_store(disk)
    store.apply(Commit(state={"key": b"b"}))
    assert state(disk) == b"b"
    disk.close()


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


def test_a_store_that_does_not_sync_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof bites: a commit that had returned is gone with the power."""
    honest = Store._open  # noqa: SLF001

    def careless(store: Store, page_bytes: int) -> None:
        honest(store, page_bytes)
        store._db.pragma("synchronous", "OFF")  # noqa: SLF001

    monkeypatch.setattr(Store, "_open", careless)
    proof = prove_power(first=200, every=1_000)
    assert proof.moments == 1
    assert "allowed states" in proof.violations[0]


# ---- errors


@pytest.mark.slow
def test_an_error_of_the_disk_never_becomes_a_promise() -> None:
    """Each call fails, once and for ever, in every way; then restarts, with and without a loss of power."""
    proof = prove_errors(every=31)
    assert proof.violations == []
    assert proof.runs * 31 >= proof.calls * 32 - 31
    assert proof.ends["StoreFailed"] > proof.ends["unharmed"] > 10


@pytest.mark.slow
def test_a_failed_sync_never_becomes_a_promise_although_the_next_one_works() -> None:
    """Every sync in turn drops what it should have written, and the system goes on showing it."""
    proof = prove_errors(kinds=["drop"], effect="sync", every=2)
    assert proof.violations == []
    assert proof.calls > 30


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


def test_a_store_that_goes_on_after_a_failure_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof bites: whoever forgets that a write failed takes the next one."""

    @contextmanager
    def forgetful(_store: Store, operation: str) -> Iterator[None]:
        try:
            yield
        except apsw.Error as cause:
            raise StoreFailed(operation) from cause

    monkeypatch.setattr(Store, "_writing", forgetful)
    proof = prove_errors(kinds=["eio"], effect="sync", first=80, every=1_000)
    (said,) = proof.violations
    assert said.endswith("then kill: AssertionError: a store that had failed took another commit")


def start_until(disk: Disk, effect: int) -> None:
    """Start the store, and lose power before that effect."""
    left = iter([False] * effect + [True])

    def crash(what: str) -> None:
        if next(left, False):
            raise ProcessCrashed(what)

    disk.kill()
    disk.on_effect = crash
    try:
        see(open_store(disk), 2)
    except ProcessCrashed:
        disk.on_effect = None
    disk.on_effect = None
    disk.lose_power()


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
    disk = Disk(Random(1))
    store = Store(FOLDER, vfs=disk.vfs, page_bytes=512, checkpoint_pages=60)
    store.load(NODE_ID, 1)
    straddling = next(at for at in range(32, 60 * 536, 536) if at % 512 > 488)

    def crash(what: str) -> None:
        written = [change.offset for change in disk.unsynced]
        if what == f"sync {LOG}" and straddling in written[1:-2]:
            raise ProcessCrashed(what)

    disk.on_effect = crash
    number = 0
    with pytest.raises(ProcessCrashed):  # noqa: PT012 - one of them
        for number in range(1, 100):
            rows = [MessageRow(number, NODE_ID, 1, 1, number, b"m")]
            peers = {NODE_ID: PeerRow(NODE_ID, 1, number)}
            store.apply(Commit(state={"key": b"%d" % number}, peers=peers, messages=rows, serial=number))
    disk.on_effect = None
    assert disk.unsynced[-2].offset > straddling
    disk.lose_power_with([Kept(place) for place in range(1, len(disk.unsynced))])
    disk.damage(LOG, straddling, (9).to_bytes(4) + (14).to_bytes(4))
    assert state(disk) == b"%d" % (number - 1)
    disk.close()


def test_a_log_that_ends_within_a_frame_lacks_that_commit_only() -> None:
    """Power was lost while a large commit made it grow; the head of the last frame lies in two sectors."""
    disk = Disk(Random(1))
    store = started(disk, b"a")
    straddling = next(at for at in range(32, 1_000_000, 1_048) if at % 512 > 488)

    def crash(what: str) -> None:
        if what == f"sync {LOG}":
            raise ProcessCrashed(what)

    disk.on_effect = crash
    with pytest.raises(ProcessCrashed):
        store.apply(Commit(messages=[MessageRow(1, NODE_ID, 1, 1, 1, b"m" * 60 * 1024)], state={"key": b"b"}))
    disk.on_effect = None
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


# ---- damage


@pytest.mark.slow
@pytest.mark.parametrize(("clean", "every"), [(False, 149), (True, 331)])
def test_damage_is_detected_and_never_believed(clean: bool, every: int) -> None:
    """Bits, cuts and sectors of a store of 64 KiB, in use and closed: what was written, or an error with the place."""
    proof = prove_damage(clean=clean, every=every)
    assert proof.violations == []
    assert {kind for kind, tried in proof.tried.items() if tried} >= {"bit", "cut", "duplicated", "swapped"}
    assert proof.ends["detected"] > proof.ends["unharmed"] > 100
    assert not clean or proof.ends["without the last commit"] == 0


def test_a_store_that_leaves_rows_out_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof bites: a row that is listed, and cannot be read, is no store unharmed."""
    none = "proof.disk.damage.every_damage"
    monkeypatch.setattr(none, lambda files, _past, _random: [Damage("bit", DATABASE, 0, files[DATABASE][:1])])
    assert prove_damage().ends == {"unharmed": 1}
    monkeypatch.setattr(Store, "read", lambda _store, _read: None)
    assert prove_damage().violations == [f"bit: {DATABASE} at 0: what was read is not what was written"]


def test_the_victim_is_a_store_of_64_kib() -> None:
    """Database and log together."""
    disk = Disk(Random(1))
    victim(disk)
    assert abs(sum(map(len, disk.files().values())) - 65_536) < 2_048
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


def test_a_log_that_rotted_in_the_middle_is_no_torn_tail() -> None:
    """SQLite would stop there and forget later commits; the error names the file and the offset."""

    def rot(disk: Disk) -> None:
        disk.damage(LOG, frames(disk)[3] + 100, b"rot")

    said = damaged(rot)
    assert f"{LOG}: damaged at offset" in said, said
    assert "later commits" in said


def test_rot_in_the_last_commit_but_one_is_found_wherever_it_is() -> None:
    """One later commit is enough to know that this one was on the disk: in each frame's head, in each page."""
    ends = Counter[bool]()
    for frame in (-4, -3):
        for at in (0, 4, 8, 12, 16, 20, 24, 500, 1_047):
            said = damaged(lambda disk, frame=frame, at=at: _flip(disk, frames(disk)[frame] + at))  # type: ignore[misc]
            ends["later commits" in said] += 1
    assert ends == {True: 18}


def _flip(disk: Disk, offset: int) -> None:
    disk.damage(LOG, offset, bytes([disk.files()[LOG][offset] ^ 0x40]))


def test_rot_in_the_last_commit_looks_as_if_it_had_been_interrupted() -> None:
    """The one thing that cannot be told; the commit before it is there."""
    assert damaged(lambda disk: disk.damage(LOG, frames(disk)[-1] + 100, b"rot")) == repr(b"c")


def test_a_log_that_lost_its_end_or_is_gone_is_missed() -> None:
    """The database knows that there was one, and how long it was at least."""
    for size in (0, 31, 32, 5_000, 15_000):
        assert "bytes are left of at least" in damaged(lambda disk, size=size: disk.cut(LOG, size))  # type: ignore[misc]


def test_a_log_without_its_header_is_missed() -> None:
    """Unless all that it held was in the database by then."""
    assert "header is not what was written" in damaged(lambda disk: disk.damage(LOG, 0, bytes(32)))
    assert "header is not what was written" in damaged(lambda disk: disk.damage(LOG, 0, bytes(512)))
    disk = Disk(Random(1))
    store = started(disk, b"a", b"b")
    store.close()
    assert LOG not in disk.files()
    assert state(disk) == b"b"
    disk.close()


def test_an_old_page_that_comes_back_is_not_believed() -> None:
    """Its rows have good checksums, but they are not those that the last commit counted."""
    disk = Disk(Random(1))
    life = Life()
    reference(disk, life, lambda store: store.close())
    old = disk.files()[DATABASE]
    store = open_store(disk)
    see(store, 200)
    store.apply(Commit(state={"reader": b"9"}, serial=14))
    store.close()
    new = disk.files()[DATABASE]
    pages = [at for at in range(0, len(new), 1024) if new[at : at + 1024] != old[at : at + 1024]]
    whole = disk.snapshot()
    said = []
    for at in pages:
        disk.restore(whole)
        disk.damage(DATABASE, at, old[at : at + 1024])
        with pytest.raises(StoreDamaged) as caught:
            see(open_store(disk), 201)
        said.append(str(caught.value))
    assert any("old ones are back" in error for error in said), said
    assert len(said) >= 3
    disk.close()


def test_names_in_a_file_system_of_sqlite_need_no_folder() -> None:
    """Nothing is made beside the simulated files."""
    disk = Disk(Random(1))
    started(disk, b"a").close()
    assert list(disk.files()) == [DATABASE]
    assert not Path(FOLDER).exists()
    disk.close()


@pytest.mark.slow
def test_parts_of_the_proofs_make_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """What processes share out is what one alone would have tried."""
    lines = [("failing", prove_errors, {}), ("power", prove_power, {}), ("power", prove_power, {"powersafe": False})]
    monkeypatch.setattr(store_proofs, "PROOFS", lines)
    said: list[str] = []
    found, _ = store_proofs.prove_all(said.append, 2, every=200)
    whole = prove_errors(every=200)
    assert found["failing"] == replace(whole, seconds=found["failing"].seconds)
    parts = [prove_power(every=200), prove_power(every=200, powersafe=False)]
    power = found["power"]
    assert isinstance(power, PowerProof)
    assert (power.moments, power.states) == (sum(p.moments for p in parts), sum(p.states for p in parts))
    assert len(said) == 12
