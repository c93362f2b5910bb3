"""The simulated network: what it loses, delays and carries."""

from collections.abc import Callable

import apsw
import pytest

from tests.tools.sim.files import open_file, written
from triack.base.commit import Commit, OutgoingRow
from triack.base.units import MS, SECOND
from triack.tools.sim.disk import Disk, FailAt
from triack.tools.sim.effects import Effects
from triack.tools.sim.faults import Faults
from triack.tools.sim.flows import FlowTable
from triack.tools.sim.network import STREAM_PATIENCE_NS, Network, Port
from triack.tools.sim.storms import BEGUN, EACH, MINUTES, MOST, Storms, accepted_in
from triack.tools.sim.world import World

A, B = "udp://a:1", "udp://b:1"
TCP_A, TCP_B = "tcp://a:1", "tcp://b:1"


class Net:
    """Two ends, and what arrived at each."""

    def __init__(self, faults: Faults | None = None, *, a: str = A, b: str = B, seed: int = 1) -> None:
        self.world = World(seed)
        self.network = Network(self.world, faults)
        self.got: dict[str, list[tuple[bytes, str]]] = {a: [], b: []}
        self.gone: dict[str, list[str]] = {a: [], b: []}
        for address in (a, b):
            self.listen(address)

    def listen(self, address: str) -> None:
        got, gone = self.got[address], self.gone[address]
        self.network.attach(address, Port(lambda data, sender: got.append((data, sender)), gone.append))

    def send(self, count: int, sender: str = A, to: str = B, size_bytes: int = 100) -> None:
        for number in range(count):
            self.network.send(b"%06d" % number + b"." * size_bytes, sender, to)
            self.world.run(MS)

    def numbers(self, address: str = B) -> list[int]:
        return [int(data[:6]) for data, _ in self.got[address]]


@pytest.mark.parametrize(("a", "b", "arrived"), [(A, B, 3), (TCP_A, TCP_B, 5)])
def test_a_slow_link_takes_its_time_and_loses_what_finds_its_queue_full(a: str, b: str, arrived: int) -> None:
    """A second for each datagram, with its headers; a TCP connection waits for its turn."""
    net = Net(Faults(rate_bps=8_000, queue_bytes=2_000, delay_ns=0), a=a, b=b)
    for _ in range(5):
        net.network.send(bytes(972), a, b)
    for seconds in range(5):
        net.world.run(SECOND - MS)
        assert len(net.got[b]) == min(seconds, arrived)
        net.world.run(MS)
    assert len(net.got[b]) == arrived


def test_a_narrow_path_loses_what_is_longer_one_way_and_for_good() -> None:
    """Wherever the two hosts are, until it carries something else."""
    net = Net(Faults())
    net.network.narrow(A, B, 100)
    for size in (100, 101):
        net.network.send(bytes(size), A, B)
        net.network.send(bytes(size), B, A)
    net.network.heal()
    net.network.send(bytes(101), A, B)
    net.world.run(SECOND)
    assert [len(data) for data, _ in net.got[B]] == [100]
    assert [len(data) for data, _ in net.got[A]] == [100, 101]
    net.network.narrow(A, B, 0)
    net.network.send(bytes(60_000), A, B)
    net.world.run(SECOND)
    assert len(net.got[B]) == 2


def test_a_cut_has_a_direction() -> None:
    """The other way works, after its delay and with the sender's address."""
    net = Net(Faults(delay_ns=5 * MS))
    net.network.cut(A, B)
    net.send(3)
    net.send(3, B, A)
    net.world.run(3 * MS)
    assert [data[:6] for data, sender in net.got[A] if sender == B] == [b"000000", b"000001"]
    net.world.run(SECOND)
    assert (len(net.got[B]), len(net.got[A])) == (0, 3)
    net.network.heal()
    net.send(3)
    net.world.run(SECOND)
    assert len(net.got[B]) == 3


