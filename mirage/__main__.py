"""Entry point of `python -m mirage TARGET`, and of the script `mirage`."""

import sys

from mirage.commands.command_line import main as run
from mirage.commands.unprivileged import give_up_root


def main() -> int:
    """Run the command line of this process. Returns the exit code."""
    return run(sys.argv[1:], give_up_root)


if __name__ == "__main__":
    sys.exit(main())
