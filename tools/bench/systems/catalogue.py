"""The systems by name: a description, the requirements, and the promise of each as it is set up here."""

import importlib
import importlib.util
import shutil
from dataclasses import dataclass
from typing import Any

from triack.base.errors import TriackError, UsageError
from triack.tools.bench.application import Inlet, Outlet

_HERE = "triack.tools.bench.systems"
EXTRA = "pip install 'triack[bench]'"


@dataclass(frozen=True, slots=True)
class System:
    """One system."""

    name: str
    module: str
    outlet: str
    inlet: str
    promise: str
    library: str = ""
    server: str = ""
    package: str = ""
    fans_out: bool = False

    def check(self) -> None:
        """Raise TriackError if something is not installed, with how to get it."""
        missing = []
        if self.library and importlib.util.find_spec(self.library) is None:
            missing.append(f"its Python client ({EXTRA})")
        if self.server and shutil.which(self.server) is None:
            missing.append(f"{self.server} on the PATH (Debian: apt-get install {self.package})")
        if missing:
            raise TriackError(f"bench --versus {self.name} needs {' and '.join(missing)}")

    def load(self, kind: str) -> Any:
        """One of its two classes."""
        return getattr(importlib.import_module(f"{_HERE}.{self.module}"), kind)


SYSTEMS = {
    system.name: system
    for system in (
        System("triack", "own", "OwnOutlet", "OwnInlet", "what each row says", fans_out=True),
        System("tcp", "tcp", "TcpOutlet", "TcpInlet", "received; lost with either process"),
        System(
            "outbox",
            "outbox",
            "OutboxOutlet",
            "OutboxInlet",
            "exactly once, in order, synced at both ends, in the clear",
        ),
        System("zmq", "zeromq", "ZmqOutlet", "ZmqInlet", "none (PUSH and PULL over TCP)", library="zmq"),
        System(
            "redis",
            "redis_streams",
            "RedisOutlet",
            "RedisInlet",
            "at least once, synced at the broker (stream, group, appendfsync always, 1,000 a batch)",
            library="redis",
            server="redis-server",
            package="redis-server",
            fans_out=True,
        ),
        System(
            "nats",
            "nats_core",
            "NatsOutlet",
            "NatsInlet",
            "none (NATS core)",
            library="nats",
            server="nats-server",
            package="nats-server",
            fans_out=True,
        ),
        System(
            "rabbitmq",
            "rabbitmq",
            "RabbitOutlet",
            "RabbitInlet",
            "at least once, synced at the broker (quorum queue, publisher confirms)",
            library="aio_pika",
            server="rabbitmq-server",
            package="rabbitmq-server",
        ),
        System(
            "mosquitto",
            "mosquitto",
            "MosquittoOutlet",
            "MosquittoInlet",
            "exactly once per hop, in memory (MQTT QoS 2)",
            library="aiomqtt",
            server="mosquitto",
            package="mosquitto",
        ),
    )
}
PEERS = tuple(name for name in SYSTEMS if name != "triack")


def system_of(name: str) -> System:
    """A system by its name. Raises UsageError if there is none."""
    if name not in SYSTEMS:
        raise UsageError(f"bench: no system {name}; there are {', '.join(SYSTEMS)}")
    return SYSTEMS[name]


def outlet_of(options: dict[str, Any]) -> Outlet:
    """The sending end that the options of a process name."""
    system = system_of(options["system"])
    outlet: Outlet = system.load(system.outlet)(options)
    return outlet


def inlet_of(options: dict[str, Any]) -> Inlet:
    """The receiving end that the options of a process name."""
    system = system_of(options["system"])
    inlet: Inlet = system.load(system.inlet)(options)
    return inlet
