"""Which ``raise`` and ``except`` of the product no test has reached: ``make paths``.

An error path that has never run is a guess. Lines that only a killed process has run are not seen.
"""

import ast
import sys
from pathlib import Path

import coverage

import triack


def error_paths(source: str) -> dict[int, str]:
    """The lines that raise or handle an error, by number."""
    lines = source.splitlines()
    numbers = {node.lineno for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Raise | ast.ExceptHandler)}
    return {number: lines[number - 1].strip() for number in sorted(numbers)}


def main() -> int:
    """Print those that were not reached, and how many were."""
    measured = coverage.Coverage()
    measured.load()
    root = Path(triack.__file__).parent
    total, untaken = 0, []
    for file in sorted(root.rglob("*.py")):
        paths = error_paths(file.read_text())
        _, _, _, missing, _ = measured.analysis2(str(file))
        total += len(paths)
        untaken += [f"{file.relative_to(root)}:{number}: {paths[number]}" for number in missing if number in paths]
    sys.stdout.write("".join(f"{line}\n" for line in untaken))
    sys.stdout.write(f"{total - len(untaken)} of {total} error paths taken\n")
    return 1 if untaken else 0


if __name__ == "__main__":
    sys.exit(main())
