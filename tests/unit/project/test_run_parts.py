"""tests/run_parts.py: which parts of `make test` run, how they end, and what the table holds."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slurm_mirage.base import processes
from tests.run_parts import Outcome, Part, Parts, Steps, failed_tasks, report, table

ROOT = Path(__file__).parents[3]
PATIENCE = 60


def part(name: str, script: str, *after: str, width: int = 1) -> Part:
    return Part(name, ["sh", "-c", script], after, width)


def run(*parts: Part, lanes: int = 2) -> dict[str, int | None]:
    started = Parts(parts, lanes)
    started.run()
    return {name: outcome.code for name, outcome in started.outcomes.items()}


def test_a_part_that_fails_ends_only_those_that_need_it() -> None:
    codes = run(part("a", "exit 3"), part("b", "true", "a"), part("c", "true", "b"), part("d", "true"), part("e", "true", "d"))
    assert codes == {"a": 3, "b": None, "c": None, "d": 0, "e": 0}


def test_parts_run_side_by_side_as_far_as_lanes_are_free(tmp_path: Path) -> None:
    """Two parts wait for each other; a wide one begins when both have ended."""
    meet = "touch {0}; while ! test -e {1}; do sleep 0.05; done"
    one, two, end = tmp_path / "one", tmp_path / "two", tmp_path / "end"
    wide = part("wide", f"test -e {end}", width=8)
    codes = run(part("a", meet.format(one, two)), part("b", meet.format(two, one) + f"; sleep 0.2; touch {end}"), wide)
    assert codes == {"a": 0, "b": 0, "wide": 0}


def test_a_part_that_measures_times_waits_for_wide_ones(tmp_path: Path) -> None:
    """The third part begins beside the wide one, the timed part before it in the list does not."""
    wide, other = tmp_path / "wide", tmp_path / "other"
    parts = [
        part("wide", f"while ! test -e {other}; do sleep 0.05; done; sleep 0.2; touch {wide}", width=2),
        Part("timed", ["test", "-e", str(wide)], is_timed=True),
        part("other", f"touch {other}"),
    ]
    assert run(*parts, lanes=3) == {"wide": 0, "timed": 0, "other": 0}


def test_the_processor_time_of_a_part_includes_its_children() -> None:
    started = Parts([part("a", "python3 -c 'import time\nwhile time.process_time() < 0.5: pass'; true")], 1)
    started.run()
    assert started.outcomes["a"].busy >= 0.5


def test_the_output_of_a_part_is_printed_in_one_piece(capsys: pytest.CaptureFixture[str]) -> None:
    run(*(part(name, f"for i in 1 2 3; do echo {name}$i; sleep 0.05; done") for name in "ab"))
    lines = capsys.readouterr().out
    assert "a1\na2\na3\n" in lines
    assert "b1\nb2\nb3\n" in lines


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_parts_and_their_children(number: signal.Signals, tmp_path: Path) -> None:
    script = f"cd {tmp_path}; sleep 1000 & echo $! > new; mv new child; wait"
    code = f"""
import sys
from tests import run_parts
run_parts.all_parts = lambda: [run_parts.Part("a", ["sh", "-c", {script!r}])]
sys.exit(run_parts.main([]))
"""
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + PATIENCE
    while not (tmp_path / "child").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    child = int((tmp_path / "child").read_text())
    started = processes.start_time(child)
    assert started is not None
    process.send_signal(number)
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert output.splitlines()[-1] == "failed: a"
    assert not processes.is_alive(child, started)


def test_steps_of_tests_faults_and_molecule() -> None:
    steps = Steps()
    lines = {
        1.0: "12.34s call     tests/unit/a/test_b.py::test_c[x]",
        2.0: "[3/9]   17 s  replay-killed: right",
        3.0: "INFO     local ➜ check: Executing",
        4.0: "0.5s of something",
        7.5: "INFO     local ➜ check: Executed: Successful",
    }
    actions = [steps.read(line, now) for now, line in lines.items()]
    assert actions == ["", "", "check", "", ""]
    assert steps.steps == [("tests/unit/a/test_b.py::test_c[x] (call)", 12.34), ("replay-killed", 17.0), ("check", 4.5)]


def test_the_message_of_a_failed_task_is_repeated_without_its_middle() -> None:
    long = [f"line {number}" for number in range(40)]
    bad = ["TASK [Bad]", "fatal: [head]: FAILED!", *long]
    lines = ["TASK [Good]", "ok: [head]", *(f"  │ {line}" for line in bad), "  │ PLAY RECAP", "CRITICAL it"]
    assert list(failed_tasks(lines)) == [*bad[:16], *bad[-8:]]


def test_the_report_names_the_tests_that_failed_once(capsys: pytest.CaptureFixture[str]) -> None:
    named = ["ERROR tests/unit/a/test_b.py::test_c", "FAILED tests/unit/a/test_b.py::test_d[x] - assert 1 == 2"]
    assert report([Outcome(Part("unit", []), 0, output=["tests/unit/a/test_b.py .F", named[0], *named, "1 failed"])], []) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "::" in line] == named


def test_the_report_names_what_was_not_run(capsys: pytest.CaptureFixture[str]) -> None:
    local = Outcome(Part("local", []), 0, 3.0, [("check", 2.0)])
    assert report([local, Outcome(Part("unit", []))], [("packages", 4.0)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[1:5]] == [
        ["packages", "4.0"],
        ["local", "0", "s", "of", "a", "processor", "3.0"],
        ["local", "check", "2.0"],
        ["unit", "0", "s", "of", "a", "processor", "0.0"],
    ]
    assert lines[-2].startswith("scenarios that passed: local; failed or not run: ")
    assert lines[-1] == "failed: unit"


def test_each_line_of_the_table_ends_with_seconds() -> None:
    assert [line.split()[-1] for line in table([("a", "", 1.0), ("a", "b" * 200, 2.25)]).splitlines()] == ["seconds", "1.0", "2.2"]
