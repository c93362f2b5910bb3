"""All proofs about a store on its disk, in parts that processes share out among themselves."""

import os
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import fields
from multiprocessing import get_context
from time import perf_counter
from typing import Any, TypeAlias

from proof.disk.damage import DamageProof, prove_damage
from proof.disk.errors import ErrorProof, prove_errors
from proof.disk.power import PowerProof, prove_power

Proof: TypeAlias = PowerProof | ErrorProof | DamageProof
PARTS = 4

PROOFS: list[tuple[str, Callable[..., Proof], dict[str, Any]]] = [
    ("loss of power", prove_power, {"page_bytes": 512, "thorough": True}),
    ("loss of power", prove_power, {"page_bytes": 512, "thorough": True, "powersafe": False}),
    ("loss of power", prove_power, {"page_bytes": 1_024, "thorough": True}),
    ("loss of power", prove_power, {"page_bytes": 1_024, "thorough": True, "powersafe": False}),
    ("loss of power", prove_power, {"page_bytes": 2_048, "thorough": True}),
    ("failing calls", prove_errors, {}),
    ("damage", prove_damage, {}),
    ("damage after an orderly end", prove_damage, {"clean": True}),
]


def prove_all(
    say: Callable[[str], None] = lambda _line: None, jobs: int = 0, *, every: int = 1
) -> tuple[dict[str, Proof], float]:
    """Run all proofs. Returns them by name, and the seconds that passed."""
    began_s, found = perf_counter(), dict[str, Proof]()
    with ProcessPoolExecutor(jobs or os.cpu_count() or 1, mp_context=get_context("spawn")) as pool:
        parts: dict[Future[Proof], str] = {
            pool.submit(prove, **options, first=part * every, every=PARTS * every): name
            for name, prove, options in PROOFS
            for part in range(PARTS)
        }
        for done, part in enumerate(as_completed(parts), 1):
            proof, name = part.result(), parts[part]
            found[name] = merge(found[name], proof) if name in found else proof
            say(f"{done} of {len(parts)} parts: {name}: {len(proof.violations)} violations in {proof.seconds:.0f} s")
    return {name: found[name] for name, _, _ in PROOFS}, perf_counter() - began_s


def merge(one: Proof, other: Proof) -> Proof:
    """Merge two parts of a proof: sums, except for the calls of the life, which both parts share."""
    for field in fields(one):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if isinstance(mine, Counter):
            mine.update(theirs)
        elif field.name == "calls":
            setattr(one, field.name, max(mine, theirs))
        else:
            setattr(one, field.name, mine + theirs)
    return one
