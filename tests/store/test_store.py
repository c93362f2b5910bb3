"""The durable store over real files: all or nothing, one process, damage found, a full disk and kill -9."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copy, copytree, rmtree

import apsw
import pytest

from tests.machine import PATIENCE_S
from triack.base import commit as rows
from triack.base.commit import Commit, MessageRow, OutgoingRow, PeerRow, Read, key_of
from triack.base.delivery import Delivery
from triack.base.errors import StoreDamaged, StoreError, StoreFailed, StoreMoved
from triack.base.names import StreamId
from triack.queues.packing import pack
from triack.store.ballast import BALLAST_FILE
from triack.store.folder import STORE_FILE
from triack.store.latest import LATEST_BYTES, LatestRows
from triack.store.lease_file import LEASE_FILE
from triack.store.owner import OWNER_FILE
from triack.store.store import SCHEMA_VERSION, Store, _checkpoint_pages

LOG_FILE = f"{STORE_FILE}-wal"
ORIGIN = b"o" * 16
# Made by the last Triack of that version: one stream, a packet on its way out, a queue and a message in it.
VERSION_2 = Path(__file__).parent / "version-2.store"
BODY = pack([b"hello"], 400, 1, 1)[0][0].body


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    found = Store(tmp_path / "data")
    yield found
    found.close()


def stream_row(stream: int = 1, next_number: int = 2) -> rows.OutgoingStreamRow:
    return rows.OutgoingStreamRow(stream, "udp://b:1", "q", Delivery.TRANSACTIONAL, 1, next_number)


TRANSIT_STREAM = rows.TransitStreamRow(
    1, ORIGIN, 4, 2, 1, "orders", "plant-b", "plant-a", "hub", 30, 20, trace=b"relay-id"
)


def message(key: int, body: bytes = BODY) -> MessageRow:
    return MessageRow(key, ORIGIN, 1, 1, key, (body,))


def full_commit() -> Commit:
    """One row of everything; of that of 30 packets, one is left."""
    return Commit(
        streams={1: stream_row()},
        outgoing=[OutgoingRow(key, 1, 0, BODY) for key in range(1, 31)],
        outgoing_deletes=[(2, 30)],
        queues=[(1, "orders")],
        messages=[MessageRow(1, ORIGIN, 1, 1, 7, (BODY,))],
        progress={1: b"half"},
        positions={
            StreamId(ORIGIN, 1): rows.PositionRow(
                ORIGIN, 1, Delivery.TRANSACTIONAL, "orders", 1, 7, b"", "hub", "plant-a"
            )
        },
        transit_streams={1: TRANSIT_STREAM},
        transit=[rows.TransitRow(key_of(1, place), 9, 2, 8, 500, BODY) for place in range(1, 31)],
        transit_deletes=[(key_of(1, 1), key_of(1, 29))],
        state={"key": b"value"},
        peers={ORIGIN: PeerRow(ORIGIN, 77, 5)},
        addresses={"b": "udp://b:1"},
        serial=1,
    )


def reopen(store: Store, folder: Path) -> tuple[Store, rows.StoreContent]:
    store.close()
    again = Store(folder)
    return again, again.load(b"n" * 16, 1)


@pytest.mark.gate
def test_everything_comes_back_after_a_restart(tmp_path: Path) -> None:
    store = Store(tmp_path / "data")
    first, commit = store.load(b"a" * 16, 1), full_commit()
    store.apply(commit)
    store, content = reopen(store, tmp_path / "data")
    assert [(it.node_id, it.incarnation) for it in (first, content)] == [(b"a" * 16, 1), (b"a" * 16, 2)]
    assert (content.streams, content.queues) == ([stream_row()], [(1, "orders")])
    (sent,) = content.outgoing
    assert (sent.key, sent.messages, sent.size_bytes) == (1, 1, len(BODY))
    assert sent.head.startswith(commit.outgoing[0].body)
    assert (content.positions, content.state) == (list(commit.positions.values()), {"key": b"value"})
    assert (content.peers, content.addresses) == (commit.peers, commit.addresses)
    assert content.transit_streams == [TRANSIT_STREAM]
    (passed,) = content.transit
    assert passed == rows.TransitIndex(key_of(1, 30), 9, 2, 8, 500, len(BODY), passed.head)
    assert passed.head.startswith(commit.transit[0].body)
    (found,) = content.messages
    assert (found.key, found.number, found.head, found.progress) == (1, 7, BODY[: rows.HEAD_BYTES], b"half")
    read, passing = Read("messages", [1, 2]), Read("transit", [key_of(1, 29), key_of(1, 30)])
    store.read(read)
    store.read(passing)
    assert (read.bodies, passing.bodies) == ({1: BODY}, {key_of(1, 30): BODY})
    store.apply(Commit(transit_stream_deletes=[1], transit_deletes=[(key_of(1, 30), key_of(1, 30))]))
    store, content = reopen(store, tmp_path / "data")
    assert (content.transit_streams, list(content.transit)) == ([], [])
    store.close()


def test_a_store_remembers_its_starts_and_how_far_each_came(tmp_path: Path) -> None:
    """By the numbers of the commits; a commit without a number leaves the store's number as it was."""
    found = []
    for start, serials in ((70, (1, 2)), (71, ()), (72, (3, 0)), (73, ())):
        store = Store(tmp_path)
        content = store.load(b"n" * 16, start)
        found.append((content.incarnation, content.start, content.serial, content.starts))
        for serial in serials:
            store.apply(Commit(state={"key": b"%d" % serial}, serial=serial))
        store.close()
    assert found == [(1, 70, 0, {}), (2, 71, 2, {70: 2}), (3, 72, 2, {70: 2, 71: 2}), (4, 73, 3, {70: 2, 71: 2, 72: 3})]


