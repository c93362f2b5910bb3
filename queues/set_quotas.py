"""Quotas that an operator has set for single queues. They override the settings, and outlive restarts."""

from collections.abc import Mapping
from struct import Struct

from triack.base.commit import OWN_STATE, Commit, kept_under
from triack.base.errors import StoreDamaged, UsageError
from triack.queues.node_settings import Quota

_PREFIX = f"{OWN_STATE}quota:"
_QUOTA = Struct("!QQ?")


class SetQuotas:
    """The set quotas of one node, by the name of their queue."""

    def __init__(self) -> None:
        self.by_name: dict[str, Quota] = {}

    def restore(self, state: Mapping[str, bytes]) -> None:
        """Restore the quotas from the store. Raises StoreDamaged."""
        for name, value in kept_under(state, _PREFIX):
            if len(value) != _QUOTA.size:
                raise StoreDamaged(f"quota of queue {name}: wrong length")
            messages, size_bytes, rejects = _QUOTA.unpack(value)
            try:
                self.by_name[name] = Quota(messages, size_bytes, "reject" if rejects else "hold")
            except UsageError as cause:
                raise StoreDamaged(f"quota of queue {name}: {cause}") from cause

    def set(self, name: str, quota: Quota, commit: Commit) -> None:
        """Set the quota of a queue with the next commit."""
        self.by_name[name] = quota
        commit.state[_PREFIX + name] = _QUOTA.pack(quota.messages, quota.size_bytes, quota.when_full == "reject")

    def unset(self, name: str, commit: Commit) -> bool:
        """Return a queue to the quota of the settings, with the next commit. Returns whether another one was set."""
        if self.by_name.pop(name, None) is None:
            return False
        commit.state[_PREFIX + name] = None
        return True
