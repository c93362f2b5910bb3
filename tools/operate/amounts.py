"""Times and sizes as people say them."""

from triack.base.printable import counted

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"))
_SIZES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def age_of(seconds: float | None) -> str:
    """A number of seconds as people say it."""
    if seconds is None:
        return "-"
    for length, unit in _UNITS:
        if seconds >= length:
            return f"{seconds / length:.1f}{unit}"
    return f"{seconds:.0f}s"


def size_of(size_bytes: int) -> str:
    """A number of bytes as people say it."""
    for length, unit in _SIZES:
        if size_bytes >= length:
            return f"{size_bytes / length:.1f} {unit}"
    return counted(size_bytes, "byte")
