"""The effects of a process on the world outside, counted, so that it can be ended before any of them."""


class Effects:
    """The effects of the processes of one machine: a change of the disk, a record, a datagram."""

    def __init__(self) -> None:
        self.count = 0
        self.left = -1

    def end_process(self) -> bool:
        """Count an effect that is about to happen. Returns whether the process ends before it does."""
        self.count += 1
        if self.left < 0:
            return False
        self.left -= 1
        return self.left < 0
