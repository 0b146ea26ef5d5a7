"""What copies of the project's folders leave out, for `ignore` of shutil.copytree."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def left_out(folder: str, names: Sequence[str]) -> set[str]:
    """Compiled Python, and links to an extra that is not there. (copytree's own option takes each relative link for one.)"""
    return {name for name in names if name == "__pycache__" or not Path(folder, name).exists()}
