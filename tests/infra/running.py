"""A running cluster as the tests see it: from outside, through its own commands."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

ROOT = "/var/lib/slurm-mirage"


@dataclass
class Cluster:
    """An instance, spoken to by Slurm's own commands on its head, as its own user."""

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
        """Output of a command as the instance's user; a failure is the test's."""
        prefix = f"cd {self.directory} && SLURM_CONF={self.directory}/etc/slurm.conf SLURM_MIRAGE_INSTANCE={self.directory}"
        result = self.host.run(f"{prefix} setpriv --reuid {self.user} --regid {self.user} --clear-groups {command}")
        assert result.rc == 0, f"{command}: {result.stderr or result.stdout}"
        return str(result.stdout).strip()

    def state(self) -> dict[str, Any]:
        """What the farm says of itself."""
        environment = f"PYTHONPATH={self.directory}/lib"
        state = self.host.check_output(f"{environment} python3 -m slurm_mirage.programs.farm status {self.directory}")
        return dict(json.loads(state))

    def sigsleep(self, log: str, runtime: float, job: int = 1) -> str:
        """A command line that plays a job."""
        return f"{self.directory}/bin/sigsleep --id {job} --cores 1 --priority batch --submit 0 --runtime {runtime} --log {log}"

    def job(self, slurm_id: str) -> dict[str, str]:
        """What slurmctld knows of a job."""
        words = self.run(f"scontrol --oneliner show job {slurm_id}").split()
        return dict(word.split("=", 1) for word in words if "=" in word)


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    """Wait until `condition` holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen"
        time.sleep(0.2)
