"""``python -m triack`` is the command line."""

from triack.tools.entry import main

main()
