"""What a simulated world raises at the test."""

from triack.base.errors import TriackError

__all__ = ["MachineCrashed", "NotSimulated", "NothingHappens", "PromiseBroken", "ServiceDied", "TooMuchHappens"]


class NothingHappens(TriackError):
    """Every task waits, and nothing is planned that could wake one: the test would never end."""


class TooMuchHappens(TriackError):
    """The world goes round in circles: too many events, or time stands still."""


class NotSimulated(TriackError, NotImplementedError):
    """Code in the simulated world asked for the real one: a socket, a process, a file descriptor."""


class MachineCrashed(TriackError):
    """The machine crashed on which what was waited for ran."""


class ServiceDied(TriackError):
    """A service ended with an error, and the test did not look."""


class PromiseBroken(TriackError):
    """The session logs of the world's nodes show a broken promise."""
