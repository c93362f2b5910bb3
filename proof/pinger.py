"""A trusted peer whose datagrams are full of pings: it speaks the protocol by hand, over a real socket."""

import socket
import time
from collections.abc import Generator
from contextlib import suppress

from triack.base.datagram import Kind, read_header
from triack.base.errors import ProtocolError
from triack.queues.peers.introduction import Introduction
from triack.session.protocol.binary import BINARY
from triack.session.protocol.frames import CloseFrame, Hello, PingFrame
from triack.session.protocol.policy import Policy
from triack.session.protocol.settings import SessionSettings
from triack.transport.address import Address
from triack.transport.insecure import InsecureChannel

DATAGRAM_BYTES = 30_000
PER_SECOND = 1_285
"""Datagrams a second: five seconds of them once kept a node busy for a minute."""
ANSWER_S = 0.5
LONGEST_BYTES = 65_536
_CHANNEL = InsecureChannel()


def ping_for_ever(address: str) -> Generator[int, None, None]:
    """Open sessions with the node at that address, one when another one was closed; yields how many there were."""
    where = Address.parse(address)
    for number in range(1, 1 << 32):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.connect((where.host, where.port))
            connection_id = _open(sock, address, number)
            yield number
            if connection_id:
                _ping(sock, connection_id)


def _open(sock: socket.socket, address: str, number: int) -> int:
    """Open a session. Returns where its datagrams go; 0 without an answer."""
    introduction = Introduction(number.to_bytes(16, "big"), "pinger", "", address).encode()
    hello = Hello(number, number, 0, LONGEST_BYTES, Policy.of(SessionSettings()), introduction)
    sock.settimeout(ANSWER_S)
    sock.send(_CHANNEL.seal(Kind.CONNECT, number, 1, BINARY.encode_hello(hello), 0))
    try:
        while (header := read_header(answer := sock.recv(LONGEST_BYTES))).kind is not Kind.ACCEPT:
            pass
    except OSError:
        return 0
    return BINARY.decode_hello(_CHANNEL.open(answer, header, 0)).connection_id


def _ping(sock: socket.socket, connection_id: int) -> None:
    payload = BINARY.encode(PingFrame()) * (DATAGRAM_BYTES // len(BINARY.encode(PingFrame())))
    sock.setblocking(False)
    began, counter = time.monotonic(), 0
    while not _is_over(sock):
        counter += 1
        with suppress(OSError):  # the system accepts no more now
            sock.send(_CHANNEL.seal(Kind.DATA, connection_id, counter, payload, 0))
        time.sleep(max(0.0, began + counter / PER_SECOND - time.monotonic()))


def _is_over(sock: socket.socket) -> bool:
    try:
        while True:
            datagram = sock.recv(LONGEST_BYTES)
            header = read_header(datagram)
            if header.kind is Kind.DATA:
                frames = BINARY.decode(_CHANNEL.open(datagram, header, 0))
                if any(isinstance(frame, CloseFrame) for frame in frames):
                    return True
    except (BlockingIOError, ProtocolError):
        return False