def test_a_rebound_host_is_seen_elsewhere_and_answers_must_follow() -> None:
    net = Net()
    net.network.rebind(A)
    net.send(1)
    net.world.run(SECOND)
    seen = net.got[B][0][1]
    assert seen != A
    net.network.send(b"to the new", B, seen)
    net.network.rebind(A)
    net.network.send(b"to the old", B, seen)
    net.world.run(SECOND)
    assert [data for data, _ in net.got[A]] == [b"to the new"]


def test_a_hidden_host_is_reached_by_its_own_flows_only() -> None:
    """Not at its own address, and not any more when it has been silent for too long; and cuts find it there, too."""
    net = Net()
    net.network.hide(A, 100 * MS)
    net.send(1, B, A)
    net.send(1)
    net.world.run(10 * MS)
    seen = net.got[B][0][1]
    net.network.send(b"in time", B, seen)
    net.network.cut(B, A)
    net.network.send(b"cut", B, seen)
    net.network.heal()
    net.world.run(SECOND)
    net.network.send(b"too late", B, seen)
    net.world.run(SECOND)
    assert [data for data, _ in net.got[A]] == [b"in time"]
    assert net.network.counts["forgotten"] == 2


def test_a_stream_keeps_order_and_loses_nothing() -> None:
    net = Net(Faults(loss=0.3, reorder=0.5, duplicate=0.5, jitter_ns=20 * MS), a=TCP_A, b=TCP_B)
    net.send(200, TCP_A, TCP_B)
    net.world.run(60 * SECOND)
    assert net.numbers(TCP_B) == list(range(200))


def test_what_a_stream_holds_follows_when_the_loss_ends() -> None:
    """However much has gathered behind it; and nothing of it outlives the process that it was for."""
    net = Net(Faults(loss=0.9), a=TCP_A, b=TCP_B)
    for restarted in (False, True):
        net.network.faults = Faults(loss=0.9)
        net.send(500, TCP_A, TCP_B)
        net.world.run(SECOND)
        before = net.numbers(TCP_B)
        assert len(before) < 50
        if restarted:
            net.network.detach(TCP_B)
            net.listen(TCP_B)
        net.network.faults = Faults()
        net.world.run(30 * SECOND)
        assert net.numbers(TCP_B) == (before if restarted else list(range(500)))
        net.got[TCP_B].clear()


