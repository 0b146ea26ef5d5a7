"""The program behind make: checks knobs, runs playbooks, says how it ended. Run as `python -m cli TARGET`."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# The project is used from its clone, so the package that Ansible ships to the hosts is found beside this one.
sys.path.insert(0, str(ROOT / "module_utils"))
