"""The work of one run, and the messages that it sends."""

from dataclasses import asdict, dataclass
from random import Random
from typing import Any, Literal

from triack.base.errors import UsageError
from triack.base.paths import UdpSockets
from triack.session.protocol.settings import SessionSettings

Mode = Literal["stream", "paced", "single"]
"""As fast as possible; at a rate, each with the time at which it was sent; one after the other."""

RING = 16_381
"""The number of different bodies, which then repeat: making and comparing them costs next to nothing, and the loss of
this many successive messages would show in the count. A prime, so that no batch or window divides it."""
_INDEX_BYTES = 4
HEAD_BYTES = 12
"""The index of a body in the ring, and the nanosecond at which it was sent where that is measured."""
_NOISE_BYTES = 16
"""This many bytes of a body do not occur by chance in encrypted data."""
SEED = 11


@dataclass(frozen=True, slots=True)
class Work:
    """One run.

    Attributes:
        delivery: the class, for Triack; other systems use their nearest.
        window: packets that may be unacknowledged; ``"auto"`` follows the path.
        congestion: how Triack shares the network over UDP.
        udp: its sockets for UDP; None for those of the system.
        messages: their number in place of a time; None for a time.
        in_flight_bytes: the limit of sent bytes that have not arrived.
        journal: whether the receiver's queue has a journal of everything that is read.
        acks: whether the sender asks for administration messages about every message, and reads them.
        complete: whether the run ends when everything has arrived, and not with the time.
        readers: readers that each get every message; 0 for one reader of a queue.
    """

    size: int = 100
    mode: Mode = "stream"
    delivery: str = "transactional"
    window: int | Literal["auto"] = 1_024
    transport: str = "udp"
    datagram_bytes: int = SessionSettings().max_datagram_bytes
    congestion: str = SessionSettings().congestion
    udp: UdpSockets | None = None
    rate: int = 2_000
    seconds: float = 5.0
    messages: int | None = None
    in_flight_bytes: int = 8 * 1024 * 1024
    log: bool = True
    insecure: bool = False
    acks: bool = False
    journal: bool = False
    complete: bool = True
    readers: int = 0

    def __post_init__(self) -> None:
        if self.size < HEAD_BYTES:
            raise UsageError(f"bench: messages of {self.size} bytes; {HEAD_BYTES} are needed to tell them apart")

    def to_json(self) -> dict[str, Any]:
        """For the processes of the run."""
        return asdict(self)

    @property
    def in_flight(self) -> int:
        """Messages that may be in flight."""
        return max(2, self.in_flight_bytes // self.size)


def noise_of(size: int) -> bytes:
    """The common end of all bodies of that size."""
    return Random(SEED).randbytes(size)[HEAD_BYTES:]


def make_ring(size: int) -> list[bytes]:
    """The bodies of that size, twice, so that no slice of them has to wrap around."""
    tail = bytes(HEAD_BYTES - _INDEX_BYTES) + noise_of(size)
    return 2 * [index.to_bytes(_INDEX_BYTES) + tail for index in range(RING)]


def index_of(body: bytes) -> int:
    """Which body of the ring it claims to be."""
    return int.from_bytes(body[:_INDEX_BYTES])


def stamped(body: bytes, now_ns: int) -> bytes:
    """The body with a time in it."""
    return body[:_INDEX_BYTES] + now_ns.to_bytes(HEAD_BYTES - _INDEX_BYTES) + body[HEAD_BYTES:]


def stamp_of(body: bytes) -> int:
    """The time in a body, 0 for none."""
    return int.from_bytes(body[_INDEX_BYTES:HEAD_BYTES])


def is_plain(datagram: bytes, noise: bytes) -> bool:
    """Whether bodies can be read on the wire."""
    return noise[:_NOISE_BYTES] in datagram
