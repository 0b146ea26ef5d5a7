"""Small run folders with what filler jobs leave."""

from __future__ import annotations

from typing import Any

from run_folders import JOBCOMP, MadeFolder, ns

from slurm_mirage.extras.filler.filler_log import Cause, FillerRecord, pack_filler


class FillerFolder(MadeFolder):
    """A run folder to which executions and records of fillers can be added."""

    def filler_run(
        self, number: int, start: float, end: float, state: str = "PENDING", node: str = "n1", cpus: int = 4, code: int = 0
    ) -> None:
        """A line of the completion log about an execution of a filler, which Slurm numbers 500 + number. code: of its exit"""
        times = {"submit": self.printed(0.0), "eligible": self.printed(0.0), "start": self.printed(start), "end": self.printed(end)}
        ids = {"slurm_id": 500 + number, "name": f"mirage-filler-{number}"}
        line = JOBCOMP.format(state=state, limit=1, nodes=node, count=1, cpus=cpus, **ids, **times)
        self.jobcomp += line.replace(" ExitCode=0:0", f" ExitCode={code}:0")

    def filler_record(self, number: int, cause: Cause, *, start: float, ready: float, **values: Any) -> None:
        """A record of a filler. values: fields of FillerRecord; those of instants, and of lengths, in seconds without `_ns`."""
        at = {"start": start, "ready": ready, "from": ready, "to": ready, "saved": ready}
        at |= {name: values.pop(name) for name in ("from", "to", "saved") if name in values}
        lengths = {"worked": 0.0, "before": 0.0, "after": 0.0, "work": 36000.0}
        lengths |= {name: values.pop(name) for name in lengths if name in values}
        fields = {f"{name}_ns": ns(instant) for name, instant in at.items()}
        fields |= {f"{name}_ns": round(length * 1e9) for name, length in lengths.items()}
        more = {"node": "n1", "start": 1, "slurm_job_id": 500 + number, **fields, **values}
        record = pack_filler(FillerRecord(id=number, cause=cause, **more))
        self.files["fillers.bin"] = self.files.get("fillers.bin", b"") + record
