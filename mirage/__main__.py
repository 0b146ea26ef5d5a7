"""Entry point of `python -m mirage TARGET`."""

import sys

from mirage.commands.main import main

sys.exit(main(sys.argv[1:]))
