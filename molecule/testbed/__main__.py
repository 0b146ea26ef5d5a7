"""`python molecule/testbed COMMAND BED`: README.md beside this file tells what the commands do."""

import sys
from pathlib import Path

MOLECULE = Path(__file__).resolve().parent.parent


def main() -> int:
    """Run the program from wherever it was called."""
    sys.path[:0] = [str(MOLECULE), str(MOLECULE.parent / "module_utils")]
    from testbed.cli import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
