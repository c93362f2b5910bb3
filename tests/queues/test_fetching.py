"""Which bodies are fetched from the disk next, and who takes them."""

from triack.queues.fetching import FETCH_ROWS, Fetch, Fetches, Source, arrived, fetch_packets, next_fetch
from triack.queues.mailboxes.queued_packet import QueuedPacket


def packet(*keys: int, size_bytes: int = 10, body: bytes = b"") -> QueuedPacket:
    return QueuedPacket(keys, b"o" * 16, 1, 1, 1, 1, 1, size_bytes, [body] if body else [])


def keys_of(fetch: Fetch | None) -> list[int]:
    return [] if fetch is None else fetch.keys


def test_a_caller_comes_first_and_then_each_source_that_needs_something_in_turn() -> None:
    first, second = list[int](), [2]
    fetches = Fetches(
        Source(first, lambda: Fetch("outgoing", first, take=print)),
        Source(second, lambda: Fetch("messages", second, take=print)),
    )
    fetches.ask(Fetch("messages", [3], take=print))
    assert [it.keys for it in (fetches.poll(), fetches.poll()) if it is not None] == [[3], [2]]
    first.append(1)
    assert [it.keys for it in (fetches.poll(), fetches.poll(), fetches.poll()) if it is not None] == [[1], [2], [1]]
    first.clear()
    second.clear()
    assert fetches.poll() is None


def test_a_fetch_reads_ahead_by_bytes_and_rows_and_has_one_packet_at_least() -> None:
    some = [packet(1), packet(2, 3), packet(4), packet(5, body=b"x"), packet(6)]
    assert keys_of(fetch_packets(some, print)) == [1, 2, 3, 4]
    assert keys_of(fetch_packets(some, print, 20)) == [1, 2, 3]
    assert keys_of(fetch_packets(some, print, 0)) == [1]
    assert keys_of(fetch_packets(some[3:], print)) == []
    rows = (((key,), 1) for key in range(10_000))
    assert len(keys_of(next_fetch("outgoing", rows, print))) == FETCH_ROWS
    assert next(rows)[0] == (FETCH_ROWS,), "nothing was drawn that is not fetched"


def test_packets_get_their_bodies_up_to_the_first_that_is_still_missing() -> None:
    some = [packet(1), packet(body=b"express"), packet(2, 3), packet(4), packet(5)]
    found = [(it.keys, pieces) for it, pieces in arrived(some, {1: b"a", 2: b"b", 3: b"c", 5: b"e"})]
    assert found == [((1,), [b"a"]), ((2, 3), [b"b", b"c"])]
