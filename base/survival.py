"""The failures that a node's store survives. Only this promise may be weakened by a setting; the loss names it."""

from typing import Literal, get_args

Survives = Literal["power loss", "process crash", "nothing"]
"""The worst failure that the content of a store survives. ``power loss``: a commit is on the disk when it returns.
``process crash``: the system has it and writes it later. ``nothing``: it is in memory."""

SURVIVES: tuple[Survives, ...] = get_args(Survives)
"""Strongest first. Their places are their codes between nodes, so none may move."""
