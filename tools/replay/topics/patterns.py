"""Which names of topics a pattern matches.

Written down here and not taken from the topics themselves, because a judge that uses the code it judges proves nothing.
"""

from __future__ import annotations

from typing import Final

ONE: Final = "*"
"""In a pattern, any one level."""
ALL: Final = "#"
"""At the end of a pattern, the name before it and all below."""


def full_name(topic: str, below: str) -> str:
    """Return a message's name, given its topic and the levels below that."""
    return f"{topic}.{below}" if below else topic


def matches(pattern: str, name: str) -> bool:
    """Return whether a pattern matches a name: level by level."""
    wanted, levels = pattern.split("."), name.split(".")
    if wanted[-1] == ALL:
        wanted.pop()
        levels = levels[: len(wanted)]
    return len(wanted) == len(levels) and all(want in (ONE, level) for want, level in zip(wanted, levels, strict=True))
