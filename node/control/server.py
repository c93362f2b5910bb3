"""The control socket of a running node: other processes of the machine send, receive and look through it.

A connection is one conversation of calls, see ``calls.py``. It begins with ``hello`` and ``welcome``, which name the
version that each side speaks; an error of the conversation itself ends it with an ``error`` frame.

Only processes of the node's own user, and of root, are served (``socket_file.py``). If the socket was removed, the node
makes another.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from triack.base.errors import NodeClosed, ProtocolError, StoreError, TriackError, UsageError
from triack.base.reasons import DropReason
from triack.node.control.calls import Calls
from triack.node.control.control_frames import VERSION, Doors, Header, Link, words_of
from triack.node.control.handover import PASSING, Served, publish, retract
from triack.node.control.socket_file import check_peer, is_there, make_socket_path, remove
from triack.node.files import operator_log
from triack.node.files.notes import folder_of
from triack.node.files.ownership import trusted_users
from triack.node.handles.verbs import Verbs
from triack.node.shell.event_loop import end_tasks

HELLO_S = 10.0
"""How long a process may take to send its ``hello``: ours do it immediately, and others would occupy a connection."""
CONNECTIONS_MAX = 512
"""Each needs a descriptor; or half of all that the process may have, if that is less."""
LOOK_S = 5.0
"""Time between checks that the socket is still there: a runtime directory goes when its user logs out."""


class ControlServer:
    """Serves the control socket of a node."""

    def __init__(self, node: Verbs, data: Path, address: str, doors: Doors | None) -> None:
        self._node = node
        self._data = data
        self._address = address
        self._give_way = PASSING.get()
        self._served: Served | None = None
        self._watch: asyncio.Task[None] | None = None
        self._server: asyncio.Server | None = None
        self._doors = doors
        self._retract: Callable[[], None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def start(self) -> None:
        """Listen, and publish where. Raises TriackError or OSError on failure."""
        try:
            await self._listen()
            self._watch = asyncio.create_task(self._watch_over(), name="triack-control")
        except BaseException:
            await self.close()
            raise

    async def _listen(self) -> None:
        if self._doors is not None:
            self._retract = self._doors.publish(self._data, self._begin)
            return
        path = make_socket_path()
        server = None
        try:
            # It begins to listen below: a cancellation in this call would leave it listening, without an owner.
            server = await asyncio.start_unix_server(self._accept, path, start_serving=False)
            path.chmod(0o600)
            await server.start_serving()
            served = Served(folder=folder_of(self._data), control=str(path), pid=os.getpid(), listen=self._address)
            publish(self._data, served)
        except BaseException:
            if server is not None:
                server.close()
            remove(path)
            raise
        self._served, self._server = served, server

    async def close(self) -> None:
        """Retract the socket, and end every conversation."""
        if self._watch is not None:
            await end_tasks([self._watch])
        await self._close()

    async def _watch_over(self) -> None:
        """Keep the socket there while the node works, and no longer: no process should wait for a failed node."""
        failed = asyncio.create_task(self._node.failed())
        try:
            while not (await asyncio.wait((failed,), timeout=LOOK_S if self._doors is None else None))[0]:
                await self._listen_again()
        finally:
            failed.cancel()
        await self._close()

    async def _listen_again(self) -> None:
        if self._served is None or is_there(Path(self._served.control)):
            return
        gone, before = self._served, self._server
        try:
            await self._listen()
        except (OSError, TriackError) as error:
            operator_log.warning(
                f"other processes cannot use node {self._node.name}: {gone.control} is gone, and {error}",
                node=self._node.name,
            )
            return
        operator_log.info(f"control socket {gone.control} is gone; node {self._node.name} has made another")
        if before is not None:
            before.close()

    async def _close(self) -> None:
        self._is_closed = True
        if self._retract is not None:
            self._retract()
        if self._served is not None:
            retract(self._data, self._served)
            self._served = None
        if self._server is not None:
            self._server.close()
        await end_tasks(self._tasks)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            check_peer(writer.get_extra_info("socket"), trusted_users())
        except OSError as error:  # it is another user's, or gone already
            operator_log.warning(f"control socket: a process was not served: {error.strerror}")
            writer.transport.abort()
            return
        self._begin(reader, writer)

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = Link(reader, writer)
        if self._is_closed:  # it came while the node closed: nothing would end it
            link.abort()
            return
        has_room = len(self._tasks) < _connections_max()
        talk = converse(self._node, link, self._give_way, HELLO_S) if has_room else _refuse(link)
        task = asyncio.create_task(talk)
        self._tasks.add(task)
        task.add_done_callback(partial(self._forget, link))

    def _forget(self, link: Link, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():  # perhaps before it began, so that it has closed nothing
            link.abort()
        error = None if task.cancelled() else task.exception()
        if error is not None:
            operator_log.error(f"control socket: a conversation ended by a bug: {error!r}")


def _connections_max() -> int:
    import resource  # noqa: PLC0415 - systems without control sockets have no such module

    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return CONNECTIONS_MAX if limit == resource.RLIM_INFINITY else min(CONNECTIONS_MAX, limit // 2)


async def _refuse(link: Link) -> None:
    operator_log.warning(f"control socket: a process was not served: {_connections_max()} others are")
    with contextlib.suppress(OSError):
        await link.send("error", message="too many other processes use this node", usage=False)
    await link.close()


async def converse(node: Verbs, link: Link, give_way: Callable[[], None] | None, hello_s: float | None = None) -> None:
    """Let another process, or a command in this one, use a node until the conversation ends."""
    try:
        hello = await _hello(link, hello_s)
        if hello["op"] != "hello" or hello.get("v") != VERSION:
            raise ProtocolError(
                DropReason.BAD_HELLO, f"this process speaks version {VERSION}; use the same Triack for both"
            )
        await Calls(node, link, give_way).run()
    except (NodeClosed, StoreError) as error:
        # Not the other end's fault: it finds the next process that serves the directory, and continues there.
        operator_log.info(f"control socket: a conversation ended: {error}")
    except TriackError as error:
        with contextlib.suppress(OSError):
            await link.send("error", message=words_of(error), usage=isinstance(error, UsageError))
    except ConnectionError as error:  # a command has looked, or ended: it is no matter of the node
        operator_log.debug(f"control socket: a conversation ended: {error}")
    except OSError as error:
        operator_log.info(f"control socket: a conversation ended: {error}")
    except (ArithmeticError, LookupError, TypeError, ValueError) as cause:  # a wrong field of a frame
        refusal = ProtocolError(DropReason.BAD_FRAME, f"{type(cause).__name__} {cause}")
        with contextlib.suppress(OSError):
            await link.send("error", message=words_of(refusal), usage=False)
    finally:
        await link.close()


async def _hello(link: Link, seconds: float | None) -> Header:
    try:
        async with asyncio.timeout(seconds):
            hello, _ = await link.receive()
    except TimeoutError:
        raise ProtocolError(DropReason.BAD_HELLO, f"nothing was said for {seconds:g} s") from None
    return hello
