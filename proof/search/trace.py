"""A path through a search, as steps that a person can follow."""

from proof.search.datagrams import Datagrams
from proof.search.host import Host
from proof.search.scope import Scope
from proof.search.witness import sentence
from triack.queues.streams.group_commit import GroupCommit


def retrace(scope: Scope, datagrams: Datagrams, ways: list[int]) -> list[str]:
    """Take the steps of a path once more and describe what happens."""
    hosts = [Host(scope, 0), Host(scope, 1)]
    lines = []
    for host in hosts:
        sent = "; ".join(map(str, host.begin())) or "nothing"
        lines.append(f"{_name(host)} starts and sends {sent}")
    for way in ways:
        host, what = hosts[way & 1], way >> 2
        heard = datagrams.known[what] if way & 2 else None
        action = ("deliver", None) if heard is not None else host.choices()[what]
        told = f"{_name(host)} gets {heard}" if heard is not None else _tell(host, *action)
        try:
            sent = "; ".join(map(str, host.act(action, heard)))
        except Exception as error:  # noqa: BLE001 - the trace leads to this error
            lines.append(f"{told}: {sentence(error)}")
            return lines
        host.settle()
        lines.append(f"{told}{', and sends ' if sent else ''}{sent}")
    return lines


def _name(host: Host) -> str:
    return "ab"[host.side]


def _tell(host: Host, action: str, what: object) -> str:
    name = _name(host)
    match action:
        case "submit":
            return f"{name}: the application sends message {name}{host.submitted + 1}"
        case "disk" if isinstance(host.job, GroupCommit):
            return f"{name}: the commit in hand is on disk"
        case "disk":
            return f"{name}: the disk has read"
        case "read":
            return f"{name}: the application takes a message"
        case "timer":
            assert isinstance(what, tuple)
            kind, owner, timer = what
            return f"{name}: timer {timer} of {kind} {owner:x} runs out"
        case "break":
            return f"{name}: the path is lost"
        case "drain":
            return f"{name} begins to close"
        case "stop":
            return f"{name} ends, and starts again"
        case _ if host.job is None:
            return f"{name} is killed and starts again"
        case _:
            return f"{name} is killed and starts again; the commit in hand is {'on disk' if what else 'lost'}"
