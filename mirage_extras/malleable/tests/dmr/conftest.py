"""Builds the library of malleable programs and its applications; a broker that answers from a script."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "files" / "dmr"


class ScriptedBroker:
    """Gives the answers of a script, one for each request. The connection ends after what is no whole line, and before None.

    `requests` are the lines that it received, `connections` how many connections have ended. A request without an answer
    (`resumed`) takes none from the script.
    """

    def __init__(self, path: Path, answers: list[bytes | None]) -> None:
        self.path = path
        self.requests: list[str] = []
        self.connections = 0
        self._answers = list(answers)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(str(path))
        self._socket.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            with connection, connection.makefile("rb") as lines:
                for line in lines:
                    if line == b"end\n":
                        return
                    self.requests.append(line.decode("ascii"))
                    if b" resumed " not in line:
                        answer = self._answers.pop(0) or b""
                        if is_last := self._answers[:1] == [None]:
                            del self._answers[0]
                            connection.shutdown(socket.SHUT_RD)  # what the client sends after the answer fails
                        with suppress(BrokenPipeError):  # the client ends the connection when an answer is too long
                            connection.sendall(answer)
                        if is_last or not answer.endswith(b"\n"):
                            break
            self.connections += 1

    def close(self) -> list[str]:
        """End it; returns the requests."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as last:
            last.connect(str(self.path))
            last.sendall(b"end\n")
        self._thread.join()
        self._socket.close()
        return self.requests


Serve = Callable[..., ScriptedBroker]


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    """serve(answer, ...): a broker with these answers."""
    return lambda *answers: ScriptedBroker(tmp_path / "broker.socket", list(answers))


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the program ask, made of the C library."""
    out = tmp_path_factory.mktemp("dmr")
    if shutil.which("make") is None or shutil.which("cc") is None:
        pytest.skip("skipped: make or a C compiler is missing")
    subprocess.run(["make", "-s", "-C", str(SOURCE), f"OUT={out}", f"{out}/libdmr.a"], check=True)
    here = Path(__file__).parent
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    subprocess.run(["cc", *flags, f"-I{SOURCE}", "-o", out / "ask", here / "ask.c", SOURCE / "dmr.c"], check=True)
    return out


@pytest.fixture(params=["C", "Python"])
def ask(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., list[str]]]:
    """ask(call, ..., VARIABLE=value): the lines that the calls print, of the library in C and of the one in Python."""
    if request.param == "C":
        command = [str(request.getfixturevalue("library") / "ask")]
    else:
        command = [sys.executable, str(Path(__file__).parent / "ask.py")]

    def ask_one(*calls: str, **variables: str) -> list[str]:
        environment = {"DMR_BROKER": str(tmp_path / "broker.socket"), "SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2"}
        environment |= {"PYTHONPATH": str(SOURCE), **variables}
        answer = subprocess.run([*command, *calls], env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert (answer.returncode, answer.stderr) == (0, "")
        return answer.stdout.splitlines()

    yield ask_one


@pytest.fixture(scope="session")
def applications(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the applications."""
    for program in ("make", "mpicc", "mpirun"):
        if shutil.which(program) is None:
            pytest.skip(f"skipped: {program} is missing (libopenmpi-dev openmpi-bin)")
    out = tmp_path_factory.mktemp("applications")
    subprocess.run(["make", "-s", "-C", str(SOURCE), f"OUT={out}", "all"], check=True)
    return out
