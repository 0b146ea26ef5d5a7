"""Access to a running cluster through its own Slurm commands."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

ROOT = "/var/lib/slurm-mirage"


@dataclass
class Cluster:
    """An instance. Slurm's commands run on its head, as the instance's user."""

    host: Any
    name: str
    nodes: int
    cpus: int

    @property
    def directory(self) -> str:
        return f"{ROOT}/{self.name}"

    @property
    def user(self) -> str:
        return f"slurm-{self.name}"

    def run(self, command: str) -> str:
        """Run a command as the instance's user; returns its output. The test fails if the command does."""
        prefix = f"cd {self.directory} && SLURM_CONF={self.directory}/etc/slurm.conf SLURM_MIRAGE_INSTANCE={self.directory}"
        result = self.host.run(f"{prefix} setpriv --reuid {self.user} --regid {self.user} --clear-groups {command}")
        assert result.rc == 0, f"{command}: {result.stderr or result.stdout}"
        return str(result.stdout).strip()

    def state(self) -> dict[str, Any]:
        """Return the state of the farm."""
        environment = f"PYTHONPATH={self.directory}/lib"
        state = self.host.check_output(f"{environment} python3 -m slurm_mirage.programs.farm status {self.directory}")
        return dict(json.loads(state))

    def sigsleep(self, log: str, runtime: float, job: int = 1) -> str:
        """Return the command line of a job."""
        return f"{self.directory}/bin/sigsleep --id {job} --cores 1 --priority batch --submit 0 --runtime {runtime} --log {log}"

    def job(self, slurm_id: str) -> dict[str, str]:
        """Return the fields of a job in scontrol."""
        words = self.run(f"scontrol --oneliner show job {slurm_id}").split()
        return dict(word.split("=", 1) for word in words if "=" in word)


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    """Wait until `condition` is true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen"
        time.sleep(0.2)
