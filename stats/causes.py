"""Why messages do not arrive yet, and why a node accepts no new ones: as a name, and as a sentence."""

from collections.abc import Iterable

from triack.queues.manager.engine import Engine
from triack.queues.peers.dialer import WaitsFor
from triack.queues.peers.link import Link
from triack.queues.streams.outgoing_stream import OutgoingStream


def waits_for(engine: Engine, outgoing: OutgoingStream) -> str:
    """Why the messages to a queue do not arrive yet, as stats name it; empty if no reason is known."""
    link = engine.outbox.links.get(outgoing.via)
    missing = None if link is None else engine.handshakes.reach.waits_for(link)
    return missing or engine.outbox.holds.of(outgoing) or ""


def cause_of(engine: Engine, outgoing: OutgoingStream) -> str:
    """The same as a sentence, with the address and what the system said last; empty if no reason is known."""
    link = engine.outbox.links.get(outgoing.via)
    if link is None:
        return ""
    match _missing(engine, link):
        case WaitsFor.KEY:
            renamed = engine.handshakes.reach.renamed(link)
            now = f"; its node is {renamed} here now" if renamed else ""
            return f"this node trusts no {link.peer}, or has no key of it{now}"
        case WaitsFor.ADDRESS:
            return f"no address of {link.peer} is known, and it has not called"
        case WaitsFor.ANSWER:
            unheard = not link.silent or link.silent == f"no answer from {link.peer}"
            return f"no node answers at {link.dialer.address or link.peer}" if unheard else link.silent
        case WaitsFor.RESTART:
            return str(link.suspended)
    hold = engine.outbox.holds.of(outgoing)
    return "" if hold is None else f"{link.peer} has no room: {hold}"


def _missing(engine: Engine, link: Link) -> WaitsFor | None:
    """What a link lacks, or lacked when messages ran out of time."""
    missing = engine.handshakes.reach.waits_for(link)
    if missing is None and (link.conversation is None or not link.conversation.is_open):
        return link.missing or (None if link.dialer.since_ns is None else WaitsFor.ANSWER)
    return missing


def why_no_answer(engine: Engine, link: Link) -> str:
    """Why a peer has not answered a ping, in short."""
    missing = engine.handshakes.reach.waits_for_session(link)
    return link.silent or (f"no session, as there is no {missing.value}" if missing else "no answer")


def causes(engine: Engine) -> str:
    """What keeps messages from their destinations, each cause once."""
    found = (cause_of(engine, outgoing) for outgoing in engine.outbox.streams if outgoing.busy)
    return "; ".join(dict.fromkeys(cause for cause in found if cause))


def cause_at(engine: Engine, peer: str) -> str:
    """Why a node has not answered, as a sentence, as far as this node knows."""
    busy = [it for it in engine.outbox.streams if it.peer == peer and it.busy]
    if cause := next(filter(None, (cause_of(engine, it) for it in busy)), ""):
        return cause
    where = f"the request waits at {busy[0].via}" if busy else f"{peer} has the request"
    return f"{where}; triack status there says what waits"


def why_not_ready(engine: Engine, name: str, links: Iterable[str] = ()) -> str | None:
    """Why the node accepts no new messages, or lacks a session that one of these peers needs; None: no reason."""
    if engine.draining:
        return f"node {name} closes"
    if engine.inbox.admission.disk_room.is_low:
        return f"the disk of node {name} has less room than its reserve"
    down = [peer for peer in links if (link := engine.outbox.links.get(peer)) is None or _is_down(link)]
    return f"no session with {', '.join(down)}" if down else None


def _is_down(link: Link) -> bool:
    """Whether no session is open, and one is needed."""
    is_open = link.conversation is not None and link.conversation.is_open
    return not is_open and (link.busy or link.suspended is not None)
