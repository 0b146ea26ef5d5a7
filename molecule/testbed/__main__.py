"""`.venv/bin/python -m testbed COMMAND BED`: README.md beside this file tells what the commands do."""

import sys

from testbed.cli import run

sys.exit(run(sys.argv[1:]))
