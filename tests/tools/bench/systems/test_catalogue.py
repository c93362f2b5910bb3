"""The systems beside Triack, and the advice when one is not installed."""

import importlib.util
import shutil

import pytest

from triack.base.errors import TriackError, UsageError
from triack.tools.bench.systems.catalogue import PEERS, SYSTEMS, inlet_of, outlet_of, system_of


def test_every_peer_that_is_promised_is_there() -> None:
    assert set(PEERS) == {"redis", "nats", "rabbitmq", "zmq", "mosquitto", "outbox", "tcp"}
    with pytest.raises(UsageError, match="no system kafka; there are triack, tcp"):
        system_of("kafka")


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_has_its_two_ends(name: str) -> None:
    system = SYSTEMS[name]
    if system.library:
        pytest.importorskip(system.library)
    assert callable(system.load(system.outlet).put)
    assert callable(system.load(system.inlet).run)


def test_our_own_need_nothing() -> None:
    for name in ("triack", "tcp", "outbox"):
        SYSTEMS[name].check()


def test_what_is_missing_is_said_in_one_line_with_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(TriackError) as told:
        SYSTEMS["redis"].check()
    assert str(told.value) == (
        "bench --versus redis needs its Python client (pip install 'triack[bench]') and redis-server on the PATH "
        "(Debian: apt-get install redis-server)"
    )
    with pytest.raises(TriackError, match=r"^bench --versus zmq needs its Python client"):
        SYSTEMS["zmq"].check()


def test_a_process_gets_what_its_options_name() -> None:
    options = {"system": "tcp", "work": {}, "found": {"host": "127.0.0.1", "port": 1}}
    assert type(outlet_of(options)).__name__ == "TcpOutlet"
    assert type(inlet_of(options)).__name__ == "TcpInlet"
