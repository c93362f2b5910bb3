"""ZeroMQ, PUSH to PULL over TCP: nothing is acknowledged, nothing is kept."""

from collections.abc import Sequence
from typing import Any

import zmq
import zmq.asyncio

from triack.tools.bench.application import Facts, Inlet, Outlet, Sink
from triack.tools.bench.work import Work

READ_MAX = 1_000


def _socket(kind: int, work: Work) -> zmq.asyncio.Socket:
    socket = zmq.asyncio.Context.instance().socket(kind)
    socket.set_hwm(work.in_flight // 2)
    return socket


class ZmqOutlet(Outlet):
    """Pushes without waiting for anything but room."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._socket = _socket(zmq.PUSH, Work(**options["work"]))
        self._socket.connect(options["found"]["address"])
        # The plain socket accepts a message without a future for each.
        self._plain: Any = zmq.Socket.shadow(self._socket)

    async def __aexit__(self, *error: object) -> None:
        self._socket.close()

    async def put(self, bodies: Sequence[bytes]) -> None:
        """Push; wait for room."""
        send = self._plain.send
        for body in bodies:
            try:
                send(body, zmq.NOBLOCK)
            except zmq.Again:
                await self._socket.send(body)


class ZmqInlet(Inlet):
    """Pulls all available messages."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._socket = _socket(zmq.PULL, Work(**options["work"]))
        self._port = self._socket.bind_to_random_port("tcp://127.0.0.1")

    async def __aexit__(self, *error: object) -> None:
        self._socket.close()

    def found(self) -> Facts:
        """Where it listens."""
        return {"address": f"tcp://127.0.0.1:{self._port}"}

    async def run(self, sink: Sink) -> None:
        """Wait for one message, read it and all behind it."""
        receive: Any = zmq.Socket.shadow(self._socket).recv
        while True:
            bodies = [await self._socket.recv()]
            try:
                while len(bodies) < READ_MAX:
                    bodies.append(receive(zmq.NOBLOCK))
            except zmq.Again:
                pass
            sink.take(bodies)
