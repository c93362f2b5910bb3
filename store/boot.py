"""The system's id of its current boot. It tells a process whether the system has restarted since another one ran."""

from functools import cache
from pathlib import Path

from triack.base.clock import BOOT_BYTES

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
"""Linux's name for a boot, a UUID (random(4)). A container shares that of its machine, on which its files depend."""


@cache
def boot_id() -> bytes:
    """16 bytes that no other boot has; empty where the system does not tell."""
    try:
        boot = bytes.fromhex(BOOT_ID.read_text(encoding="ascii").strip().replace("-", ""))
    except (OSError, ValueError):
        return b""
    return boot if len(boot) == BOOT_BYTES else b""
