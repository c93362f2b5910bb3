"""Ports for programs that are started next."""

import secrets
import socket
from contextlib import ExitStack
from itertools import chain

PORTS = range(10_000, 32_000)
"""Below those that systems give a program that asks for any port: none is taken by chance between
the look and the start."""


def free_port() -> int:
    """A port of loopback that nobody has now, neither over UDP nor over TCP: the first from any on."""
    first = secrets.randbelow(len(PORTS))
    for port in chain(PORTS[first:], PORTS[:first]):
        with ExitStack() as held:
            try:
                for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
                    held.enter_context(socket.socket(socket.AF_INET, kind)).bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError(f"none of {len(PORTS)} ports of loopback is free")
