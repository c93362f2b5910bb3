"""Where ``triack`` begins: the command line, or a line that says how to get it.

A plain installation is the library alone. The command comes with it, as a script cannot be left to an extra.
"""

import importlib.util
import sys

LIBRARIES = ("click", "jinja2", "rich", "structlog")
"""The libraries of the extra ``cli``; a test holds them against pyproject.toml."""
HINT = "triack: the command line needs a few libraries more: pip install 'triack[cli]'\n"
EXIT_MISSING = 1


def main() -> None:
    """Run the command line and exit."""
    if any(importlib.util.find_spec(name) is None for name in LIBRARIES):
        sys.stderr.write(HINT)
        sys.exit(EXIT_MISSING)
    from triack.tools.cli import main as run

    run()
