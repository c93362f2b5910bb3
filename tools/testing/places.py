"""Where a task or a thread is, in a line for a failure: the innermost line of the user's code, and what it waits in."""

import asyncio
import gc
import sysconfig
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from triack.testing.threads import WatchedThread

LIBRARY = ("asyncio", "concurrent", "queue", "threading", "triack")
"""Code that only passes a wait on."""
INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
"""Where code lies that is probably not the user's."""
FRAMES_MAX = 8
"""Lines of a stack: enough to see what a thread is doing, and why."""


def place_of(task: "asyncio.Task[Any]") -> str:
    """Where a task is: "at test_shop.py:12 in place_order, in aiosqlite/core.py:130 in _execute"."""
    return _described([*_awaited(task.get_coro())])


def place_of_thread(watched: WatchedThread) -> str:
    """Where a thread is, in the same form."""
    return _described([(frame, frame.f_lineno) for frame in watched.frames])


def stack_of(watched: WatchedThread) -> list[str]:
    """The last lines of a thread's stack, the innermost last."""
    return [_line(frame, frame.f_lineno) for frame in watched.frames][-FRAMES_MAX:]


def is_in_users_code(watched: WatchedThread) -> bool:
    """Whether a thread is in code of the user's, and does not merely wait for work."""
    return any(_is_users(frame) for frame in watched.frames)


def _awaited(waiting: Any) -> Iterator[tuple[types.FrameType, int]]:
    while waiting is not None:
        if isinstance(waiting, types.CoroutineType):
            frame, following = waiting.cr_frame, waiting.cr_await
        elif isinstance(waiting, types.GeneratorType):
            frame, following = waiting.gi_frame, waiting.gi_yieldfrom
        elif isinstance(waiting, types.AsyncGeneratorType):
            frame, following = waiting.ag_frame, waiting.ag_await
        else:
            # One step of an asynchronous generator, or what wraps a coroutine; Python shows it no other way.
            inner = (types.CoroutineType, types.GeneratorType, types.AsyncGeneratorType)
            following = next((it for it in gc.get_referents(waiting) if isinstance(it, inner)), None)
            frame = None
            if type(waiting).__name__ not in ("async_generator_asend", "async_generator_athrow", "coroutine_wrapper"):
                following = None
        if frame is not None:
            yield frame, frame.f_lineno
        waiting = following


def _described(frames: list[tuple[types.FrameType, int]]) -> str:
    found = [it for it in frames if it[0].f_globals.get("__name__", "").partition(".")[0] not in LIBRARY]
    if not found:
        return "at an unknown place"
    users = [it for it in found if _is_users(it[0])] or found
    place = f"at {_line(*users[-1])}"
    return place if found[-1] is users[-1] else f"{place}, in {_line(*found[-1])}"


def _is_users(frame: types.FrameType) -> bool:
    return not frame.f_code.co_filename.startswith((*INSTALLED, "<"))


def _line(frame: types.FrameType, number: int) -> str:
    path, here = Path(frame.f_code.co_filename), Path.cwd()
    installed = next((it for it in sorted(INSTALLED, key=len, reverse=True) if path.is_relative_to(it)), None)
    if installed is not None:
        path = path.relative_to(installed)
    elif path.is_relative_to(here):
        path = path.relative_to(here)
    return f"{path}:{number} in {frame.f_code.co_name}"
