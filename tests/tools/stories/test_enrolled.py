"""Two nodes of the command line come to trust each other by a one-time code."""

import signal
from pathlib import Path
from typing import IO

import pytest

from tests.certificates import make_certificate
from tests.tools.forkserver import Forked
from tests.tools.processes import SECONDS, Server, message_of, start, triack

pytestmark = pytest.mark.slow


def line_of(stream: IO[bytes] | None) -> str:
    assert stream is not None
    return stream.readline().decode().strip()


def inviting(data: Path, *options: str) -> tuple[Forked, str]:
    """A command that waits for a peer, and its code."""
    process = start("enrol", "invite", *options, "--data", data)
    return process, line_of(process.stdout)


def peers(data: Path) -> str:
    """What is written down, without the keys."""
    listed = triack("trust", "list", "--data", data).stdout.decode()
    return "\n".join(line for line in listed.splitlines() if "  key" not in line)


def test_a_running_node_joins(tmp_path: Path) -> None:
    """Both sides hear of it; messages go both ways, also after both were killed."""
    a, b = tmp_path / "a", tmp_path / "b"
    with Server(a, insecure=False) as left, Server(b, insecure=False) as right:
        waiting, code = inviting(b, "--as", "plant-a", "--send", "orders")
        joined = triack("enrol", "join", code, right.address, "--as", "plant-b", "--data", a)
        assert joined.stdout.decode() == f"trusts plant-b at {right.address}\n", joined.stderr
        said, _ = waiting.communicate(timeout=SECONDS)
        assert (waiting.returncode, said.decode()) == (0, f"trusts plant-a at {left.address}\n")
        assert peers(a) == f"plant-b\n  address  {right.address}\n  send     *"
        assert peers(b) == f"plant-a\n  address  {left.address}\n  send     orders"
        left.restart()
        right.restart()
        assert triack("send", "plant-b/orders", "--data", a, stdin=b"there\n").returncode == 0
        assert triack("send", "plant-a/answers", "--data", b, stdin=b"back\n").returncode == 0
        assert triack("receive", "orders", "--data", b, "--count", "1").stdout == b"there\n"
        assert triack("receive", "answers", "--data", a, "--count", "1").stdout == b"back\n"


def test_a_node_at_rest_joins_over_tls(tmp_path: Path) -> None:
    """With a code that nobody waits for, and another suite, by which both speak then; and the code is used up."""
    certificate = make_certificate(tmp_path)
    options = ("--tls-cert", certificate, "--suite", "25519_ChaChaPoly_BLAKE2s")
    with Server(tmp_path / "b", *options, listen="tcp://127.0.0.1:0", insecure=False) as server:
        code = triack("enrol", "invite", "--no-wait", "--data", tmp_path / "b").stdout.decode().strip()
        join = ("enrol", "join", code, server.address, "--name", "plant-a", "--tls-ca", certificate, *options[2:])
        joined = triack(*join, "--address", "tcp://127.0.0.1:9", "--data", tmp_path / "a")
        assert joined.stdout.decode() == f"trusts b at {server.address}\n", joined.stderr
        assert peers(tmp_path / "b") == "plant-a\n  address  tcp://127.0.0.1:9\n  send     *"
        ours = ("--tls-ca", certificate, *options[2:], "--data", tmp_path / "a")
        assert (
            triack("send", "plant-a/bills", "--timeout", "1", "--data", tmp_path / "b", stdin=b"due\n").returncode == 3
        )
        assert triack("send", "b/orders", "--timeout", "2", *ours[:2], *ours[-2:], stdin=b"no\n").returncode == 3
        assert triack("send", "b/orders", *ours, stdin=b"12 valves\n").returncode == 0
        assert triack("receive", "bills", "--count", "1", *ours).stdout == b"due\n"
        assert triack("receive", "orders", "--count", "2", "--data", tmp_path / "b").stdout == b"no\n12 valves\n"
        failed = triack(*join, "--timeout", "0.5", "--data", tmp_path / "c")
        assert failed.returncode == 1
        assert message_of(failed).startswith(f"enrol at {server.address}: no answer. The code is wrong, used or")


def test_a_code_ends_with_the_command_that_waits_for_it(tmp_path: Path) -> None:
    """Interrupted, it takes the code back; a node that ends takes it along."""
    with Server(tmp_path / "b", insecure=False) as server:
        waiting, code = inviting(tmp_path / "b")
        waiting.send_signal(signal.SIGINT)
        waiting.communicate(timeout=SECONDS)
        assert waiting.returncode == 130
        late = triack("enrol", "join", code, server.address, "--timeout", "0.5", "--data", tmp_path / "a")
        assert late.returncode == 1
        waiting, _ = inviting(tmp_path / "b")
        server.stop()
        _, complaint = waiting.communicate(timeout=SECONDS)
        assert waiting.returncode == 1
        assert any(words in complaint for words in (b"was closed", b"has ended", b"went away"))
    assert peers(tmp_path / "b") == ""
