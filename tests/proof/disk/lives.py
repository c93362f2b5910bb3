"""Short lives of stores on a simulated disk."""

from proof.disk.reference import FOLDER, open_store, see
from triack.base.commit import Commit
from triack.store.folder import STORE_FILE
from triack.store.store import Store
from triack.tools.sim.disk import Disk

DATABASE = f"{FOLDER}/{STORE_FILE}"
LOG = f"{DATABASE}-wal"


def started(disk: Disk, *states: bytes) -> Store:
    store = open_store(disk)
    store.load(b"n" * 16, 1)
    for number, state in enumerate(states, 1):
        store.apply(Commit(state={"key": state}, serial=number))
    return store


def state(disk: Disk) -> bytes | None:
    """The state that a new process finds."""
    disk.kill()
    return see(open_store(disk), 2)[0].state.get("key")
