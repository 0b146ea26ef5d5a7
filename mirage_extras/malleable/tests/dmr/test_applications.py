"""The malleable applications: the same result for every number of processes, whether it changes or not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_mirage.base.processes import command_line, parents

SOURCE = Path(__file__).parents[2] / "files" / "dmr"
SIZES = {"cg": 150, "jacobi": 150, "nbody": 200}  # rows, no multiple of the number of blocks
ITERATIONS = 40
JOB = str(os.getpid())  # tests run side by side
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
    """Run it as job JOB on two nodes."""
    variables = {"SLURM_JOB_ID": JOB, "SLURM_JOB_NUM_NODES": "2", "DMR_BROKER": str(tmp_path / "broker.socket")}
    return run([sys.executable, str(SOURCE / "dmr_run.py"), *arguments(folder, program), *options], **variables)


@PROGRAMS
def test_the_result_is_the_same_for_every_size_fixed_and_resized(
    applications: Path, program: str, serve: Callable, tmp_path: Path
) -> None:
    result = fixed(applications, program, 1)
    assert re.fullmatch(rf"{program}: {ITERATIONS} iterations: value [0-9.e+-]+ digest [0-9a-f]{{16}}\n", result)
    for processes in (2, 3, 4, 8):
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
    costs = [float(line.split()[-1]) for line in requests if line.startswith(f"mirage 1 resumed {JOB} ")]
    assert [f"{cost:.3f}" for cost in costs] == [line.split()[-2] for line in resumed]
    assert all(cost > 0 for cost in costs)
    checks = [line.split()[4] for line in requests if line.startswith(f"mirage 1 check {JOB} ")]
    assert checks == ["2"] * 5 + ["4"] * 5 + ["8"] * 5 + ["1"] * (ITERATIONS - 16)
    # The broker takes back a shrink whose connection ends, and the processes that were asked have ended.
    assert broker.connections == 1
    assert not list(Path("/dev/shm").glob(f"dmr-{JOB}-*"))


def test_a_shrink_that_the_broker_gives_up_goes_on_with_all_processes(applications: Path, serve: Callable, tmp_path: Path) -> None:
    serve(b"shrink 1 n1\n", b"none 2 the job is suspended\n", *[b"none 2\n"] * ITERATIONS)
    answer = malleable(applications, "cg", tmp_path)
    assert (answer.returncode, answer.stderr) == (0, "dmr_run: no shrink to 1 nodes: the job is suspended\n")
    assert "cg: iteration 1: resumed with 2 processes" in answer.stdout
    assert answer.stdout.endswith(fixed(applications, "cg", 2))


def test_nodes_that_were_lost_need_no_word_to_the_broker(applications: Path, serve: Callable, tmp_path: Path) -> None:
    broker = serve(b"shrunk 1 n2\n", *[b"none 1\n"] * ITERATIONS)
    answer = malleable(applications, "cg", tmp_path)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.startswith("dmr_run: lost from 2 to 1 nodes: n2\ncg: iteration 1: resumed with 1 processes")
    assert answer.stdout.endswith(fixed(applications, "cg", 2))
    assert not any(" ready " in request for request in broker.close())


def test_a_broker_that_is_lost_is_asked_again(applications: Path, serve: Callable, tmp_path: Path) -> None:
    broker = serve(b"", b"expanded 4 n1", *[b"none 2\n"] * 3, b"", *[b"none 2\n"] * ITERATIONS)
    answer = malleable(applications, "cg", tmp_path)
    assert (answer.returncode, answer.stdout) == (0, fixed(applications, "cg", 2))
    assert len(broker.close()) == ITERATIONS - 1


def test_the_words_of_the_program_reach_the_broker(applications: Path, serve: Callable, tmp_path: Path) -> None:
    broker = serve(*[b"none 2\n"] * ITERATIONS)
    words = ["--minimum=2", "--maximum=32", "--factor=4", "--preferred=8", "--asynchronous"]
    assert malleable(applications, "jacobi", tmp_path, *words).returncode == 0
    assert broker.close() == [f"mirage 1 icheck {JOB} 2 2 32 4 8\n"] * (ITERATIONS - 1)


def test_requests_are_for_one_number_of_nodes(applications: Path, serve: Callable, tmp_path: Path) -> None:
    broker = serve(*[b"none 2\n"] * ITERATIONS)
    assert malleable(applications, "cg", tmp_path, "--preferred=1", "--request=3:4", "--request=38:1").returncode == 0
    sizes = [request.split()[5:9] for request in broker.close()]
    assert sizes == [["1", "64", "2", "1"]] * 2 + [["4", "4", "2", "0"]] * 35 + [["1", "1", "2", "0"]] * 2


def test_without_a_broker_the_program_runs_to_its_end(applications: Path, tmp_path: Path) -> None:
    answer = malleable(applications, "cg", tmp_path)
    assert (answer.returncode, answer.stdout) == (0, fixed(applications, "cg", 1))


WRONG = (
    "more",
    "--what=1",
    "--rows=63",
    "--rows=x",
    "--iterations=0",
    "--factor=1",
    "--minimum=9 --maximum=8",
    "--request=5",
    "--request=5:2 --request=5:4",
)


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


def running(program: Path) -> list[int]:
    """Ids of the processes that have this path in a word of their command line."""
    return [pid for pid in parents() if any(str(program) in word for word in command_line(pid))]


@pytest.mark.parametrize("pause", [0.0, 0.005, 0.02, 1.0])
def test_the_end_of_the_job_leaves_nothing(applications: Path, pause: float) -> None:
    """Neither in memory nor of mpirun's processes, also while mpirun is being started."""
    words = [sys.executable, str(SOURCE / "dmr_run.py"), str(applications / "cg"), "--rows=64", "--iterations=1000000000"]
    with subprocess.Popen(words, env=HERE | {"SLURM_JOB_ID": JOB, "SLURM_JOB_NUM_NODES": "2"}) as starter:
        children = Path(f"/proc/{starter.pid}/task/{starter.pid}/children")
        while not children.read_text():
            assert starter.poll() is None
            time.sleep(0.01)
        assert list(Path("/dev/shm").glob(f"dmr-{JOB}-*"))
        time.sleep(pause)
        starter.terminate()
        assert starter.wait(timeout=120) == 143
    assert not list(Path("/dev/shm").glob(f"dmr-{JOB}-*"))
    deadline = time.monotonic() + 120
    while left := running(applications / "cg"):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)
