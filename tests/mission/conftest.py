"""The simulated disks are closed after each test, as for tests of queues."""

from tests.queues.conftest import close_worlds

__all__ = ["close_worlds"]
