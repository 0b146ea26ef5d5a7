"""Why jobs wait, in the manager's words: reasons.csv, with the in-memory manager."""

from __future__ import annotations

import csv
from dataclasses import replace
from itertools import pairwise

from test_replay_in_memory import Run, run

from slurm_mirage.replay.monitor import LONGEST_REASON, REASONS_FILE, _append_rows, first_words

__all__ = ["run"]


def test_reasons_are_written_when_they_change(run: Run) -> None:
    run.write(8)
    run.plan[1] = replace(run.plan[1], request="nodes=1 hold=2")
    run.rewrite()
    run.play()
    with (run.folder / REASONS_FILE).open() as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == ["virtual", "job", "reason"]
    reasons = [row["reason"] for row in rows if row["job"] == "101"]
    assert reasons[0] == "held"
    assert all(row["reason"] == "?" for row in rows if row["job"] != "101")
    for job in {row["job"] for row in rows}:
        assert all(one != two for one, two in pairwise(row["reason"] for row in rows if row["job"] == job))
    instants = [float(row["virtual"]) for row in rows]
    assert instants == sorted(instants)


def test_a_replay_that_goes_on_writes_after_what_is_there(run: Run) -> None:
    before = b"virtual,job,reason\n1.000,99,Priority\n2.000,9"
    (run.folder / REASONS_FILE).write_bytes(before)
    run.write(6)
    run.plan[1] = replace(run.plan[1], request="nodes=1 hold=2")
    run.rewrite()
    run.play()
    text = (run.folder / REASONS_FILE).read_bytes()
    assert text.startswith(b"virtual,job,reason\n1.000,99,Priority\n") and text.count(b"virtual") == 1
    assert b"\n2.000" not in text and text.count(b"\n") > 2


def test_rows_of_one_look_are_written_at_once(run: Run) -> None:
    path = run.folder / "some.csv"
    _append_rows(path, [{"a": 1, "b": 2}, {"a": 3, "b": 4}])
    assert path.read_text() == "a,b\n1,2\n3,4\n"


def test_a_list_of_nodes_is_left_out() -> None:
    assert first_words("ReqNodeNotAvail, UnavailableNodes:n[1-4,7]") == "ReqNodeNotAvail UnavailableNodes"
    assert first_words("ReqNodeNotAvail, Reserved for maintenance") == "ReqNodeNotAvail Reserved for maintenance"
    assert first_words("launch failed requeued  held") == "launch failed requeued held"
    assert len(first_words("x" * 200)) == LONGEST_REASON
