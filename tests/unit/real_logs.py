"""Real workload logs for tests: the files of the folder that the environment variable MIRAGE_LOGS names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

KTH = "KTH-SP2-1996.unfiltered.swf.gz"


def real_log(name: str) -> Path:
    """The path of a log in MIRAGE_LOGS. Skips the test where there is no such file."""
    folder = os.environ.get("MIRAGE_LOGS", "")
    path = Path(folder, name)
    if not folder or not path.exists():
        pytest.skip(f"MIRAGE_LOGS names no folder with {name}")
    return path
