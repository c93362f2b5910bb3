"""Commands as processes of their own that need not load Python and Triack first: 0.05 seconds instead of 0.3.

A server that has loaded the command line forks for each command. What runs is a process like any other, with its own
arguments, environment, folder, streams, signals and exit code; it begins where ``python -m triack`` has its imports
behind it, and ends as Python does. Each process of tests that starts commands has one server, which ends with it.
"""

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO

from tests.tools import typed
from tests.tools.typed import ASKING, ask

LOADED = ("send", "receive", "serve", "trust", "enrol", "queue", "keygen", "status")
"""Commands that tests run often; what others need is loaded by them."""
REQUEST_BYTES = 256 * 1024
"""More than an environment of tests takes, and less than a socket does."""
STREAMS = 3

Stream = IO[bytes] | None


class Forked:
    """A command that runs, or has ended: of ``subprocess.Popen`` what tests use."""

    def __init__(self, arguments: Sequence[str], stdin: int | None) -> None:
        (output, theirs_out), (complaints, theirs_err) = os.pipe(), os.pipe()
        given = None
        if stdin == subprocess.PIPE:
            stdin, given = os.pipe()
        elif stdin == subprocess.DEVNULL:
            stdin = os.open(os.devnull, os.O_RDONLY)
        else:
            stdin = os.dup(0 if stdin is None else stdin)
        asking, server = _server()
        self._news = socket.socket(fileno=ask(asking, arguments, os.environ, [stdin, theirs_out, theirs_err]))
        for number in (stdin, theirs_out, theirs_err):
            os.close(number)
        self.stdin: Stream = None if given is None else os.fdopen(given, "wb")
        self.stdout: IO[bytes] = os.fdopen(output, "rb")
        self.stderr: IO[bytes] = os.fdopen(complaints, "rb")
        self.returncode: int | None = None
        pid = self._news.recv(64)
        assert pid, server.communicate()
        self.pid = int(pid)

    def poll(self) -> int | None:
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._look(timeout)
        if code is None:
            raise TimeoutError(f"process {self.pid} runs after {timeout} s")
        return code

    def communicate(self, given: bytes = b"", timeout: float | None = None) -> tuple[bytes, bytes]:
        """Give it its input, read what it says, and wait for its end."""
        with ThreadPoolExecutor(STREAMS) as pool:
            fed = pool.submit(_feed, self.stdin, given)
            said = [pool.submit(_drain, stream) for stream in (self.stdout, self.stderr)]
            try:
                output, complaints = (one.result(timeout) for one in said)
                self.wait(timeout)
            except TimeoutError:
                self.kill()
                raise
            fed.result()
        return output, complaints

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _look(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._news], [], [], timeout)[0]:
            self.returncode = int(self._news.recv(64))
            self._news.close()
        return self.returncode


def put_command(folder: Path) -> tuple[int, dict[str, str]]:
    """Put a ``triack`` into a folder that a shell can run; returns what it needs: an open file, and a variable."""
    command, asking = folder / "triack", _server()[0].fileno()
    command.write_text(f"#!{sys.executable} -IS\n{Path(typed.__file__).read_text()}")
    command.chmod(0o755)
    return asking, {ASKING: str(asking)}


def _feed(stream: Stream, given: bytes) -> None:
    if stream is None or stream.closed:
        return
    with suppress(BrokenPipeError), stream:  # it has read what it wanted
        stream.write(given)


def _drain(stream: Stream) -> bytes:
    if stream is None or stream.closed:
        return b""
    with stream:
        return stream.read()


@cache
def _server() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """This process's server, and where to ask it; at the end it sees that nobody asks any more.

    Its streams are pipes, as those of the commands are: Python's objects for them do not go with other kinds.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.tools.forkserver", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=Path(__file__).parent.parent.parent,
        )

    def end() -> None:
        ours.close()
        server.communicate()

    atexit.register(end)
    return ours, server


def _serve(asked: socket.socket) -> list[str]:
    """Fork for each request. Returns in each child, with its arguments."""
    running: dict[int, tuple[int, socket.socket]] = {}
    while True:
        typed = {news.fileno(): pid for pid, news in running.values()}
        ready, _, _ = select.select([asked.fileno(), *running, *typed], [], [])
        for gone in typed.keys() & set(ready):  # `kill -9` leaves what typed a command no time to pass a signal on
            os.kill(typed[gone], signal.SIGKILL)
            os.waitid(os.P_PID, typed[gone], os.WEXITED | os.WNOWAIT)
        for ended in running.keys() & set(ready):
            pid, news = running.pop(ended)
            os.close(ended)
            with news:
                _tell(news, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        if asked.fileno() not in ready:
            continue
        request, numbers, _, _ = socket.recv_fds(asked, REQUEST_BYTES, 1 + STREAMS)
        if not request:
            sys.exit()
        news, streams = socket.socket(fileno=numbers[0]), numbers[1:]
        pid = os.fork()
        if pid == 0:
            for number, (_, other) in running.items():
                os.close(number)
                other.close()
            news.close()
            asked.close()
            return _become(streams, *json.loads(request))
        for number in streams:
            os.close(number)
        running[os.pidfd_open(pid)] = pid, news
        _tell(news, pid)


def _tell(news: socket.socket, number: int) -> None:
    with suppress(BrokenPipeError):  # the test did not wait for it
        news.send(b"%d" % number)


def _become(streams: Sequence[int], arguments: list[str], environment: Mapping[str, str], folder: str) -> list[str]:
    """Take on what belongs to a process that was started for a command."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    return arguments


def main() -> None:
    """Serve; in the children, run the command and exit."""
    for name in LOADED:
        import_module(f"triack.tools.commands.{name}")
    from triack.tools.entry import main as command

    gc.freeze()
    sys.argv[1:] = _serve(socket.socket(fileno=int(sys.argv[1])))
    command()


if __name__ == "__main__":
    main()
