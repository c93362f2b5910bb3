"""Reads the tables of worlds (`*.txt`): good logs, step by step, and what is changed in them.

A world is a line with its name and what happens in it, lines of steps with a `;` between them, and a line `=>` with
what the judge must find: the check, and the class and numbers of the packets. A world without that line is right.
Steps are the functions of `acts`, and the methods of `World` and its nodes:

    queue tx 3                      alpha has three more packets; tx, kept and fast are the classes
    send tx 1-3 lost=[2]            these leave in the session, and all but 2 arrive
    ack 1-3 store=false             beta acknowledges these numbers of the session
    wait 450                        milliseconds pass
    alpha removed tx first=2 ...    a node writes a record; `tx` names class and stream, `@tx` the stream alone, `here`
                                    the session
    change beta committed{tx}[-1] count=39    changes the last such record, or the first without a number
    drop, cut, repeat, move         takes all such records out, or one; puts a changed copy behind one; moves one
                                    before another
    next [deliver tx 1, open]       steps with the next streams of the same numbers
"""

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from tests.tools.replay import acts
from tests.tools.replay.builder import ALPHA, BETA, CLASS_STREAMS, MS, SEQUENCE, Log, Record, World, place, ready

CLASSES = {"tx": "transactional", "kept": "recoverable", "fast": "express"}
RHO = "c0" * 16
WORDS: dict[str, Any] = {**CLASSES, "true": True, "false": False, "ALPHA": ALPHA, "BETA": BETA, "RHO": RHO, "''": ""}
FOUND = re.compile(r"(\w+)(?: (tx|kept|fast))?(?: ([\d,-]+))?")
PICKED = re.compile(r"(\w+)(?:\{(.*)\})?(?:\[(-?\d+)\])?")
PACKETS = re.compile(r"\d+([,-]\d+)*")
OF_PACKETS = {"send", "ack", "commit", "hand", "settle", "settle_journaled", "remove", "take", "free", "pass_on"}
"""Steps whose first number, or numbers, are packets."""

# What must be found: (check, stream, sequence, number), the last three -1 where they say nothing.
Expected = set[tuple[str, int, int, int]]


class Told(NamedTuple):
    """A world of a table."""

    name: str
    says: str
    steps: list[str]
    expected: Expected

    def tell(self, world: World) -> None:
        """Let it happen."""
        take_all(world, self.steps)

    def plant(self, world: World) -> Expected:
        """Let it happen. Returns what must be found."""
        self.tell(world)
        return self.expected

    def on(self, begin: Callable[[], World]) -> Callable[[], World]:
        """What makes that world from a beginning."""

        def build() -> World:
            world = begin()
            self.tell(world)
            return world

        return build


def told(table: str) -> list[Told]:
    """The worlds of a table, each with a name of its own."""
    lines = (Path(__file__).parent / table).read_text().splitlines()
    text = "\n".join(line for line in lines if line and not line.startswith("#"))
    worlds = [told_in(story) for story in re.split(r"\n(?=\w)", text)]
    assert len({world.name for world in worlds}) == len(worlds), table
    return worlds


def told_in(story: str) -> Told:
    head, _, happens = story.partition("\n    ")
    name, _, says = head.partition(":")
    steps, _, found = " ".join(happens.split()).partition("=>")
    taken = [step.strip() for step in steps.split(";") if step.strip()]
    return Told(name, " ".join(says.split()), taken, set(expected(found)))


def expected(text: str) -> Iterator[tuple[str, int, int, int]]:
    for one in filter(None, text.strip().split("; ")):
        match = FOUND.fullmatch(one.strip())
        assert match is not None, one
        check, stream, numbers = match.groups()
        where = (CLASS_STREAMS[CLASSES[stream]], SEQUENCE) if stream else (-1, -1)
        yield from ((check, *where, number) for number in (numbers_of(numbers) if numbers else [-1]))


def numbers_of(text: str) -> list[int]:
    """`1-3,7` as numbers."""
    parts = (part.partition("-") for part in text.split(","))
    return [number for first, _, last in parts for number in range(int(first), int(last or first) + 1)]


