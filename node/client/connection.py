"""One connection of a client: its calls, and what the node says beside their answers."""

import asyncio
import itertools
from typing import Any, Self

from triack.base import errors
from triack.base.errors import ConnectionLost, HandOverEnded, ProtocolError, TriackError
from triack.base.reasons import DropReason
from triack.node.control.control_frames import CALLS_MAX, Header, Link, check_sayable, greet
from triack.node.shell.event_loop import end_tasks

TAKEN_BACK_MAX = 4_096
"""Messages that were taken back, and that the program has not settled since: it may have dropped them."""


class Connection:
    """A conversation with the process that serves the node, from its welcome to its end."""

    def __init__(self, whose: str, link: Link, epoch: int, welcome: Header) -> None:
        self.epoch = epoch
        self.welcome = welcome
        self.ended = asyncio.Event()  # no more answers come
        self._whose = whose
        self._link = link
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[tuple[Header, bytes]]] = {}
        self._parts: dict[int, list[bytes]] = {}  # of answers that are not complete
        self._free = asyncio.Semaphore(CALLS_MAX)
        # Why its leased messages were taken back, by number.
        self._taken_back: dict[int, str] = {}
        # The error of an acknowledgement that came too late, for the next call to raise.
        self._late: HandOverEnded | None = None
        self._error: TriackError | None = None
        self._hearing = asyncio.create_task(self._hear(), name="triack-client")

    @classmethod
    async def begin(cls, whose: str, link: Link, epoch: int) -> Self:
        """Greet the process at the other end. Raises as ``greet``; then it closes the link."""
        try:
            welcome = await greet(link)
        except BaseException:
            await link.close()
            raise
        return cls(whose, link, epoch, welcome)

    async def say_goodbye(self, error: TriackError, seconds: float) -> None:
        """Tell the node that this ends in good order, so that it does not count readers as dead, and let it close.

        Calls that are under way raise the error.
        """
        self._error = self._error or error
        self._link.post("bye")
        await asyncio.wait([self._hearing], timeout=seconds)

    async def close(self, error: TriackError | None = None) -> None:
        """End it. Calls that are still under way raise the error. A second call does nothing."""
        self._error = self._error or error
        await end_tasks([self._hearing])
        self._fail(self._error)  # it may have had no turn yet
        await self._link.close()

    # ---- what the node says

    async def _hear(self) -> None:
        error: TriackError | None = None
        try:
            while True:
                header, body = await self._link.receive()
                if self._is_aside(header, body):
                    continue
                waiting = self._waiting.pop(header["n"], None)
                body = b"".join([*self._parts.pop(header["n"], ()), body])
                if waiting is not None and not waiting.done():
                    waiting.set_result((header, body))
        except TriackError as refused:
            error = refused
        except OSError:
            pass
        finally:
            self._fail(self._error or error)

    def _fail(self, error: TriackError | None) -> None:
        """End every call: no more answers come."""
        self._error = self._error or error or self._lost("a call", maybe_done=True)
        self.ended.set()
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(self._error)
                future.exception()  # there may be no waiter left

    def _is_aside(self, header: Header, body: bytes) -> bool:
        """Take a frame that does not end an answer. Returns whether it is such a frame."""
        if header["op"] == "taken_back":
            self._taken_back.update(zip(header["messages"], header["why"], strict=True))
            while len(self._taken_back) > TAKEN_BACK_MAX:  # the node knows it too, and says so after an ack
                del self._taken_back[next(iter(self._taken_back))]
        elif header["op"] == "late":
            self._late = HandOverEnded(str(header["why"]))
        elif header["op"] == "part" and header["n"] in self._waiting:
            self._parts.setdefault(header["n"], []).append(body)
        return header["op"] in ("taken_back", "late", "part")

    # ---- calls

    async def ask(self, do: str, body: bytes, fields: dict[str, Any]) -> tuple[Header, bytes]:
        """Have the node do something, and wait until it is done.

        Returns header and body of the answer; the header also has the ``epoch`` of this connection.

        Raises:
            ConnectionLost: the process ended before it answered.
            HandOverEnded: an earlier acknowledgement came too late; this call does nothing.
            TriackError: the error of the call at the node, in its own class.
        """
        if self._late is not None:
            late, self._late = self._late, None
            raise late
        async with self._free:
            if self.ended.is_set():
                raise self._lost(do, maybe_done=False)
            try:
                header, content = await self._exchange(do, body, fields)
            except ConnectionLost:
                raise self._lost(do, maybe_done=True) from None
        if header["op"] == "failed":
            if header.get("ended"):  # this node answers nothing any more; its process may live on
                self._link.abort()
                raise self._lost(do, maybe_done=do != "send")
            raise _error_of(header)
        header["epoch"] = self.epoch
        return header, content

    async def _exchange(self, do: str, body: bytes, fields: dict[str, Any]) -> tuple[Header, bytes]:
        number = next(self._numbers)
        future: asyncio.Future[tuple[Header, bytes]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            await self._link.send("call", body, n=number, do=do, **fields)
            return await future
        except (TypeError, ValueError, RecursionError):
            check_sayable(do, fields)
            raise
        except ConnectionError:
            raise self._lost(do, maybe_done=True) from None
        except asyncio.CancelledError:
            if not self.ended.is_set():
                self._link.post("cancel", n=number)  # an answer on its way gives out nothing, then
            raise
        finally:
            self._waiting.pop(number, None)
            self._parts.pop(number, None)

    def _lost(self, do: str, *, maybe_done: bool) -> TriackError:
        if self._error is not None and not isinstance(self._error, ConnectionLost):
            return self._error
        how = "before it had answered: it may have done it, or not" if maybe_done else "and has not done it"
        return ConnectionLost(f"{do}: {self._whose} went away {how}", maybe_done=maybe_done)

    def post(self, op: str, **fields: Any) -> None:
        """Send the node a notice. Does nothing after the end, which gives all back.

        Raises HandOverEnded: a message in an acknowledgement was taken back; the others are done.
        """
        late: list[str] = []
        if op in ("ack", "reject") and self._taken_back:
            first = fields["message"]
            done = range(first, first + fields.get("count", 1))
            late = [self._taken_back.pop(number) for number in done if number in self._taken_back]
        if late and op == "ack":
            fields["told"] = True
        self._link.post(op, **fields)
        if late and op == "ack":
            raise HandOverEnded(late[-1])


def _error_of(header: Header) -> TriackError:
    """The error that a call raised at the node, as the same error here."""
    name, message = str(header.get("error")), str(header.get("message"))
    more: dict[str, str] = {key: str(header[key]) for key in ("reason", "peer", "rolled_back") if key in header}
    cause = str(header.get("cause", ""))
    if name == "ProtocolError":
        return ProtocolError(_REASONS.get(more["reason"], DropReason.BAD_FRAME), message.partition(": ")[2])
    kind = getattr(errors, name) if name in errors.__all__ else TriackError
    if cause:
        more["cause"] = cause
        message = message.removesuffix(f": {cause}")
    error = kind(message, **more)
    assert isinstance(error, TriackError)
    return error


_REASONS = {reason.value: reason for reason in DropReason}
