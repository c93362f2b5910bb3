"""Chunks: what is dealt out comes to its judge in order, whatever came between."""

from itertools import chain

from triack.tools.replay.checks.findings import Record
from triack.tools.replay.engines.dealing import CHUNK_RECORDS, HELD_RECORDS, Chunk, deal, in_order, unpack_chunk

STREAM = ("stream", "a1", "1")


def record(n: int, event: str = "queued", node: str = "a") -> Record:
    return {"event": event, "node": node, "incarnation": 1, "n": n}


def opened(chunks: list[Chunk]) -> list[tuple[tuple[str, int, int], list[Record]]]:
    """As Spark brings them: sorted by their places."""
    found = [((chunk.node, chunk.incarnation, chunk.n), unpack_chunk(chunk.data)) for chunk in chunks]
    return sorted(found, key=lambda it: it[0])


def test_a_chunk_is_of_one_unit_and_one_node_and_no_larger_than_it_may_be() -> None:
    records = [record(n, node="ab"[n % 2]) for n in range(2 * CHUNK_RECORDS + 2)]
    chunks = list(deal((STREAM, it) for it in records))
    assert [(chunk.node, chunk.n, len(unpack_chunk(chunk.data))) for chunk in chunks] == [
        ("a", 0, CHUNK_RECORDS), ("b", 1, CHUNK_RECORDS),
        ("a", 2 * CHUNK_RECORDS, 1), ("b", 2 * CHUNK_RECORDS + 1, 1),
    ]  # fmt: skip


def test_what_many_units_hold_back_is_bounded() -> None:
    """Each of them has too little for a chunk of its own."""
    units = HELD_RECORDS // 8
    dealt = ((("session", str(n % units)), record(n)) for n in range(10**9))
    chunks = deal(dealt)
    first = next(chunks)
    assert len(unpack_chunk(first.data)) == 8


def test_facts_find_their_places_between_the_records() -> None:
    """Behind the record that they are about, however the chunks overlap."""
    records = [record(n) for n in range(3 * CHUNK_RECORDS)]
    facts = [record(n, "~acked") for n in range(0, 3 * CHUNK_RECORDS, 7)]
    late = [record(n, "~carried") for n in (5, 5000)]
    chunks = list(chain(*(deal((STREAM, it) for it in some) for some in (records, facts, late))))
    merged = list(chain(*in_order(opened(chunks))))
    wanted = sorted([*records, *facts, *late], key=lambda it: (it["n"], it["event"][0] == "~"))
    assert merged == wanted


def test_records_whose_serials_fall_are_sorted() -> None:
    chunks = list(deal((STREAM, record(n)) for n in (3, 1, 2)))
    assert [it["n"] for it in chain(*in_order(opened(chunks)))] == [1, 2, 3]
