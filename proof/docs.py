"""Writes the parts of docs/ that say what the code says: ``make docs``. A test compares them with the code.

docs/reasons.md, docs/settings.md and docs/statements.md are written as a whole; of docs/session-log.md,
docs/troubles.md and docs/checks.md the tables that begin with one of the headings below.
"""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from triack.base.reasons import (
    BridgeReason,
    DeadReason,
    DropReason,
    FreedReason,
    HoldReason,
    Reason,
    RefusalReason,
    RejectReason,
    Trouble,
)
from triack.base.session_log import COMMON, EVENTS, FIELDS, Event, Field
from triack.node.config.keys import KEYS, SECTIONS, Key
from triack.node.config.reload import may_change
from triack.node.config.values import write_value
from triack.session.protocol.states import FAILURES, CloseReason
from triack.tools.commands.config import header_of
from triack.tools.replay.causes.cause import Cause, Some
from triack.tools.replay.causes.table import CAUSES

SETTINGS = """\
# Settings

Every key of [`triack.toml`](configuration.md), with its default value. Each is a field of `triack.NodeSettings` or of
one of its parts, or an argument of `triack.open`, by the same name. These classes have more fields, for
[policies](policies.md) and tests. `make docs` writes this page from the code.

A key whose name ends in `_s` is a duration: seconds, or a text such as `"500 ms"`, `"5 min"` or `"1 h"`. One whose name
ends in `_bytes` is a size: bytes, or a text such as `"64 KiB"` or `"8 GiB"`. `"none"` means no value. The variable
of a key is `TRIACK_` and its path in capital letters, with two underscores for each dot:
`TRIACK_SESSION__MAX_UNACKED_PACKET`. *Reload* marks the keys that a running node takes up with `triack reload`.

{tables}
"""

ROOT = Path(__file__).parents[1]
REASONS = """\
# Reasons

Why something was dropped, refused, given up or closed: each reason by the name under which it is counted and logged.
`make docs` writes this page from the code.

## Datagrams and connections that were dropped

`base/reasons.py`, `DropReason`. Counted in `Node.stats`, and in the `reason` of `dropped` in the
[session log](session-log.md).

{drops}

## Packets that a destination did not accept

`base/reasons.py`, `RejectReason`. The `reason` of `rejected`. `duplicate`, `hold-full` and `held-back` stay at the
destination; all others are sent to the origin, which moves the packet's messages to its dead-letter queue, if it still
has them. Relays on the way forget the packet.

{rejections}

## Streams that wait for room

`base/reasons.py`, `HoldReason`. The `reason` of `hold_received` in the session log and of `StreamHeld`; in the stats
`outgoing[...].held` of the node that waits and `holds` of the one that has no room.

{holds}

## Subscriptions that are refused

`base/reasons.py`, `RefusalReason`. The `reason` of `SubscriptionRefused`, at the node that asked for a subscription.
What the node with the topics rejects as a whole has its reason from above.

{refusals}

## Packets that leave a relay

`base/reasons.py`, `FreedReason`. The `reason` of `transit_freed` in the session log.

{freed}

## Messages in the dead-letter queue

`base/reasons.py`, `DeadReason`, and what their destination rejected has its reason from above. The property
`dead_reason` of such a message. In the `reason` of `removed`, both timeouts are written as `expired`.

{deaths}

## Messages that a bridge refuses

`base/reasons.py`, `BridgeReason`. A [bridge](mqtt.md) keeps a message that it can never pass on in the queue
`NAME.refused`, with the reason in the header `mqtt-reason` or `amqp-reason`. Counted in `bridges[...].refusals`.

{bridges}

## Sessions that ended

`session/protocol/states.py`, `CloseReason`. Counted in `Node.stats`, and in the `reason` of `session_closed`. After a
failure the next session sends everything unacknowledged again.

{closes}
"""
STATEMENTS = """\
# What five systems say

MSMQ, Solace, HornetQ, AMPS and WSO2 Message Broker say in their documents when they acknowledge, when senders wait, and
what is sent again. Each row is one such statement, and a test in simulated time that has its name: that
of the first row is `{first}`, in `tests/mission`. The
setting makes a node do the same, and the figure is what the test finds. [Policies](policies.md) says how to choose the
settings. `make docs` writes this page from the tests.

{systems}

## What is not the same

| system | it says | here |
|---|---|---|
| MSMQ | duplicates without a transaction are found in a history of 10,000 ids | by their numbers in their stream |
| Solace | a send while the session is down is refused as not ready | accepted, up to the window |
| Solace | a rejected message makes a transacted commit fail | the commit is local; the message is a dead letter |
| HornetQ | the handler gets the message | it gets its id, as its receipt has it |
| WSO2 MB | the code takes 10 s off `AndesAckWaitTimeOut` | exactly 60 s |
| WSO2 MB | message selectors | none: messages are chosen by name |
"""
SYSTEMS = {
    "msmq": "MSMQ",
    "solace": "Solace guaranteed messages",
    "hornetq": "HornetQ and ActiveMQ Artemis",
    "amps": "60East AMPS",
    "wso2": "WSO2 Message Broker",
}
"""The files of tests/mission, in the order of the page."""


