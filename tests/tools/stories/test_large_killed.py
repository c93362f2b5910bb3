"""Real processes that are killed in the middle of a large message: the whole file arrives, or nothing of it."""

import os
from pathlib import Path

import pytest

from tests.tools.processes import Server, start, triack, wait_until

BODY = os.urandom(20_000_000)


@pytest.mark.slow
def test_a_file_whose_sender_and_server_are_killed(tmp_path: Path) -> None:
    """Two senders die with -9, each in the middle, and the server once; the next one's file is there once."""
    big, copy, data = tmp_path / "big", tmp_path / "copy", tmp_path / "a"
    big.write_bytes(BODY)
    with Server(tmp_path / "b") as server:
        sending = ("send", f"{server.address}/films", "--insecure", "--file", big, "--data", data)
        for _ in range(2):
            sender = start(*sending)
            wait_until(
                lambda: b"$large.films" in triack("queue", "list", "--data", server.data).stdout, "a part is there"
            )
            sender.kill()
            sender.communicate()
        server.restart()
        sent = triack(*sending)
        assert sent.returncode == 0, sent.stderr
        saved = triack("receive", "films", "--save", copy, "--timeout", "20", "--data", server.data)
        assert saved.returncode == 0, saved.stderr
        assert copy.read_bytes() == BODY
        assert b"0 waiting" in triack("queue", "show", "films", "--data", server.data).stdout
        wait_until(lambda: b"$large" not in triack("queue", "list", "--data", server.data).stdout, "nothing is left")