def test_of_a_start_without_a_commit_no_records_are_known(tmp_path: Path) -> None:
    """What was known is of the log of the start before it, and would make its own look cut."""
    store = Store(tmp_path)
    store.load(b"\xaa" * 16, 1)
    store.apply(Commit(serial=1, records=106))
    for records in (106, 0):
        store, content = reopen(store, tmp_path)
        assert content.records == records
    store.close()


def test_deletes_take_ranges_and_their_progress(store: Store) -> None:
    messages = [message(key) for key in range(1, 8)]
    outgoing = [OutgoingRow(key, 1, 0, b"b") for key in (1, 2, 3)]
    store.apply(Commit(messages=messages, progress={3: b"x", 6: b"y"}, outgoing=outgoing))
    store.apply(Commit(message_deletes=[(2, 4), (7, 7)], outgoing_deletes=[(2, 2)], state={"k": b"v"}))
    content = store.load(b"n" * 16, 1)
    assert [(message.key, message.progress) for message in content.messages] == [(1, None), (5, None), (6, b"y")]
    assert [row.key for row in content.outgoing] == [1, 3]
    store.apply(Commit(messages=[message(7)]))
    assert [message.progress for message in store.load(b"n" * 16, 1).messages] == [None, None, b"y", None]
    store.apply(Commit(state={"k": None}))
    assert store.load(b"n" * 16, 1).state == {}


def test_what_is_gone_may_be_deleted_again(tmp_path: Path) -> None:
    """Nodes delete late, and after a crash once more: the rows are counted once, and the store stays sound."""
    store = Store(tmp_path)
    store.load(b"n" * 16, 1)
    store.apply(full_commit())
    forget = Commit(message_deletes=[(1, 1)], outgoing_deletes=[(1, 1)])
    store.apply(forget)
    store.apply(forget)
    # In one commit a packet may be read in part, and then to its end.
    store.apply(Commit(messages=[message(2)]))
    store.apply(Commit(progress={2: b"half"}, message_deletes=[(2, 2), (2, 2)]))
    # Of neighbours that came together each may go by itself, and one of them twice.
    store.apply(Commit(outgoing=[OutgoingRow(key, 1, 0, BODY) for key in (4, 5, 6)]))
    store.apply(Commit(outgoing_deletes=[(4, 4), (6, 6), (4, 4)]))
    store.apply(Commit(outgoing_deletes=[(6, 6)]))
    store, content = reopen(store, tmp_path)
    assert list(content.messages) == []
    assert [row.key for row in content.outgoing] == [5]
    store.close()


