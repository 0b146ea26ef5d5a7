"""The malleable applications: the same result for every number of processes, whether it changes or not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "files" / "dmr"
SIZES = {"cg": 150, "jacobi": 150, "nbody": 200}  # rows, no multiple of the number of blocks
ITERATIONS = 40
PROGRAMS = pytest.mark.parametrize("program", SIZES)
HERE = {  # mpirun without Slurm, more processes than processors, as root too
    "PATH": os.environ["PATH"],
    "OMPI_MCA_ras": "^slurm",
    "OMPI_MCA_plm": "isolated",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}


def arguments(folder: Path, program: str) -> list[str]:
    return [str(folder / program), f"--rows={SIZES[program]}", f"--iterations={ITERATIONS}"]


def run(command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=HERE | variables, capture_output=True, text=True, timeout=120, check=False)


def fixed(folder: Path, program: str, processes: int) -> str:
    answer = run(["mpirun", "-np", str(processes), *arguments(folder, program)])
    assert (answer.returncode, answer.stderr) == (0, "")
    return answer.stdout


def malleable(folder: Path, program: str, tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run it as job 7 on two nodes."""
    variables = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2", "DMR_BROKER": str(tmp_path / "broker.socket")}
    return run([sys.executable, str(SOURCE / "dmr_run.py"), *arguments(folder, program), *options], **variables)


@PROGRAMS
def test_the_result_is_the_same_for_every_size_fixed_and_resized(
    applications: Path, program: str, serve: Callable, tmp_path: Path
) -> None:
    result = fixed(applications, program, 1)
    assert re.fullmatch(rf"{program}: {ITERATIONS} iterations: value [0-9.e+-]+ digest [0-9a-f]{{16}}\n", result)
    for processes in (2, 3, 8):
        assert fixed(applications, program, processes) == result
    eight = ",".join(f"n{number}" for number in range(1, 9))
    broker = serve(
        *[b"none 2\n"] * 4,
        b"expanded 4 n1,n2,n3,n4\n",
        *[b"none 4\n"] * 4,
        f"expanded 8 {eight}\n".encode(),
        *[b"none 8\n"] * 4,
        b"shrink 1 n1\n",
        b"shrunk 1 n1\n",
        *[b"none 1\n"] * 40,
    )
    answer = malleable(applications, program, tmp_path)
    assert (answer.returncode, answer.stderr) == (0, "")
    lines = answer.stdout.splitlines(keepends=True)
    assert lines[-1] == result
    assert [line for line in lines if line.startswith("dmr_run")] == [
        "dmr_run: expand from 2 to 4 nodes: n1,n2,n3,n4\n",
        f"dmr_run: expand from 4 to 8 nodes: {eight}\n",
        "dmr_run: shrink from 8 to 1 nodes: n1\n",
    ]
    resumed = [line for line in lines if "resumed" in line]
    # The first iteration after a resize does not ask.
    assert [re.sub(r"after .*", "", line) for line in resumed] == [
        f"{program}: iteration 5: resumed with 4 processes \n",
        f"{program}: iteration 10: resumed with 8 processes \n",
        f"{program}: iteration 15: resumed with 1 processes \n",
    ]
    requests = broker.close()
    costs = [float(line.split()[-1]) for line in requests if line.startswith("mirage 1 resumed 7 ")]
    assert [f"{cost:.3f}" for cost in costs] == [line.split()[-2] for line in resumed]
    assert all(cost > 0 for cost in costs)
    checks = [line.split()[4] for line in requests if line.startswith("mirage 1 check 7 ")]
    assert checks == ["2"] * 5 + ["4"] * 5 + ["8"] * 5 + ["1"] * (ITERATIONS - 16)
    assert not list(Path("/dev/shm").glob("dmr-7-*"))


def test_a_shrink_that_the_broker_gives_up_goes_on_with_all_processes(applications: Path, serve: Callable, tmp_path: Path) -> None:
    serve(b"shrink 1 n1\n", b"none 2 the job is suspended\n", *[b"none 2\n"] * ITERATIONS)
    answer = malleable(applications, "cg", tmp_path)
    assert (answer.returncode, answer.stderr) == (0, "dmr_run: no shrink to 1 nodes: the job is suspended\n")
    assert "cg: iteration 1: resumed with 2 processes" in answer.stdout
    assert answer.stdout.endswith(fixed(applications, "cg", 2))


def test_the_words_of_the_program_reach_the_broker(applications: Path, serve: Callable, tmp_path: Path) -> None:
    broker = serve(*[b"none 2\n"] * ITERATIONS)
    words = ["--minimum=2", "--maximum=32", "--factor=4", "--preferred=8", "--asynchronous"]
    assert malleable(applications, "jacobi", tmp_path, *words).returncode == 0
    assert broker.close() == ["mirage 1 icheck 7 2 2 32 4 8\n"] * (ITERATIONS - 1)


def test_without_a_broker_the_program_runs_to_its_end(applications: Path, tmp_path: Path) -> None:
    answer = malleable(applications, "cg", tmp_path)
    assert (answer.returncode, answer.stdout) == (0, fixed(applications, "cg", 1))


WRONG = ("--rows=63", "--rows=x", "--iterations=0", "--factor=1", "--minimum=9 --maximum=8", "--what=1", "more")


@pytest.mark.parametrize("words", WRONG)
def test_wrong_options_are_refused_in_one_line(applications: Path, words: str) -> None:
    answer = run([str(applications / "cg"), "--rows=64", "--iterations=1", *words.split()])
    assert answer.returncode == 2
    assert answer.stderr.startswith("cg: wrong use: ") and answer.stderr.count("\n") == 1


def test_the_starter_ends_with_the_exit_code_of_the_program_and_says_what_it_lacks(tmp_path: Path) -> None:
    starter = [sys.executable, str(SOURCE / "dmr_run.py")]
    assert run(starter).returncode == 2
    answer = run([*starter, "true"])
    assert (answer.returncode, answer.stderr.count("\n")) == (2, 1)
    assert "SLURM_JOB_ID is not set" in answer.stderr
