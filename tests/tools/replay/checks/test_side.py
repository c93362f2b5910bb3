"""What both sides of a stream know of its sequences."""

from triack.tools.replay.checks.findings import Output
from triack.tools.replay.checks.incoming_check import Incoming
from triack.tools.replay.checks.outgoing_check import Outgoing

COMMON = {"node": "n", "incarnation": 1, "n": 7, "at_ns": 5, "wall_ns": 6, "sequence": 5, "number": 1, "peer": "o"}


def test_a_sequence_has_the_class_of_the_first_record_of_it() -> None:
    """An order ack names no class: only transactional packets have one."""
    for side in (Incoming("n", "o", 1, Output()), Outgoing("n", "n", 1, Output())):
        side.handle_order_ack(COMMON)
        assert side.sequences[5].cls == "transactional"
    sender = Outgoing("n", "n", 1, Output())
    for cls in ("recoverable", "express"):
        sender.handle_ended({**COMMON, "class": cls})
    assert {number: it.cls for number, it in sender.sequences.items()} == {5: "recoverable"}