def test_a_commit_is_all_or_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.load(b"n" * 16, 1)
    store.apply(Commit(queues=[(1, "orders")]))
    bad = full_commit()
    bad.queues = [(2, "orders")]
    for commit in (bad, Commit(queues=[(3, "other")])):
        with pytest.raises(StoreFailed, match=STORE_FILE):
            store.apply(commit)
    with pytest.raises(StoreFailed):
        store.read(Read("messages", [1]))
    store, content = reopen(store, tmp_path)
    assert content.queues == [(1, "orders")]
    assert [*content.streams, *content.outgoing, *content.messages, *content.positions] == []
    store.close()


def run_python(script: str, *args: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", script, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


@pytest.mark.parametrize("content", [b"this is no database at all" * 100, b"SQLite format 3\0" + b"\xff" * 4_000])
def test_what_is_no_database_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / STORE_FILE).write_bytes(content)
    (tmp_path / STORE_FILE).chmod(0o600)
    with pytest.raises(StoreDamaged, match=STORE_FILE):
        Store(tmp_path)
    assert (tmp_path / STORE_FILE).read_bytes() == content


def test_somebody_elses_database_is_refused(tmp_path: Path) -> None:
    edit(tmp_path, "CREATE TABLE theirs (x)")
    (tmp_path / STORE_FILE).chmod(0o600)
    with pytest.raises(StoreDamaged, match="not a Triack store"):
        Store(tmp_path)
    assert edit(tmp_path, "SELECT name FROM sqlite_schema") == [("theirs",)]


def test_another_version_is_refused_with_both_numbers(tmp_path: Path) -> None:
    Store(tmp_path).close()
    for version in (*range(1, SCHEMA_VERSION), SCHEMA_VERSION + 1):
        edit(tmp_path, f"PRAGMA user_version = {version}")
        with pytest.raises(StoreDamaged, match=rf"version {version}, this Triack reads {SCHEMA_VERSION}"):
            Store(tmp_path)
    edit(tmp_path, f"PRAGMA user_version = {SCHEMA_VERSION}")
    Store(tmp_path).close()


def test_a_store_that_version_2_wrote_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    """It has messages: the error says what to do, and the Triack that wrote it can still do it."""
    copy(VERSION_2, tmp_path / STORE_FILE)
    (tmp_path / STORE_FILE).chmod(0o600)
    for _ in range(2):
        with pytest.raises(StoreDamaged, match=rf"{STORE_FILE}: store version 2, .* `triack upgrade --data`"):
            Store(tmp_path)
    assert (tmp_path / STORE_FILE).read_bytes() == VERSION_2.read_bytes()
    assert not (tmp_path / LOG_FILE).read_bytes()


@pytest.mark.skipif(os.name != "posix", reason="other systems have no modes of files")
def test_what_a_store_writes_is_its_owners_alone_in_any_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    before = os.umask(0o022)
    try:
        store = Store(tmp_path)
        store.load(bytes(16), 1)
        names = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
        store.close()
    finally:
        os.umask(before)
    assert {STORE_FILE, f"{STORE_FILE}-wal"} <= set(names)
    assert set(names.values()) == {0o600}


def edit(folder: Path, *statements: str) -> list[tuple[object, ...]]:
    """Change the file of a closed store behind its back. Returns what the statements find."""
    database = apsw.Connection(str(folder / STORE_FILE))
    found = [row for statement in statements for row in database.execute(statement)]
    database.close()
    return found


