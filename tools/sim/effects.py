"""What a process does to the world outside of it, counted, so that it can be ended before any of it."""

__all__ = ["Effects"]


class Effects:
    """The effects of the processes of one machine: a change of the disk, a record, a datagram.

    Attributes:
        count: effects so far.
        left: a process ends when so many more have happened, before the next one; negative for never.
    """

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
