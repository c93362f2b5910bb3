"""``triack`` where tests type it in a shell: a moment's Python that has ``forkserver.py`` run the command.

The command has the streams of this process and gets its signals; this process ends as it does. Nothing is imported but
what costs nothing.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence

ASKING = "TESTS_FORKSERVER"
"""Which variable has the number of the socket where the server is asked."""


def ask(asking: socket.socket, arguments: Sequence[str], environment: Mapping[str, str], streams: list[int]) -> int:
    """Have a command run; returns the number of a socket on which its id comes, and at its end its exit code."""
    news, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    request = json.dumps([list(arguments), dict(environment), os.getcwd()]).encode()  # noqa: PTH109 - no pathlib here
    with theirs:
        socket.send_fds(asking, [request], [theirs.fileno(), *streams])
    return news.detach()


def main() -> None:
    environment = dict(os.environ)
    asking = socket.socket(fileno=int(environment.pop(ASKING)))
    news = socket.socket(fileno=ask(asking, sys.argv[1:], environment, [0, 1, 2]))
    pid = int(news.recv(64))
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: os.kill(pid, number))
    code = int(news.recv(64))
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
