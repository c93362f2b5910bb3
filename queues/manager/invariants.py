"""What is true of an engine between two calls of it, whatever has come: each of its machines asserts its own part.

Simulations and searches check it after every step, so that a mistake shows where it is made, and not only in its
consequences. A node of an application never checks.
"""

from triack.queues.manager.engine import Engine


def check_invariants(engine: Engine) -> None:
    """Raise AssertionError where the state of an engine contradicts itself."""
    if engine.failure is not None:
        return  # a failed commit leaves its work half done, and the process ends
    for conversation in engine.handshakes.conversations.values():
        conversation.session.check_invariants()
    for outgoing in engine.outbox.streams:
        outgoing.sequence.check_invariants()
    for incoming in engine.inbox.streams:
        if incoming.ordered:
            incoming.sequence.check_invariants()
    for passing in engine.transits.streams:
        passing.sequence.check_invariants()
    engine.inbox.admission.check_invariants()
    engine.transits.room.disk.check_invariants()
