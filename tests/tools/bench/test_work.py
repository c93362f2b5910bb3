"""Bodies that are distinct, and made at no cost."""

import pytest

from triack.base.errors import UsageError
from triack.tools.bench.work import HEAD_BYTES, RING, Work, index_of, is_plain, make_ring, noise_of, stamp_of, stamped


@pytest.mark.parametrize("size", [HEAD_BYTES, 20, 100])
def test_bodies_have_their_size_and_say_which_they_are(size: int) -> None:
    ring = make_ring(size)
    assert {len(body) for body in ring} == {size}
    assert [index_of(body) for body in ring] == 2 * list(range(RING))


def test_a_time_goes_into_a_body_and_out_again() -> None:
    body = make_ring(100)[7]
    marked = stamped(body, 123_456_789_012)
    assert (stamp_of(body), stamp_of(marked), index_of(marked), stamped(marked, 0)) == (0, 123_456_789_012, 7, body)


def test_a_body_on_the_wire_is_seen() -> None:
    body = make_ring(100)[3]
    assert is_plain(b"head" + body + b"tail", noise_of(100))
    assert not is_plain(bytes(byte ^ 1 for byte in body), noise_of(100))


def test_what_cannot_be_told_apart_is_refused() -> None:
    with pytest.raises(UsageError, match="11 bytes; 12 are needed"):
        Work(size=HEAD_BYTES - 1)


def test_work_goes_to_a_process_and_back() -> None:
    work = Work(size=1_024, mode="paced", messages=3, insecure=True)
    assert Work(**work.to_json()) == work
