"""Compresses blocks of records of one length by columns, as neighbouring records differ in little."""

import zlib

_LEVEL = 4  # of zlib: 0.4 microseconds for a record; the best level saves only a twentieth more
_BY_DIFFERENCES, _AS_IT_IS = b"d", b"="
"""The first byte of a compressed block."""


class Columns:
    """Compresses the blocks of one kind of record.

    Args:
        record_bytes: length of a record.
        rising_bytes: length of its first fields, which rise by little from one record to the next.
        most: the most records in a block.
    """

    __slots__ = ("_record_bytes", "_rising")

    def __init__(self, record_bytes: int, rising_bytes: int, most: int) -> None:
        self._record_bytes = record_bytes
        # The bits of these fields in a block, read as one number.
        one = b"\xff" * rising_bytes + bytes(record_bytes - rising_bytes)
        self._rising = int.from_bytes(one * most, "little")

    def pack(self, block: bytearray) -> bytes:
        """Compress a block: the first bytes of all records, then the second ones, and so on.

        The rising fields become differences to the record before, unless one falls so far that all differences
        together, as one number, are negative.
        """
        record_bytes, mask = self._record_bytes, (1 << 8 * len(block)) - 1
        whole = int.from_bytes(block, "little")
        rising = whole & self._rising
        risen = (rising - (rising << 8 * record_bytes)) & mask
        kind = _AS_IT_IS
        if not risen & ~self._rising:
            kind, block = _BY_DIFFERENCES, bytearray((whole ^ rising | risen).to_bytes(len(block), "little"))
        return kind + zlib.compress(b"".join([block[at::record_bytes] for at in range(record_bytes)]), _LEVEL)

    def unpack(self, packed: bytes) -> bytearray:
        """Restore a compressed block."""
        columns, record_bytes = zlib.decompress(memoryview(packed)[1:]), self._record_bytes
        records, block = len(columns) // record_bytes, bytearray(len(columns))
        for at in range(record_bytes):
            block[at::record_bytes] = columns[at * records : (at + 1) * records]
        if packed[:1] == _AS_IT_IS:
            return block
        whole, mask = int.from_bytes(block, "little"), (1 << 8 * len(block)) - 1
        risen = whole & self._rising
        rest, bits = whole ^ risen, 8 * record_bytes
        while bits < 8 * len(block):  # sums of 2, of 4, of 8 differences
            risen = (risen + (risen << bits)) & mask
            bits *= 2
        return bytearray((rest | risen).to_bytes(len(block), "little"))
