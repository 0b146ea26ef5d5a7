"""The program behind make: checks knobs, runs playbooks, says how it ended. Run as `python -m mirage TARGET`."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"
