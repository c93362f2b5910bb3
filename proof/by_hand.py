"""A session that speaks the protocol by hand, over a real socket, as a bad peer does."""

import socket
import time
from typing import Self

from triack.base.datagram import Channel, Kind, read_header
from triack.base.errors import ProtocolError
from triack.queues.peers.introduction import Introduction
from triack.session.protocol import frames
from triack.session.protocol.binary import BINARY
from triack.session.protocol.policy import Policy
from triack.session.protocol.settings import SessionSettings
from triack.session.protocol.states import CloseReason
from triack.transport.address import Address

ANSWER_S = 0.5
CONNECTS_MAX = 4
"""Of a session: the node may first check its address."""
LONGEST_BYTES = 65_536


class Session:
    """A session with the node at an address. It acknowledges nothing.

    Attributes:
        is_open: whether the node has accepted it, and has not closed it.
        acked: the packets that the node has acknowledged.
        says_goodbye: whether it does at its end.
    """

    def __init__(
        self, address: str, channel: Channel, number: int, introduction: Introduction, datagram_bytes: int
    ) -> None:
        where = Address.parse(address)
        self.acked = 0
        self.is_open = self.says_goodbye = False
        self._channel = channel
        self._sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sock.connect((where.host, where.port))
        self._there, self._counter = 0, 1
        now_ns, said = time.monotonic_ns(), introduction.encode()
        hello = frames.Hello(number, number, now_ns, datagram_bytes, Policy.of(SessionSettings()), said)
        while not self.is_open and self._counter < CONNECTS_MAX:
            self._counter += 1
            self._sock.send(channel.seal(Kind.CONNECT, number, self._counter, BINARY.encode_hello(hello), now_ns))
            self.hear(ANSWER_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._there and self.says_goodbye:
            self.say(frames.CloseFrame(CloseReason.LOCAL_STOP))
        self._sock.close()

    def say(self, frame: frames.Frame, times: int = 1) -> None:
        """Send a datagram with this frame, or with several like it."""
        self._counter += 1
        payload, now_ns = times * BINARY.encode(frame), time.monotonic_ns()
        try:
            self._sock.send(self._channel.seal(Kind.DATA, self._there, self._counter, payload, now_ns))
        except BlockingIOError:
            pass  # the system accepts no more now
        except OSError:
            self.is_open = False

    def hear(self, wait_s: float) -> bool:
        """Read a datagram of the node. Returns whether one came."""
        self._sock.settimeout(wait_s)
        try:
            datagram = self._sock.recv(LONGEST_BYTES)
            header, now_ns = read_header(datagram), time.monotonic_ns()
            payload = self._channel.open(datagram, header, now_ns)
            if header.kind is Kind.ACCEPT:
                self._there, self.is_open = BINARY.decode_hello(payload).connection_id, True
                return True
            for frame in BINARY.decode(payload) if header.kind is Kind.DATA else ():
                if isinstance(frame, frames.AckFrame):
                    self.acked = max(self.acked, frame.cumulative)
                self.is_open = self.is_open and not isinstance(frame, frames.CloseFrame)
        except OSError:
            return False
        except ProtocolError:
            pass
        return True
