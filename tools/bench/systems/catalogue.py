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
    """One system. Its two classes begin with ``prefix``; Debian has its server in a package of that name."""

    name: str
    module: str
    prefix: str
    promise: str
    library: str = ""
    server: str = ""
    fans_out: bool = False

    def check(self) -> None:
        """Raise TriackError if something is not installed, with how to get it."""
        missing = []
        if self.library and importlib.util.find_spec(self.library) is None:
            missing.append(f"its Python client ({EXTRA})")
        if self.server and shutil.which(self.server) is None:
            missing.append(f"{self.server} on the PATH (Debian: apt-get install {self.server})")
        if missing:
            raise TriackError(f"bench --versus {self.name} needs {' and '.join(missing)}")

    def load(self, kind: str) -> Any:
        """Its class of a kind: ``Outlet`` or ``Inlet``."""
        return getattr(importlib.import_module(f"{_HERE}.{self.module}"), f"{self.prefix}{kind}")


SYSTEMS = {
    system.name: system
    for system in (
        System("triack", "own", "Own", "what each row says", fans_out=True),
        System("tcp", "tcp", "Tcp", "received; lost with either process"),
        System("outbox", "outbox", "Outbox", "exactly once, in order, synced at both ends, in the clear"),
        System("zmq", "zeromq", "Zmq", "none (PUSH and PULL over TCP)", library="zmq"),
        System(
            "redis",
            "redis_streams",
            "Redis",
            "at least once, synced at the broker (stream, group, appendfsync always, 1,000 a batch)",
            library="redis",
            server="redis-server",
            fans_out=True,
        ),
        System("nats", "nats_core", "Nats", "none (NATS core)", library="nats", server="nats-server", fans_out=True),
        System(
            "rabbitmq",
            "rabbitmq",
            "Rabbit",
            "at least once, synced at the broker (quorum queue, publisher confirms)",
            library="aio_pika",
            server="rabbitmq-server",
        ),
        System(
            "mosquitto",
            "mosquitto",
            "Mosquitto",
            "exactly once per hop, in memory (MQTT QoS 2)",
            library="aiomqtt",
            server="mosquitto",
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
    outlet: Outlet = system_of(options["system"]).load("Outlet")(options)
    return outlet


def inlet_of(options: dict[str, Any]) -> Inlet:
    """The receiving end that the options of a process name."""
    inlet: Inlet = system_of(options["system"]).load("Inlet")(options)
    return inlet