@pytest.mark.parametrize("table", ["messages", "outgoing"])
@pytest.mark.parametrize(
    "damage",
    [
        "body = CAST(substr(body, 1, length(body) - 1) || x'00' AS BLOB)",
        "body = x''",
        "checksum = checksum + 1",
        "key = key + 1",
    ],
)
def test_a_damaged_row_is_found(filled: Path, tmp_path: Path, table: str, damage: str) -> None:
    """A body that is not what was written under this key never reaches anyone."""
    copy(filled / STORE_FILE, tmp_path)
    edit(tmp_path, f"UPDATE {table} SET {damage}")
    store = Store(tmp_path)
    with pytest.raises(StoreDamaged, match=f"{STORE_FILE}.*{table}|{table}.*{STORE_FILE}"):
        store.read(Read(table, [1, 2]))
    store.close()


COLUMNS = {
    "starts": ("incarnation", "start", "serial", "checksum"),
    "peers": ("node_id", "start", "serial", "name", "checksum"),
    "streams": ("stream", "peer", "queue", "delivery", "sequence", "next_number", "checksum"),
    "outgoing": ("key", "packets", "parts", "body_checksum", "checksum"),
    "queues": ("id", "name", "checksum"),
    "messages": ("key", "packets", "origin", "stream", "sequence", "number", "parts", "body_checksum", "checksum"),
    "freed": ("name", "key", "packets", "checksum"),
    "progress": ("key", "progress", "checksum"),
    "positions": ("origin", "stream", "delivery", "queue", "sequence", "number", "filter", "checksum"),
    "state": ("key", "value", "checksum"),
    "latest": ("id", "rows", "checksum"),
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a closed store with a row of everything."""
    folder = tmp_path_factory.mktemp("filled")
    store = Store(folder, latest_bytes=0)
    store.load(b"n" * 16, 1)
    store.apply(full_commit())
    store._latest = LatestRows(LATEST_BYTES)  # noqa: SLF001 - the rows above are in their tables, this one is not
    store.apply(Commit(peers={b"q" * 16: PeerRow(b"q" * 16, 3, 4)}))
    store.close()
    return folder


def load_copy(filled: Path, folder: Path, *statements: str) -> None:
    """Change a copy of a store behind its back, and start it."""
    copy(filled / STORE_FILE, folder)
    edit(folder, *statements)
    store = Store(folder)
    try:
        store.load(b"n" * 16, 2)
    finally:
        store.close()


@pytest.mark.parametrize(("table", "column"), [(table, column) for table in COLUMNS for column in COLUMNS[table]])
def test_every_column_is_checked(filled: Path, tmp_path: Path, table: str, column: str) -> None:
    other = f"CASE typeof({column}) WHEN 'integer' THEN {column} + 1 ELSE CAST('x' AS {{}}) END"
    typed = "BLOB" if column in ("node_id", "origin", "parts", "progress", "filter", "value", "rows") else "TEXT"
    with pytest.raises(StoreDamaged, match=f"{STORE_FILE}.* of {table}"):
        load_copy(filled, tmp_path, f"UPDATE {table} SET {column} = {other.format(typed)}")


@pytest.mark.parametrize("value", ["NULL", "x'07'", "'7'", "7.0", "-7", "9223372036854775807"])
@pytest.mark.parametrize(("table", "column"), [("messages", "origin"), ("streams", "delivery"), ("state", "value")])
def test_a_value_of_another_type_is_found(filled: Path, tmp_path: Path, table: str, column: str, value: str) -> None:
    with pytest.raises(StoreDamaged, match=f"{STORE_FILE}.* of {table}"):
        load_copy(filled, tmp_path, f"UPDATE {table} SET {column} = {value}")


@pytest.mark.parametrize("table", COLUMNS)
def test_a_lost_row_is_missed(filled: Path, tmp_path: Path, table: str) -> None:
    """The last commit said how many there are; the error names the table."""
    with pytest.raises(StoreDamaged, match=f"{STORE_FILE}.*{table} are lost"):
        load_copy(filled, tmp_path, f"DELETE FROM {table}")


@pytest.mark.parametrize(
    "damage",
    [
        *(f"UPDATE meta SET {column} = 7" for column in ("node_id", "incarnation", "start", "serial", "log_bytes")),
        *(f"UPDATE meta SET {column} = 7" for column in ("tallies", "checksum", "id")),
        "DELETE FROM meta",
    ],
)
def test_the_row_that_every_commit_writes_is_checked(filled: Path, tmp_path: Path, damage: str) -> None:
    with pytest.raises(StoreDamaged, match=f"{STORE_FILE}.*meta"):
        load_copy(filled, tmp_path, damage)


@pytest.mark.parametrize(
    "change", ["ALTER TABLE streams ADD COLUMN colour TEXT", "CREATE TABLE theirs (x)", "DROP TABLE progress"]
)
def test_other_tables_are_not_those_of_a_store(filled: Path, tmp_path: Path, change: str) -> None:
    with pytest.raises(StoreDamaged, match="its tables are not those"):
        load_copy(filled, tmp_path, change)


def killed_store(folder: Path) -> None:
    """A store whose process was killed: its log holds what the database does not."""
    done = run_python(
        "import os, sys\nfrom pathlib import Path\nfrom triack.base.commit import Commit\n"
        "from triack.store.store import Store\nstore = Store(Path(sys.argv[1]))\nstore.load(b'n' * 16, 1)\n"
        "store.apply(Commit(queues=[(1, 'orders')]))\nos._exit(0)\n",
        folder,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.gate
def test_a_killed_store_comes_back_with_its_log(tmp_path: Path) -> None:
    """All that returned is there; an orderly end leaves one file, beside the ballast and the name of its owner."""
    killed_store(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {STORE_FILE, LOG_FILE, BALLAST_FILE, OWNER_FILE, LEASE_FILE}
    store = Store(tmp_path)
    assert store.load(b"n" * 16, 2).queues == [(1, "orders")]
    store.close()
    assert {file.name for file in tmp_path.iterdir()} == {STORE_FILE, BALLAST_FILE, OWNER_FILE}


@pytest.mark.parametrize("size", [None, 0, 40_000])
def test_a_log_that_is_gone_or_cut_is_missed(tmp_path: Path, size: int | None) -> None:
    """As when somebody copies the database alone, or removes what looks like a temporary file; again and again."""
    killed_store(tmp_path)
    if size is None:
        (tmp_path / LOG_FILE).unlink()
    else:
        os.truncate(tmp_path / LOG_FILE, size)
    for _ in range(2):
        with pytest.raises(StoreDamaged, match=f"{LOG_FILE}.*bytes are left of at least"):
            Store(tmp_path)


@pytest.mark.gate
@pytest.mark.parametrize("gone", [False, True])
def test_a_log_without_its_database_is_no_new_store(tmp_path: Path, gone: bool) -> None:
    """The database was emptied or removed: the log stays, and nothing begins anew beside it."""
    killed_store(tmp_path)
    log = (tmp_path / LOG_FILE).read_bytes()
    os.truncate(tmp_path / STORE_FILE, 0)
    if gone:
        (tmp_path / STORE_FILE).unlink()
    why = rf"{STORE_FILE}: it is (gone|empty), but .* \d+ bytes of its log are there"
    for _ in range(2):
        (tmp_path / OWNER_FILE).unlink()
        with pytest.raises(StoreDamaged, match=why):
            Store(tmp_path)
    assert (tmp_path / LOG_FILE).read_bytes() == log


def test_a_log_begins_again_when_it_is_long_enough(tmp_path: Path) -> None:
    store = Store(tmp_path, page_bytes=4_096, checkpoint_pages=16)
    store.load(b"n" * 16, 1)
    size = (tmp_path / LOG_FILE).stat().st_size
    for number in range(1, 60):
        store.apply(Commit(messages=[message(number, b"x" * 3_000)]))
    assert (tmp_path / LOG_FILE).stat().st_size == size < 100_000
    assert (tmp_path / STORE_FILE).stat().st_size > 60 * 3_000
    store.close()


@pytest.mark.gate
def test_a_log_keeps_the_size_that_an_earlier_start_gave_it(tmp_path: Path) -> None:
    """A start with another setting, itself killed, does not make the next one miss anything."""
    killed_store(tmp_path)
    store = Store(tmp_path, checkpoint_pages=16)
    store.load(b"n" * 16, 2)
    for number in range(2, 40):
        store.apply(Commit(queues=[(number, f"queue-{number}")]))
    del store
    store = Store(tmp_path)
    assert len(store.load(b"n" * 16, 3).queues) == 39
    store.close()


DISK_FULL_SCRIPT = """
import sys
from pathlib import Path
import apsw
from triack.base.errors import StoreFailed
from triack.base.commit import Commit, MessageRow, Read
from triack.store.store import SCHEMA_VERSION, Store, _checkpoint_pages

apsw.connection_hooks.append(lambda database: database.pragma("max_page_count", 40))
store = Store(Path(sys.argv[1]))
store.load(b"n" * 16, 1)
done = 0
try:
    while True:
        store.apply(Commit(messages=[MessageRow(done + 1, b"o" * 16, 1, 1, done + 1, (b"x" * 20_000,))]))
        done += 1
except StoreFailed as error:
    print(done, error, sep="|")
for again in (lambda: store.apply(Commit(queues=[(1, "q")])), lambda: store.read(Read("messages", [1]))):
    try:
        again()
    except StoreFailed as error:
        print("again", error, sep="|")
"""


FILE_SIZE_SCRIPT = DISK_FULL_SCRIPT.replace(
    'apsw.connection_hooks.append(lambda database: database.pragma("max_page_count", 40))',
    "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))",
).replace("Path(sys.argv[1])", "Path(sys.argv[1]), checkpoint_pages=40")


@pytest.mark.parametrize(
    ("script", "cause", "more"),
    [pytest.param(DISK_FULL_SCRIPT, "the disk is full", 0, marks=pytest.mark.gate), (FILE_SIZE_SCRIPT, "", 1)],
    ids=["a full disk", "a limit on the size of files"],
)
def test_a_write_that_fails_ends_the_store_and_says_so(tmp_path: Path, script: str, cause: str, more: int) -> None:
    """The message names the path and the cause; afterwards nothing is accepted; what was committed is there.

    Where files may not grow it is the database, when a commit that is safe in the log was to be brought there.
    """
    done = run_python(script, tmp_path)
    first, *again = done.stdout.splitlines()
    count, message = first.split("|")
    assert int(count) > 5, done.stderr
    assert str(tmp_path) in message
    assert cause in message
    assert again == [f"again|{message}"] * 2
    store = Store(tmp_path)
    assert len(list(store.load(b"n" * 16, 1).messages)) == int(count) + more
    store.close()


def _replace(data: Path) -> None:
    copytree(data, data.with_name("copy"))
    data.rename(data.with_name("elsewhere"))
    data.with_name("copy").rename(data)


@pytest.mark.parametrize(
    "what",
    [
        rmtree,
        lambda data: data.rename(data.with_name("elsewhere")),
        _replace,
        lambda data: (data / LOG_FILE).unlink(),
    ],
    ids=["deleted", "renamed", "replaced", "without its log"],
)
def test_a_directory_that_is_not_there_any_more_takes_no_commit(
    tmp_path: Path, store: Store, what: Callable[[Path], object]
) -> None:
    """A commit into files without a name is not reported as durable, and neither is a later one."""
    store.load(ORIGIN, 1)
    store.apply(Commit(state={"a": b"1"}))
    what(tmp_path / "data")
    for _ in range(2):
        with pytest.raises(StoreMoved, match=r"commit store .*store\.db: .*; it was deleted, renamed or replaced"):
            store.apply(Commit(state={"b": b"2"}))


def test_closing_leaves_the_files_of_another_store_alone(tmp_path: Path, store: Store) -> None:
    """SQLite would remove the log by its name, which leads to that of the other."""
    store.load(ORIGIN, 1)
    (tmp_path / "data").rename(tmp_path / "elsewhere")
    other = Store(tmp_path / "data")
    other.load(bytes(16), 2)
    store.close()
    other.apply(Commit(state={"a": b"1"}))
    other.close()
    again = Store(tmp_path / "data")
    assert again.load(ORIGIN, 3).state == {"a": b"1"}
    again.close()


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


@pytest.mark.skipif(os.name != "posix", reason="other systems have no modes of files")
@pytest.mark.parametrize("name", [STORE_FILE, LOG_FILE, f"{STORE_FILE}-journal", OWNER_FILE])
@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (lambda path: path.chmod(0o666), r"others may use it \(mode 0666\)"),
        (lambda path: path.with_name("elsewhere").hardlink_to(path), "it has another name"),
        (_pipe, "it is no reg"),
    ],
    ids=["mode", "link", "pipe"],
)
def test_a_file_that_others_may_write_is_refused(
    tmp_path: Path, name: str, harm: Callable[[Path], object], why: str
) -> None:
    """Whatever SQLite opens by its name; a pipe in its place does not stop the start, either."""
    killed_store(tmp_path)
    path = tmp_path / name
    path.touch(mode=0o600)
    harm(path)
    with pytest.raises(StoreError, match=f"{path}: {why}"):
        Store(tmp_path)


@pytest.mark.parametrize("left", [None, b"", b"S"])
@pytest.mark.parametrize("killed", [False, True])
def test_a_store_that_was_emptied_or_removed_is_no_new_one(tmp_path: Path, left: bytes | None, killed: bool) -> None:
    """Its node is named, nothing is made in its place, and the error says how to begin anew."""
    killed_store(tmp_path)
    if not killed:
        reopen(Store(tmp_path), tmp_path)[0].close()
    path = tmp_path / STORE_FILE
    path.unlink()
    if left is not None:
        path.write_bytes(left)
        path.chmod(0o600)
    before = {file.name for file in tmp_path.iterdir()}
    for _ in range(2):
        with pytest.raises(StoreDamaged, match=rf"{STORE_FILE}: it .*node {(b'n' * 16).hex()} kept .*begins anew"):
            Store(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == before
    for name in (STORE_FILE, LOG_FILE, OWNER_FILE):
        (tmp_path / name).unlink(missing_ok=True)
    store = Store(tmp_path)
    assert store.load(b"m" * 16, 2).node_id == b"m" * 16
    store.close()


def test_a_process_that_died_while_it_made_a_store_leaves_none(tmp_path: Path) -> None:
    """The files that it had written are removed, and the store is made again."""
    for name, content in (("store.db.new", b"half"), ("store.db.new-wal", b"half"), (OWNER_FILE, b"")):
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(0o600)
    store = Store(tmp_path)
    store.load(ORIGIN, 1)
    store.close()
    assert {file.name for file in tmp_path.iterdir()} == {STORE_FILE, BALLAST_FILE, OWNER_FILE}


def test_a_store_keeps_the_size_of_its_log(tmp_path: Path) -> None:
    """The one that it was made with: a command that opens a small store with the default makes no large one of it."""
    small = Store(tmp_path, checkpoint_pages=64)
    small.load(b"n" * 16, 1)
    took = sum(file.stat().st_size for file in tmp_path.iterdir())
    small.close()
    assert took < 4 * 1024 * 1024
    again = Store(tmp_path)
    again.load(b"n" * 16, 2)
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= took
    again.close()


@pytest.mark.parametrize("pages", [1, 3, 4, 12, 64, 70, 2_048])
def test_the_number_of_pages_is_found_in_the_size_of_a_log(pages: int, tmp_path: Path) -> None:
    store = Store(tmp_path, checkpoint_pages=pages)
    assert _checkpoint_pages(4_096, store._least_log_bytes(4_096)) == pages  # noqa: SLF001 - its inverse
    store.close()
