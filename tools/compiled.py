"""Whether the pure rooms run as machine code or as Python: the same files either way."""

from triack.base import ranges


def is_compiled() -> bool:
    """Whether this package was built with ``TRIACK_COMPILED=1``, as setup.py says."""
    return not str(ranges.__file__).endswith(".py")
