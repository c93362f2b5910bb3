"""``python -m triack`` is the command line."""

from triack.tools.cli import main

main()
