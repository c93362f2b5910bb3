"""Without load every connect is taken; under load each host has its share, whatever the others do."""

import pytest

from tests.transport.snapshots import snapshot
from triack.base.units import SECOND
from triack.transport.handshake_load import CONNECTS_PER_HOST, CONNECTS_PER_SECOND, Admission


def admitted(admission: Admission, address: str, now_ns: int, tries: int = 1_000) -> int:
    return sum(admission.admits(address, now_ns) for _ in range(tries))


def test_load_begins_above_a_number_of_connects_a_second() -> None:
    """At once or one after the other, and ends as soon as the rate falls."""
    admission = Admission(bytes(32))
    assert [admission.is_loaded(0) for _ in range(CONNECTS_PER_SECOND + 2)] == [False] * CONNECTS_PER_SECOND + [
        True
    ] * 2
    step_ns = SECOND // CONNECTS_PER_SECOND
    assert [admission.is_loaded(step_ns) for _ in range(2)] == [False, True]
    times_ns = [10 * SECOND + number * step_ns for number in range(1_000)]
    assert not any(admission.is_loaded(now_ns) for now_ns in times_ns)


def test_each_host_has_its_share() -> None:
    """Whatever ports it uses, and however much it asks for; it has it again a second later."""
    admission = Admission(bytes(32))
    assert sum(admission.admits(f"udp://192.0.2.1:{port}", 0) for port in range(1, 1_000)) == CONNECTS_PER_HOST
    assert admitted(admission, "udp://192.0.2.2:1", 0) == CONNECTS_PER_HOST
    assert admitted(admission, "tcp://192.0.2.1:1", SECOND // 2) == CONNECTS_PER_HOST // 2
    assert admitted(admission, "udp://192.0.2.1:1", 2 * SECOND) == CONNECTS_PER_HOST


@pytest.mark.parametrize(
    ("one", "other", "share"),
    [
        ("udp://[2001:db8::1]:7801", "udp://[2001:db8::ffff:1:2:3]:7801", True),
        ("udp://[2001:db8::1]:7801", "udp://[2001:db8:0:1::1]:7801", False),
        ("udp://[::ffff:192.0.2.1]:7801", "udp://192.0.2.1:7801", True),
        ("udp://[::ffff:192.0.2.1]:7801", "udp://[::ffff:192.0.2.2]:7801", False),
        ("udp://[fe80::1%eth0]:7801", "udp://[fe80::2%eth0]:7801", True),
        ("udp://192.0.2.1:7801?at=127.0.0.2", "udp://192.0.2.1:7802", True),
        ("memory://a", "memory://b", False),
    ],
)
def test_what_counts_as_one_host(one: str, other: str, share: bool) -> None:
    """An IPv6 network of 64 bits has one owner."""
    admission = Admission(bytes(32))
    assert admitted(admission, one, 0) == CONNECTS_PER_HOST
    assert (admitted(admission, other, 0) == 0) is share


@pytest.mark.slow
@pytest.mark.gate
def test_it_never_grows() -> None:
    """Hosts that fall on the same place share one."""
    admission = Admission(bytes(32))
    hosts = 20_000
    taken = sum(admission.admits(f"udp://10.{n >> 16}.{n >> 8 & 255}.{n & 255}:1", 0) for n in range(hosts))
    places = snapshot(admission)
    assert isinstance(places, dict)
    assert len(places["_hosts_ns"]) == 1_024
    assert taken <= 1_024 * CONNECTS_PER_HOST
