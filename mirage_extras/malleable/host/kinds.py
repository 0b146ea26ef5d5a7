"""The kind of the jobs of a run with malleable jobs."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from ...base.run_settings import RunSettings
from ...jobs.kinds import Sigsleep
from ...jobs.plan import PlanRow
from .daemons import SOCKET


@dataclass(frozen=True)
class MalleableSigsleep(Sigsleep):
    """Jobs of sigsleep. Those that have words in the plan are malleable: they ask the broker of the cluster for other sizes."""

    broker: str = ""
    """Path of the broker's socket."""

    @classmethod
    def of_run(cls, settings: RunSettings) -> MalleableSigsleep:
        """As `Sigsleep.of_run`, with the setting broker of run.json. Raises WrongUse."""
        rigid = Sigsleep.of_run(settings)
        return cls(rigid.program, rigid.record_path, rigid.clock, settings.text("broker"))

    def command_line(self, row: PlanRow, submitted: float, runtime: float, record: Path | None = None) -> str:
        line = super().command_line(row, submitted, runtime, record)
        words = row.extras.get("malleable")
        if not words:
            return line
        return f"{line} {shlex.join(['--malleable', words, '--nodes', str(row.nodes), '--broker', self.broker])}"


KINDS = {"malleable": MalleableSigsleep.of_run}


def run_settings(instance: Path, kind: str) -> dict[str, str]:
    """The settings in run.json that runs with jobs of a kind need besides, on a host with the instance's directory."""
    return {"broker": str(instance / SOCKET)} if kind in KINDS else {}
