"""The bodies that the demo sends; each names its index."""

from random import Random

SIZE_MIN = 20
_INDEX = b"%020d"


class Bodies:
    """All bodies of a run; sender and receiver make the same."""

    def __init__(self, size_bytes: int, seed: int) -> None:
        noise = Random(seed).randbytes(size_bytes - SIZE_MIN)
        self._form = _INDEX + noise.replace(b"%", b"%%")

    def make(self, index: int) -> bytes:
        """The body of message ``index``, from 0."""
        return self._form % index

    @staticmethod
    def index_of(body: bytes) -> int | None:
        """Which message a body claims to be."""
        digits = body[:SIZE_MIN]
        return int(digits) if len(digits) == SIZE_MIN and digits.isdigit() else None
