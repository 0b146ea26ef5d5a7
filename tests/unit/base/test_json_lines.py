"""A journal: each entry is one line, whatever its texts are."""

from __future__ import annotations

import os
from pathlib import Path

from line_values import PLANTED

from slurm_mirage.base.json_lines import JsonLines


def test_a_text_begins_no_other_line(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = JsonLines(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND))
    texts = [text for text in PLANTED if text != "\ud800"]
    for text in texts:
        journal.append({"text": text, text: 1})
    assert [dict(entry) for entry in journal.entries()] == [{"text": text, text: 1} for text in texts]
    journal.close()
    assert len(path.read_bytes().splitlines()) == len(path.read_text().splitlines()) == len(texts)