def pages() -> dict[Path, str]:
    """Return the pages as they should be."""
    log, troubles, checks = (ROOT / "docs" / name for name in ("session-log.md", "troubles.md", "checks.md"))
    return {
        ROOT / "docs" / "reasons.md": _reasons(),
        checks: _with_tables(checks.read_text(), _causes()),
        ROOT / "docs" / "settings.md": SETTINGS.format(tables=_settings()),
        ROOT / "docs" / "statements.md": _statements(),
        log: _with_tables(log.read_text(), _fields("field", COMMON), _fields("other field", FIELDS), _events()),
        troubles: _with_tables(troubles.read_text(), _troubles()),
    }


def _settings() -> str:
    tables = []
    for section, about in SECTIONS.items():
        keys = [key for key in KEYS.values() if key.path[:-1] == section]
        marks = [" *Reload.*" if may_change(it.path) else "" for it in keys]
        rows = [(f"`{it.name}`", _default(it), f"{it.description}{mark}") for it, mark in zip(keys, marks, strict=True)]
        table = _table(("key", "default", "meaning"), rows)
        tables.append(f"## {header_of(section, 'NAME', 'NAME', 'NAME')}\n\n{about}\n\n{table}")
    return "\n\n".join(tables)


def _default(key: Key) -> str:
    others = [f'`"{one}"`' for one in key.choices if one != key.default]
    return f"`{write_value(key, key.default)}`" + (f"; {', '.join(others)}" if others else "")


def _statements() -> str:
    """Return the page of what other systems say, by the names and marks of the tests of it."""
    found = {title: list(_stated(ROOT / "tests" / "mission" / f"test_{name}.py")) for name, title in SYSTEMS.items()}
    head = ("statement", "it is from", "setting", "figure")
    tables = [f"## {title}\n\n{_table(head, (row for _, row in rows))}" for title, rows in found.items()]
    return STATEMENTS.format(first=found["MSMQ"][0][0], systems="\n\n".join(tables))


def _stated(file: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    for test in ast.parse(file.read_text()).body:
        if not isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for mark in test.decorator_list:
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "statement":
                origin, setting, figure = map(ast.literal_eval, mark.args)
                sentence = test.name.removeprefix("test_").replace("_", " ").capitalize()
                yield test.name, (f"{sentence}.", origin, f"`{setting}`" if setting else "", figure)


def _causes() -> str:
    rows = [(_some(it.says), _facts(it), it.where, f"`{it.check}`", it.evidence) for it in CAUSES]
    return _table(("record", "needs", "where and when", "check", "a violation says"), rows)


def _facts(cause: Cause) -> str:
    return ", or ".join(f"{it.words}: {'; '.join(map(_some, it.by))}" for it in cause.needs)


def _some(some: Some) -> str:
    said = [f"`{name}` {_values(name, values)}" for name, values in some.fields.items()]
    said += [f"`{name}` not {_values(name, values)}" for name, values in some.but.items()]
    said += [{"origin": "at its origin", "other": "not at its origin"}[some.at]] if some.at else []
    event = {"~acked": "ack_received", "~stored": "store_ack_received"}.get(some.event, some.event)
    return f"`{event}`" + (f" ({', '.join(said)})" if said else "")


def _values(name: str, values: Iterable[object]) -> str:
    shown = sorted(f"{it:#06x}" if name == "message_class" else str(it).lower() for it in values)
    return " or ".join(shown)


def _reasons() -> str:
    closes = [(f"`{it.value}`", "yes" if it in FAILURES else "", it.sentence) for it in CloseReason]
    return REASONS.format(
        drops=_named(DropReason),
        rejections=_named(RejectReason),
        refusals=_named(RefusalReason),
        holds=_named(HoldReason),
        freed=_named(FreedReason),
        deaths=_named(DeadReason),
        bridges=_named(BridgeReason),
        closes=_table(("reason", "failure", "meaning"), closes),
    )


def _named(reasons: Iterable[Reason]) -> str:
    return _table(("reason", "meaning"), [(f"`{it.value}`", it.sentence) for it in reasons])


def _with_tables(page: str, *tables: str) -> str:
    for table in tables:
        head = table.partition("\n")[0]
        before, found, after = page.partition(head + "\n")
        assert found, f"no table begins with {head}"
        lines = after.split("\n")
        end = next(at for at, line in enumerate(lines) if not line.startswith("|"))
        page = "\n".join([before + table, *lines[end:]])
    return page


def _fields(title: str, fields: dict[str, Field]) -> str:
    rows = [(f"`{name}`", _type(it.type), it.sentence) for name, it in fields.items()]
    return _table((title, "type", "meaning"), rows)


def _type(type_: type) -> str:
    return {"str": "string", "list": "list of [int, int]"}.get(type_.__name__, type_.__name__)


def _troubles() -> str:
    rows = [(f"`{it.value}`", it.say("PEER", "..."), it.advise("PEER")) for it in Trouble]
    return _table(("trouble", "what is wrong", "what to do"), rows)


def _events() -> str:
    rows = [(f"`{name}`", _what(event), event.sentence) for name, event in EVENTS.items()]
    return _table(("event", "fields", "written when"), rows)


def _what(event: Event) -> str:
    """Name the fields of an event: those that are always there; perhaps some more, or one of several groups."""
    always, *others = [" ".join(f"`{name}`" for name in group) for group in (event.fields, *event.variants)]
    groups = " or ".join(group for group in others if group)
    if not groups:
        return always
    return f"{always}; {'perhaps ' if '' in others else ''}{groups}"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    return "\n".join([_row(head), "|" + "---|" * len(head), *map(_row, rows)])


def _row(cells: tuple[str, ...]) -> str:
    return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text)
