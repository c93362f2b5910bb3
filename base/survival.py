"""What a node's store survives: the one promise that a setting may weaken, named by the loss."""

from typing import Literal, get_args

__all__ = ["SURVIVES", "Survives"]

Survives = Literal["power loss", "process crash", "nothing"]
"""The worst that what a store holds survives. ``power loss``: a commit is on the disk when it returns. ``process
crash``: it is with the system, which writes it later. ``nothing``: it is in memory."""

SURVIVES: tuple[Survives, ...] = get_args(Survives)
"""All of them, strongest first; their places are their codes between nodes, so none may move."""
