"""The stage that a message has reached when ``send`` returns: HornetQ's switches, as values of a setting."""

from dataclasses import dataclass

from triack.base.delivery import DURABLE, Delivery
from triack.base.errors import UsageError
from triack.queues.stages import LAST_STAGES, Stage, StageName, as_stage


@dataclass(frozen=True, slots=True)
class Blocking:
    """What ``Node.send`` and ``send_many`` wait for before they return; ``until`` of a call overrides it.

    A commit always waits until it is on this node's disk, and with ``until`` of ``Transaction.commit`` for more.

    Attributes:
        durable: the stage that recoverable and transactional messages must reach, such as ``"stored"``; None: none.
        express: the same for express ones.
        acknowledge: whether a consumer waits until each acknowledgement, its own or ``Message.ack``, is on the disk
            before it hands out the next message. After a crash only the last message may then come again.
    """

    durable: Stage | StageName | None = None
    express: Stage | StageName | None = None
    acknowledge: bool = False

    def __post_init__(self) -> None:
        for name, lowest in (("durable", Delivery.RECOVERABLE), ("express", Delivery.EXPRESS)):
            stage = getattr(self, name)
            if stage is not None and as_stage(stage) > LAST_STAGES[lowest]:
                raise UsageError(f"Blocking: {name} messages do not all have the stage {as_stage(stage).name.lower()}")

    def stage_of(self, delivery: Delivery) -> Stage | StageName | None:
        """The stage that a message of that class must reach."""
        return self.durable if delivery in DURABLE else self.express
