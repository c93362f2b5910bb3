"""The node of a data directory that no process runs, for browsing and changing its queues."""

from pathlib import Path

from triack.base.errors import UsageError
from triack.node.files.access import DEFAULT_SUITE, Keyless, Secured
from triack.node.files.keys import IDENTITY_FILE
from triack.node.files.log_file import Recorded
from triack.node.files.notes import read_signed_note
from triack.node.files.ownership import is_folder_of
from triack.node.node import Node
from triack.queues.node_settings import NodeSettings
from triack.store.folder import STORE_FILE, as_folder

UNKNOWN = "node"
"""The name of a node whose name is unknown."""


def open_at_rest(data: str | Path) -> Node:
    """The node of a data directory that no process runs, started as any other. Raises UsageError: there is no store.

    It neither listens nor sends: messages in an outgoing queue go out when the node runs again. It goes on with the
    session log of the last start, if that is still in its place, so that a replay misses none of its starts.
    """
    folder = as_folder("open: data", data)
    if not (folder / STORE_FILE).exists():
        raise UsageError(f"there is no node in {folder}: it has no {STORE_FILE}")
    recorded = read_signed_note(folder, Recorded)
    name = UNKNOWN if recorded is None else recorded[0].name
    log = None if recorded is None or not is_folder_of(Path(recorded[0].log), recorded[1]) else Path(recorded[0].log)
    return Node(
        name,
        Secured({}, DEFAULT_SUITE) if (folder / IDENTITY_FILE).exists() else Keyless(name, {}),
        data=folder,
        log=log,
        settings=NodeSettings(),
        at_rest=True,
    )