def value_of(text: str) -> Any:
    """A value of a field: a word that stands for something, JSON, or a text."""
    if text in WORDS:
        return WORDS[text]
    return json.loads(text) if re.fullmatch(r"-?\d+|[\[{\"].*", text) else text.replace("+", " ")


def take_all(world: World, steps: list[str]) -> None:
    for step in steps:
        take(world, step)


def happens(steps: str, world: World | None = None) -> World:
    """A world in which two nodes have a session, or that one, after some steps with a `;` between them."""
    world = world or ready()
    take_all(world, [step.strip() for step in steps.split(";") if step.strip()])
    return world


def take(world: World, step: str) -> None:
    verb, *words = step.split(" ")
    nodes = {log.name: log for log in world.logs}
    if verb == "next":
        inner = step.removeprefix("next [").removesuffix("]").split(", ")
        acts.next_stream(world, partial(take_all, world, inner))
    elif verb in nodes and words == ["start"]:
        nodes[verb].start()
    elif verb in nodes:
        nodes[verb].write(words[0], **fields_of(world, words[1:]))
    elif verb in ("change", "drop", "cut", "repeat", "move"):
        change(world, verb, nodes[words[0]], words[1:])
    elif verb == "wait":
        world.clock.tick(round(float(words[0]) * MS))
    else:
        names = [word for word in words if "=" not in word]
        options = dict(word.split("=", 1) for word in words if "=" in word)
        given = arguments(verb, names, getattr(world, "readers", {}))
        named = {name: getattr(world, it[1:]).session if it[0] == "@" else value_of(it) for name, it in options.items()}
        if hasattr(acts, verb):
            getattr(acts, verb)(world, *given, **named)
        else:
            attrgetter(verb)(world)(*given, **named)


def arguments(verb: str, words: list[str], readers: dict[str, Any]) -> list[Any]:
    """What the words of a step say, packets as ranges."""
    values = [value_of(word) for word in words]
    if words and words[0] in readers:
        values[0] = readers[words[0]]
    elif verb.rpartition(".")[2] in OF_PACKETS:
        at = next(at for at, word in enumerate(words) if PACKETS.fullmatch(word))
        numbers = numbers_of(words[at])
        is_range = "," not in words[at] and verb.rpartition(".")[2] != "ack"
        values[at] = range(numbers[0], numbers[-1] + 1) if is_range else numbers
    return values


def fields_of(world: World, words: list[str]) -> Record:
    fields: Record = {}
    for word in words:
        name, sign, value = word.partition("=")
        if value.startswith("@"):
            fields[name] = getattr(world, value[1:]).session
        elif sign:
            fields[name] = value_of(value)
        elif name == "here":
            fields["session"] = world.session
        else:
            fields |= place(CLASSES[name.removeprefix("@")])
            fields |= {} if name.startswith("@") else {"cls": CLASSES[name]}
    return fields


def change(world: World, verb: str, log: Log, words: list[str]) -> None:
    event, match, at = picked(world, words[0])
    record = log.all(event, **match)[at]
    if verb == "drop":
        log.drop(event, **match)
        return
    if verb == "cut":
        log.records.remove(record)
        return
    if verb == "move":
        other, other_match, other_at = picked(world, words[1])
        log.move_before(record, log.all(other, **other_match)[other_at])
        return
    changes = fields_of(world, words[1:])
    if "cls" in changes:
        changes["class"] = changes.pop("cls")
    if verb == "change":
        record.update(changes)
    else:
        log.repeat(record, **changes)


def picked(world: World, text: str) -> tuple[str, Record, int]:
    match = PICKED.fullmatch(text)
    assert match is not None, text
    event, fields, at = match.groups()
    wanted: Record = {}
    for word in re.split(r",(?![^\[]*\])", fields) if fields else []:
        wanted |= {"cls": CLASSES[word]} if word in CLASSES else fields_of(world, [word])
    return event, wanted, int(at or 0)
