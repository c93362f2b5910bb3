"""A user's options take precedence over those of a row."""

from pathlib import Path

from triack.tools.bench.options import Options
from triack.tools.bench.work import Work


def test_a_row_is_as_it_says_unless_it_is_shortened() -> None:
    work = Work(seconds=5, window=7)
    assert Options(Path()).shaped(work) == work
    found = Options(Path(), seconds=1, messages=9, insecure=True, datagram_bytes=1_200).shaped(work)
    assert (found.seconds, found.messages, found.insecure, found.window) == (1, 9, True, 7)
    assert found.datagram_bytes == 1_200
    assert Options(Path(), window="auto").shaped(work).window == "auto"
