"""The row that every commit writes."""

from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Meta:
    """Its content.

    Attributes:
        serial: the number of the last commit that had one.
        log_bytes: the least size of the log; below 0: no log is needed now, and the size is this number's amount.
        clock: the node's clocks at the last commit that recorded them.
        records: how many records the session log of this start had when the last commit began.
    """

    node_id: bytes = b""
    incarnation: int = 0
    start: int = 0
    serial: int = 0
    log_bytes: int = 0
    clock: bytes = b""
    records: int = 0

    def row(self, tallies: bytes) -> tuple[Any, ...]:
        """As a row without its checksum."""
        values = self.node_id, self.incarnation, self.start, self.serial, self.log_bytes, self.clock, self.records
        return (1, *values, tallies)
