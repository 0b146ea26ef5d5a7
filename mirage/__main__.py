"""Entry point of `python -m mirage TARGET`, and of the script `mirage`."""

import sys

from mirage.commands.command_line import main as run


def main() -> int:
    """Run the command line of this process. Returns the exit code."""
    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