def test_a_stream_survives_a_short_cut_and_ends_with_a_long_one() -> None:
    """Both ends learn that the path is gone, and what was held is lost."""
    net = Net(a=TCP_A, b=TCP_B)
    net.network.cut(TCP_A, TCP_B)
    net.send(3, TCP_A, TCP_B)
    net.world.run(STREAM_PATIENCE_NS // 2)
    net.network.heal()
    net.world.run(SECOND)
    assert net.numbers(TCP_B) == [0, 1, 2]
    net.network.cut(TCP_A, TCP_B)
    net.send(3, TCP_A, TCP_B)
    net.world.run(2 * STREAM_PATIENCE_NS)
    assert TCP_B in net.gone[TCP_A]
    assert TCP_A in net.gone[TCP_B]
    net.network.heal()
    net.world.run(SECOND)
    assert net.numbers(TCP_B) == [0, 1, 2]


def test_who_calls_an_address_of_the_other_transport_is_answered_where_it_calls_from() -> None:
    """By a stream, in order and without loss, though it listens for datagrams itself; its next process calls anew."""
    net = Net(Faults(loss=0.5), b=TCP_B)
    net.send(20, A, TCP_B)
    net.world.run(60 * SECOND)
    assert net.numbers(TCP_B) == list(range(20))
    (caller,) = {sender for _, sender in net.got[TCP_B]}
    assert caller.startswith("tcp://a:")
    net.send(20, TCP_B, caller)
    net.world.run(60 * SECOND)
    assert net.got[A] == [(data, TCP_B) for data, _ in net.got[A]]
    assert net.numbers(A) == list(range(20))
    net.network.detach(A)
    net.listen(A)
    net.world.run(SECOND)
    assert net.gone[TCP_B] == [caller]
    net.send(1, TCP_B, caller)
    net.send(1, A, TCP_B)
    net.world.run(10 * SECOND)
    assert len(net.got[A]) == 20
    assert net.gone[TCP_B] == [caller, caller]
    assert net.got[TCP_B][-1][1] not in (caller, A)


def test_a_stream_calls_by_datagrams_too() -> None:
    net = Net(Faults(loss=0.5), a=TCP_A)
    net.send(100, TCP_A, B)
    net.world.run(SECOND)
    assert 20 < len(net.got[B]) < 80
    assert {sender.partition(":")[0] for _, sender in net.got[B]} == {"udp"}


def test_a_cut_is_between_hosts_wherever_they_call_from() -> None:
    """Bytes that a stream held go on when it is healed soon; later both ends know that it is gone."""
    net = Net(Faults(delay_ns=MS), b=TCP_B)
    net.send(1, A, TCP_B)
    net.world.run(SECOND)
    caller = net.got[TCP_B][0][1]
    net.network.cut(A, TCP_B)
    net.network.cut(TCP_B, A)
    net.send(2, A, TCP_B)
    net.send(2, TCP_B, caller)
    net.world.run(STREAM_PATIENCE_NS // 2)
    assert (len(net.got[A]), len(net.got[TCP_B])) == (0, 1)
    net.network.heal()
    net.world.run(SECOND)
    assert (len(net.got[A]), len(net.got[TCP_B])) == (2, 3)
    net.network.cut(A, TCP_B)
    net.world.run(STREAM_PATIENCE_NS + SECOND)
    assert (net.gone[A], net.gone[TCP_B]) == ([TCP_B], [caller])


def test_a_new_name_is_gone_with_the_power_until_the_directory_is_synced(disk: Disk) -> None:
    """The first sync of a new log syncs the directory, that of another file does not."""
    open_file(disk, "database", apsw.SQLITE_OPEN_MAIN_DB).xSync(2)
    disk.lose_power_with([])
    assert disk.files() == {}
    open_file(disk, "database", apsw.SQLITE_OPEN_MAIN_DB)
    open_file(disk).xSync(2)
    disk.lose_power_with([])
    assert sorted(disk.files()) == ["database", "log"]


@pytest.mark.parametrize("synced", [False, True])
def test_a_deleted_file_comes_back_unless_the_directory_was_synced(disk: Disk, synced: bool) -> None:
    written(disk, b"content").xSync(2)
    files = apsw.VFS("shim", disk.vfs)
    files.xDelete("log", synced)
    files.unregister()
    assert disk.files() == {}
    disk.lose_power_with([])
    assert disk.files() == ({} if synced else {"log": b"content"})


def test_a_call_fails_when_it_should(disk: Disk) -> None:
    """By its number, once or from then on, of all calls or of one kind."""
    file = written(disk, b"one")
    disk.fail_at = FailAt(disk.calls + 2)
    file.xWrite(b"two", 0)
    with pytest.raises(apsw.IOError, match="EIO"):
        file.xWrite(b"bad", 0)
    file.xWrite(b"3", 0)
    assert (disk.files()["log"], disk.failed) == (b"3wo", 1)
    disk.fail_later("sync", 1, forever=True)
    file.xSync(2)
    for _ in range(2):
        file.xWrite(b"4", 0)
        with pytest.raises(apsw.IOError, match="EIO"):
            file.xSync(2)
    disk.calm()
    file.xSync(2)


@pytest.mark.parametrize("call", ["open", "read", "write", "truncate", "sync", "delete"])
def test_every_call_can_fail_by_chance(disk: Disk, call: str) -> None:
    file, files = written(disk, b"content"), apsw.VFS(f"shim-{call}", disk.vfs)
    calls: dict[str, Callable[[], object]] = {
        "open": lambda: open_file(disk),
        "read": lambda: file.xRead(1, 0),
        "write": lambda: file.xWrite(b"x", 0),
        "truncate": lambda: file.xTruncate(0),
        "sync": lambda: file.xSync(2),
        "delete": lambda: files.xDelete("log", False),
    }
    setattr(disk.faults, call, 1.0)
    with pytest.raises(apsw.CantOpenError if call == "open" else apsw.IOError):
        calls[call]()
    disk.calm()
    assert disk.files() == {"log": b"content"}
    calls[call]()
    files.unregister()


def test_a_file_that_is_not_there_cannot_be_deleted(disk: Disk) -> None:
    """And SQLite learns that this is why: it does not mind."""
    files = apsw.VFS("shim-gone", disk.vfs)
    with pytest.raises(apsw.IOError) as caught:
        files.xDelete("log", False)
    assert caught.value.extendedresult == apsw.SQLITE_IOERR_DELETE_NOENT  # type: ignore[attr-defined]
    assert disk.failed == 0
    files.unregister()


@pytest.mark.parametrize("kind", ["full", "short"])
def test_a_full_disk_takes_nothing_or_a_part(disk: Disk, kind: str) -> None:
    file = written(disk)
    setattr(disk.faults, kind, 1.0)
    with pytest.raises(apsw.FullError):
        file.xWrite(b"x" * 100, 0)
    size = len(disk.files()["log"])
    assert size == 0 if kind == "full" else 0 < size < 100


def test_a_failed_sync_makes_nothing_durable_and_can_be_repeated(disk: Disk) -> None:
    file = written(disk, b"")
    file.xSync(2)
    file.xWrite(b"content", 0)
    disk.fail_later("sync", 0)
    with pytest.raises(apsw.IOError):
        file.xSync(2)
    before = disk.snapshot()
    disk.lose_power_with([])
    assert disk.files() == {"log": b""}
    disk.restore(before)
    open_file(disk).xSync(2)
    disk.lose_power_with([])
    assert disk.files() == {"log": b"content"}


def test_after_a_failed_sync_the_bytes_are_seen_and_never_durable(disk: Disk) -> None:
    """If they were dropped: not even by a sync that works, unless they are written again."""
    file = written(disk, b"dropped")
    file.xSync(2)
    file.xWrite(b"DROPPED", 0)
    disk.fail_later("sync", 0, drops=True)
    with pytest.raises(apsw.IOError):
        file.xSync(2)
    file.xSync(2)
    file.xWrite(b"R", 1)
    file.xSync(2)
    assert disk.files() == {"log": b"DROPPED"}
    disk.lose_power_with([])
    assert disk.files() == {"log": b"dRopped"}


def test_a_lying_sync_makes_nothing_durable(disk: Disk) -> None:
    disk.faults.lies = 1.0
    file = written(disk, b"promised")
    file.xSync(2)
    assert [change.kind for change in disk.unsynced] == ["create", "write"]
    disk.calm()
    file.xSync(2)
    assert [change.kind for change in disk.unsynced] == ["create"]


INSIDE, OUTSIDE = "udp://a:1", "udp://b:1"


def test_what_leaves_keeps_a_flow_and_what_arrives_does_not() -> None:
    """RFC 4787, section 4.3: nobody outside can keep a hole open. Whose flow it is stays known, for a cut."""
    flows = FlowTable()
    flows.hide(INSIDE, 100)
    seen = flows.handle_leaving(INSIDE, OUTSIDE, 0)
    assert flows.handle_leaving(INSIDE, OUTSIDE, 90) == seen
    assert flows.inside_of(seen, OUTSIDE, 189) == INSIDE
    assert flows.inside_of(seen, OUTSIDE, 190) is None
    assert flows.handle_leaving(INSIDE, OUTSIDE, 190) != seen
    flows.hide(INSIDE, 0)
    assert (flows.home_of(seen), flows.home_of(OUTSIDE)) == (INSIDE, OUTSIDE)
    assert flows.inside_of(INSIDE, OUTSIDE, 191) == INSIDE


MINUTE = 60 * SECOND
TO = "udp:10.0.0.2:1"
PROGRESS = Commit(outgoing=[OutgoingRow(1, 1, 0, b"")])


def test_much_in_some_minutes_is_a_storm() -> None:
    """Datagrams, and wakes for nothing. It is told of once for each node; a minute of quiet makes it none."""
    storms = Storms()
    for minute in range(MINUTES + 2):
        assert len(storms.violations) == (2 if minute > MINUTES else 0)
        storms.handle_sent("a", TO, MOST + 1, minute * MINUTE)
        storms.handle_sent("backlog", TO, MOST + 1 if minute % MINUTES else 1, minute * MINUTE)
        for _ in range(MOST + 1):
            storms.handle_woken("b", minute * MINUTE)
    assert [(rule, sentence[:2]) for rule, sentence in storms.violations] == [("storm", "a:"), ("storm", "b:")]
    assert storms.violations[0][1].startswith(f"a: more than {MOST} datagrams sent in each of {MINUTES} minutes")


def test_with_each_message_that_comes_or_goes_it_begins_anew() -> None:
    for commit, storm in ((PROGRESS, False), (Commit(outgoing_deletes=[(1, 1)]), False), (Commit(serial=7), True)):
        storms = Storms()
        for minute in range(MINUTES + 1):
            storms.handle_sent("a", TO, MOST + 1, minute * MINUTE)
            if minute == 1:
                storms.handle_commit("a", commit, minute * MINUTE + 1)
        assert bool(storms.violations) is storm


@pytest.mark.parametrize("what", EACH)
def test_a_run_may_do_so_much_for_each_packet_and_second(what: str) -> None:
    """One more is told of, with the node, the figure, its bound, and where and when most of it was."""
    most = EACH[what] * (30 + 10 + BEGUN)
    storms = Storms()
    for number in range(most):
        now_ns = (5 if number % 3 else 6) * SECOND
        if what == "datagrams sent":
            storms.handle_sent("a", TO if number % 4 else "udp:other:1", 1, now_ns)
        elif what == "commits":
            storms.handle_commit("a", Commit(state={"k": b"v"}) if number % 4 else PROGRESS, now_ns)
        else:
            storms.handle_woken("a", now_ns)
    storms.judge("a", 30, 10 * SECOND)
    assert storms.violations == []
    storms.judge("b", 0, 0)
    assert storms.violations == []
    storms.judge("a", 29, 10 * SECOND)
    there = most if what == "wakes for nothing" else sum(number % 4 > 0 for number in range(most))
    then = sum(number % 3 > 0 for number in range(most))
    ((rule, sentence),) = storms.violations
    assert rule == "effort"
    assert sentence.startswith(f"a: {most} {what}, at most {most - EACH[what]} for 29 packets in 10 s; {there} ")
    assert sentence.endswith(f", {then} in second 5")


def test_packets_are_accepted_of_applications_for_queues_here_and_to_pass_on() -> None:
    """Those that a start finds on the disk are not accepted again, and nothing else counts."""
    accepted = [{"event": event, "first": 3, "last": 5} for event in ("queued", "committed", "transit_committed")]
    assert accepted_in(accepted) == 9
    assert accepted_in([record | {"recovered": True} for record in accepted]) == 0
    assert accepted_in([{"event": "packet_sent", "first": 1, "last": 9}, {"v": 1}]) == 0


@pytest.mark.parametrize("left", [0, 1, 5])
def test_a_process_ends_after_a_number_of_effects(left: int) -> None:
    """That many still happen; the next one is counted, and is the end."""
    effects = Effects()
    assert not effects.end_process()
    effects.left = left
    ends = [effects.end_process() for _ in range(left + 1)]
    assert ends == [False] * left + [True]
    assert effects.count == left + 2
