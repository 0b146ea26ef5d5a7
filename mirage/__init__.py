"""The program behind make: checks knobs, runs playbooks, says how it ended. Run as `python -m mirage TARGET`."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The checkout. Without one, only commands that need no cluster run, and they read nothing there."""
IS_CHECKOUT = (ROOT / "module_utils/slurm_mirage").is_dir()
"""Whether this package is in a checkout; otherwise a wheel was installed."""
RESULTS = ROOT / "results" if IS_CHECKOUT else Path("results")
"""Folder of results: of the checkout, or of the current folder."""
PROGRAM = "make" if IS_CHECKOUT else "mirage"
"""The word before a target, in messages."""
