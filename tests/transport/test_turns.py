"""Which source's datagrams come next: each source has its turn of processor time, regardless of the others."""

from triack.base.units import MS
from triack.transport.turns import AHEAD_NS, BURST_MAX, SOURCES_MAX, TURN_BYTES, TURN_DATAGRAMS, Received, Turns


def waiting(**counts: int) -> Turns:
    turns = Turns()
    for source, count in counts.items():
        add(turns, source, count)
    return turns


def add(turns: Turns, source: str, count: int, size_bytes: int = 10) -> None:
    turns.add(source, [Received(bytes(size_bytes), source)] * count, count * size_bytes)


def test_a_source_alone_has_the_whole_burst() -> None:
    """In order, and as many as a burst may have."""
    turns = Turns()
    sent = [Received(b"%d" % number, "a") for number in range(BURST_MAX + 1)]
    turns.add("a", sent, sum(len(it.data) for it in sent))
    first, second = turns.take(0), turns.take(0)
    assert [*first, *second] == sent
    assert (first.turns, second.turns) == ([("a", BURST_MAX)], [("a", 1)])
    assert (turns.count, turns.held_bytes) == (0, 0)


def test_everybody_has_a_turn_in_each_burst() -> None:
    """The few of one source come before the many that another one had there first."""
    turns = waiting(many=5_000, few=3)
    burst = turns.take(0)
    assert burst.turns[:2] == [("many", TURN_DATAGRAMS), ("few", 3)]
    assert len(burst) == BURST_MAX


def test_who_has_cost_more_waits_until_the_others_have_had_as_much() -> None:
    """The processor is shared, not the number of datagrams."""
    turns, spent_ns = waiting(dear=5_000, cheap=5_000), {"dear": 0, "cheap": 0}
    for _ in range(200):
        for source, count in turns.take(0).turns:
            cost_ns = count * (200_000 if source == "dear" else 2_000)
            spent_ns[str(source)] += cost_ns
            turns.charge(source, cost_ns)
        add(turns, "cheap", max(0, 5_000 - turns.waiting_of("cheap")[0]))
    assert spent_ns["dear"] <= spent_ns["cheap"] + AHEAD_NS + BURST_MAX * 200_000


def test_a_rest_saves_nothing_up() -> None:
    """A source that comes back begins where the others are, so that it cannot stay ahead of them for long."""
    turns = waiting(busy=50 * BURST_MAX)
    for _ in range(20):
        turns.take(0)
        turns.charge("busy", 10 * MS)
    add(turns, "rested", 1_000)
    assert turns.take(0).turns[0][0] == "rested"
    turns.charge("rested", 10 * MS)
    assert turns.take(0).turns[0][0] == "busy"


def test_a_turn_is_bounded_in_bytes() -> None:
    """Large datagrams come by fewer, one at least."""
    turns = Turns()
    for source in ("a", "b"):
        add(turns, source, 20, TURN_BYTES)
    assert turns.take(0).turns[:2] == [("a", 1), ("b", 1)]


def test_the_end_of_a_path_comes_last() -> None:
    """Behind all datagrams of its sender, whichever sender that is."""
    turns, end = Turns(), Received(b"", "here")
    turns.add("a", [Received(b"1", "here"), Received(b"2", "here")], 2)
    add(turns, "b", 1)
    turns.add_behind(end)
    assert [it for it in turns.take(0) if it.sender == "here"][-1] == end
    turns.add_behind(end)
    assert turns.take(0) == [end]


def test_the_longest_gives_way() -> None:
    """Only a source that has more than the one that wants room."""
    turns = waiting(long=10, short=1)
    assert turns.drop_longest(than="short")
    assert not turns.drop_longest(than="long")
    assert (turns.waiting_of("long"), turns.waiting_of("short"), turns.count) == ((9, 90), (1, 10), 10)


def test_sources_that_rest_take_little_room() -> None:
    """However many there have been."""
    turns = Turns()
    for number in range(3 * SOURCES_MAX):
        add(turns, str(number), 1)
        turns.take(0)
    assert len(turns) <= SOURCES_MAX + 1


def test_who_is_alone_for_a_moment_has_no_more_than_a_share() -> None:
    """While the process is busy with datagrams of others; when it has nothing else to do, no source waits."""
    turns = waiting(evil=10**6, honest=1, other=1)
    turns.take(0)
    turns.charge("evil", 10 * MS)
    had_ns = 0
    for now_ns in range(MS, 90 * MS, MS):
        for source, count in turns.take(now_ns, busy_ns=MS).turns:
            had_ns += count * MS // 50
            turns.charge(source, count * MS // 50)
    assert had_ns <= 90 * MS // 2
    assert turns.take(90 * MS, busy_ns=0).turns, "nobody wants the processor"
    turns.charge("evil", 10 * MS)
    assert turns.take(1_000 * MS, busy_ns=MS).turns, "the others have gone"
