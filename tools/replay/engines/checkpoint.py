"""What was judged so far, in a file: written as a whole or not at all, and never able to run code when it is read.

The state machines of the judges are pickled. A pickle may name anything that Python can call, so only the plain types
and the classes of replay itself are taken from it.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import sys
from pathlib import Path
from typing import Any, Final, TypeVar

from triack import __version__
from triack.base.errors import ReplayError
from triack.node.files.ownership import open_plain, users_of
from triack.tools.replay.checks.findings import Output
from triack.tools.replay.log.writing import writing

State = TypeVar("State")

_LAYOUT: Final = 20
"""The format of a checkpoint; goes up when what is kept, or in which files, changes within a version."""
_HEAD: Final = f"triack replay checkpoint, version {__version__}, layout {_LAYOUT}\n".encode()
"""Another version may have other judges: it judges everything again."""
_DIGEST_BYTES: Final = hashlib.sha256().digest_size
"""The header before the state."""
_ROOMS: Final = ("triack.tools.replay.", "triack.base.log_lines")
"""Where the classes of a state come from."""
_PLAIN: Final = {
    ("array", "_array_reconstructor"), ("array", "array"), ("builtins", "dict"), ("builtins", "list"),
    ("builtins", "set"), ("collections", "defaultdict"), ("collections", "deque"),
    ("pathlib", "PosixPath"), ("pathlib", "WindowsPath"),
    ("pathlib._local", "PosixPath"), ("pathlib._local", "WindowsPath"),
}  # fmt: skip
"""Other names that a state contains; Python 3.13 has paths in a module of their own."""
_UNREADABLE: Final = (
    pickle.UnpicklingError, EOFError, AttributeError, ArithmeticError, LookupError, MemoryError, TypeError,
)  # fmt: skip
"""The errors that Python raises for a damaged pickle: it trusts that each step finds what it needs."""


def save(path: Path, state: object) -> None:
    """Write a state; a crash leaves this one or the one before it."""
    data = freeze(state)
    try:
        # Another process may keep its own in the same file.
        with writing(path, path.with_name(f"{path.name}.{os.getpid()}.new")) as file:
            file.writelines([_HEAD, hashlib.sha256(data).digest(), data])
    except OSError as error:
        raise ReplayError(f"cannot write {path}: {os.strerror(error.errno or 0)}") from error


def load(path: Path, kind: type[State]) -> State | None:
    """Return the state in a file, or None if there is none, or one of another version."""
    try:
        with os.fdopen(open_plain(path, users_of(path.parent)), "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise ReplayError(f"cannot read {path}: {error.strerror}") from error
    except OSError as error:
        raise ReplayError(f"cannot read {path}: {os.strerror(error.errno or 0)}") from error
    head, newline, rest = data.partition(b"\n")
    if head + newline != _HEAD:
        if head.startswith(_HEAD.partition(b", ")[0]):
            return None
        raise ReplayError(f"{path} is no checkpoint of triack replay")
    digest, data = rest[:_DIGEST_BYTES], rest[_DIGEST_BYTES:]
    if hashlib.sha256(data).digest() != digest:
        raise ReplayError(f"{path} is damaged: delete it, and everything is judged again")
    try:
        return revive(data, kind)
    except ValueError as error:
        raise ReplayError(f"{path} is no checkpoint of triack replay: {error}") from error


def freeze(state: object) -> bytes:
    """Return a state as bytes."""
    return pickle.dumps(state, protocol=pickle.HIGHEST_PROTOCOL)


def revive(data: bytes, kind: type[State], *, of_others: bool = False) -> State:
    """Return the state that ``freeze`` made bytes of; what others may have written has no classes but the judges'."""
    try:
        state = (_PartReader(data, Output()) if of_others else _Reader(io.BytesIO(data))).load()
    except _UNREADABLE as error:
        raise ValueError(str(error)) from error
    if not isinstance(state, kind):
        raise ValueError(f"a {type(state).__name__}, and no {kind.__name__}")  # noqa: TRY004 - of the data
    return state


def freeze_part(part: object) -> bytes:
    """Return a judge's part as bytes, without what takes its findings."""
    data = io.BytesIO()
    _PartWriter(data, pickle.HIGHEST_PROTOCOL).dump(part)
    return data.getvalue()


def revive_part(data: bytes, out: Output) -> object:
    """Return the part that ``freeze_part`` made bytes of.

    Raises:
        ValueError: there is in it what does not belong there.
    """
    try:
        return _PartReader(data, out).load()
    except _UNREADABLE as error:
        raise ValueError(str(error)) from error


class _Reader(pickle.Unpickler):
    """Reads a pickle of plain data and of instances of replay's own classes."""

    ROOMS: tuple[str, ...] = _ROOMS

    def find_class(self, module_name: str, global_name: str) -> Any:
        """Return a class that may be in a state."""
        if (module_name, global_name) in _PLAIN:
            return super().find_class(module_name, global_name)
        if module_name.startswith(self.ROOMS) and "." not in global_name:
            found = getattr(sys.modules.get(module_name), global_name, None)
            if isinstance(found, type) and found.__module__ == module_name:
                return found
        raise pickle.UnpicklingError(f"{module_name}.{global_name} does not belong into it")


class _PartWriter(pickle.Pickler):
    """Writes a part; what takes its findings is named only."""

    def persistent_id(self, obj: Any) -> str | None:
        """Return the name of what is not written."""
        return _OUT if isinstance(obj, Output) else None


class _PartReader(_Reader):
    """Reads a part, which others may have written: of replay's own classes only those of judges and checks."""

    ROOMS = (
        "triack.tools.replay.judges.", "triack.tools.replay.causes.", "triack.tools.replay.checks.",
        "triack.tools.replay.topics.", "triack.tools.replay.transit.", "triack.tools.replay.log.ranges",
        "triack.tools.replay.log.schema", "triack.tools.replay.log.weights",
    )  # fmt: skip

    def __init__(self, data: bytes, out: Output) -> None:
        super().__init__(io.BytesIO(data))
        self._out = out

    def persistent_load(self, pid: Any) -> Output:
        """Return what takes the findings."""
        if pid != _OUT:
            raise pickle.UnpicklingError(f"{pid!r} does not belong into it")
        return self._out


_OUT: Final = "out"
"""How a part names what takes its findings."""
