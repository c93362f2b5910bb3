"""The verb of a node that reads its settings again."""

from abc import ABC, abstractmethod
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What a file of settings that was read again has changed; keys as the file names them, ``limits.quota.messages``.

    Attributes:
        in_force: the keys whose new values are in force now.
        needs_restart: the keys whose new values are in force after a restart of the node.
    """

    in_force: tuple[str, ...]
    needs_restart: tuple[str, ...]


class Reloading(ABC):
    """The verb of a ``Node`` about its file of settings."""

    @abstractmethod
    async def _read_settings_again(self) -> Reloaded:
        """Do what ``reload`` says."""

    async def reload(self) -> Reloaded:
        """Read the file of settings again, and adopt what can change in a running node.

        These are quotas, the reserve of the disk, the waits of messages that failed, the queues that are passed on,
        addresses of peers, routes and bridges. The result names everything else that has changed in the file: a restart
        puts it in force.

        Returns:
            The keys that have changed.

        Raises:
            ConfigError: the file cannot be used, with every mistake in it; nothing has changed.
            IdentityError, NotLoopback: the addresses of peers cannot be used; nothing has changed.
            UsageError: the node was opened without a file of settings.
        """
        return await self._read_settings_again()
