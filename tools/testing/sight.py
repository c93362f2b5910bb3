"""The state of the nodes of a simulated world, to explain why something does not happen."""

from collections.abc import Iterable

from triack.base.printable import counted
from triack.queues.mailboxes.system_queues import DEAD_LETTER_QUEUE
from triack.stats.node_stats import NodeStats
from triack.testing.machine import Machine


def describe_nodes(machines: Iterable[Machine]) -> list[str]:
    """A line for each node that runs: its queues, its sessions, and its messages in transit."""
    running = [machine for machine in machines if machine.is_up]
    return [
        f"{name} on {machine.name}: {_describe(look())}" for machine in running for name, look in machine.nodes.items()
    ]


def _describe(stats: NodeStats) -> str:
    parts = [
        f"queue {name} has {counted(queue.messages, 'message')}"
        for name, queue in stats.queues.items()
        if name != DEAD_LETTER_QUEUE
    ]
    dead = ", ".join(f"{count} for {reason}" for reason, count in stats.dead_letters.items())
    letters = stats.queues[DEAD_LETTER_QUEUE].messages
    if letters or dead:
        parts.append(f"{DEAD_LETTER_QUEUE} has {counted(letters, 'message')}" + (f" ({dead})" if dead else ""))
    parts += [
        f"{counted(outgoing.packets, 'packet')} on the way to {outgoing.peer}/{outgoing.queue}"
        for outgoing in stats.outgoing
        if outgoing.packets
    ]
    parts += [
        f"session with {session.peer}, {session.unacknowledged} of {counted(session.window, 'packet')} unacknowledged"
        for session in stats.sessions
    ]
    return "; ".join(parts if stats.sessions else [*parts, "no session"])
