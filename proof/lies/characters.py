"""Changes single characters of honest logs on disk, and checks what replay says about each."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from proof.lies.harmless import reason_for
from proof.lies.logs import LOGS, WIDE, Files, honest_files, records_of, wide_files
from proof.lies.mutate import Lie, Log, Record
from proof.lies.run import Told
from triack.base.errors import ReplayError
from triack.tools.replay.engines.local_engine import replay_local
from triack.tools.replay.log.files import find_logs

SAME = "same"
"""The result of a change that leaves the log's meaning as it was: a name and its value twice, or white space."""
ALIKE = ("0123456789", "abcdef", "ghijklmnopqrstuvwxyz", '{}[]:,"', "-._+eE \n")
"""Characters that are most often mistaken for each other: most lines with such a change can still be read."""
ALIKE_SHARE = 0.8
PRINTED = "".join(map(chr, range(32, 127))) + "\n\0"
KINDS = ("change", "change", "change", "change", "remove", "insert")
"""Kinds of change to a character; most of the readable changes keep the length of the line."""


@dataclass(frozen=True, slots=True)
class Slip:
    """One changed character."""

    kind: str
    name: str
    at: int
    files: Files

    @property
    def where(self) -> str:
        """The number of its line, and the line."""
        content = self.files[self.name]
        number = content.count(b"\n", 0, self.at)
        line = content.split(b"\n")[number].decode(errors="replace")
        return f"{self.name} line {number + 1}, {self.kind} of character {self.at}: {line}"


def slips(count: int, seed: int = 1, logs: int = LOGS, wide: int = WIDE) -> Iterator[tuple[Slip, Files, str]]:
    """Yield slips, each with its files and the name of their run."""
    random = Random(seed)
    known = [(f"seed {run}", files) for run, files in honest_files(logs)]
    known += [(f"wide seed {run}", files) for run, files in wide_files(wide)]
    for _ in range(count):
        run, files = random.choice(known)
        name = random.choice([name for name, content in files.items() if content])
        yield _slip(files, name, random), files, run


def _slip(files: Files, name: str, random: Random) -> Slip:
    content, kind = files[name], random.choice(KINDS)
    at = random.randrange(len(content))
    known = chr(content[at])
    alike = [some for some in ALIKE if known in some] if random.random() < ALIKE_SHARE else []
    other = random.choice([it for it in (alike or [PRINTED])[0] if it != known]).encode()
    rest = content[at:] if kind == "insert" else content[at + 1 :]
    told = content[:at] + (b"" if kind == "remove" else other) + rest
    return Slip(kind, name, at, {**files, name: told})


def tell_slip(slip: Slip, files: Files, told: Told, run: str) -> None:
    """Judge one slip."""
    told.lies += 1
    checks = _found_by(slip)
    told.caught.update(checks)
    if checks:
        return
    truth = records_of(files)
    lies = differences(truth, records_of(slip.files))
    reasons = [reason_for(lie, truth) for lie in lies]
    if None in reasons:
        told.missed.append(f"{run}, {slip.where}")
    else:
        told.harmless.update({reason for reason in reasons if reason} or {SAME})


def _found_by(slip: Slip) -> set[str]:
    with TemporaryDirectory(prefix="triack-slip-") as folder:
        for name, content in slip.files.items():
            (Path(folder) / name).write_bytes(content)
        try:
            verdict = replay_local(find_logs([Path(folder)]))
        except ReplayError:
            return {"damaged"}
    if verdict.unread:
        return {"damaged"}
    return set(verdict.violations) or ({"incomplete"} if verdict.missing or verdict.cut else set())


def differences(truth: Log, said: Log) -> Iterator[Lie]:
    """Yield a lie for each field of each record that differs, and one for each record that is gone."""
    for start, mine in truth.items():
        theirs = said.get(start, [])
        for at in range(len(theirs), len(mine)):
            yield Lie("drop", mine[at]["event"], "", start, at, [], mine[at], {})
        for at, (one, other) in enumerate(zip(mine, theirs, strict=False)):
            if one != other:
                for kind, field in _changes(one, other):
                    yield Lie(kind, one["event"], field, start, at, [], one, other)


def _changes(truth: Record, said: Record) -> Iterator[tuple[str, str]]:
    """Yield the kind and field of each change; a record with another time has two changed fields, and is one lie."""
    fields = [name for name in {**truth, **said} if truth.get(name) != said.get(name)]
    if set(fields) == {"at_ns", "wall_ns"}:
        yield "shift", ""
        return
    for name in fields:
        one, other = _amount(truth.get(name)), _amount(said.get(name))
        yield ("other" if one == other else "raise" if one < other else "lower"), name


def _amount(value: object) -> int:
    if isinstance(value, list):
        return sum(map(sum, value))
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def tell_slips(count: int, seed: int = 1, logs: int = LOGS, wide: int = WIDE) -> Told:
    """Judge all slips; the arguments are those of ``slips``."""
    told = Told()
    for slip, files, run in slips(count, seed, logs, wide):
        tell_slip(slip, files, told, run)
    return told
