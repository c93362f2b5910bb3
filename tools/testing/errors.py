"""The errors that a simulated world raises in the test."""

from triack.base.errors import TriackError


class NothingHappens(TriackError):
    """Every task waits, and nothing is planned that could wake one: the test would never end."""


class TooMuchHappens(TriackError):
    """The world does not come to an end: too many events, or time stands still."""


class NotSimulated(TriackError, NotImplementedError):
    """Code in the simulated world asked for the real one: a socket, a process, a file descriptor."""


class MachineCrashed(TriackError):
    """The machine on which the awaited work ran has crashed."""


class ServiceDied(TriackError):
    """A service ended with an error, and the test did not look."""


class PromiseBroken(TriackError):
    """The session logs of the world's nodes show a broken promise."""
