"""Where clients reach a sandbox: all is on the loopback address."""

from __future__ import annotations

from pathlib import Path

from ...base.files import read_json

ADDRESS = "127.0.0.1"
_METRICS = "MetricsType="


def rest_url(directory: Path) -> str:
    """The address of slurmrestd; empty if the instance in `directory` is no sandbox."""
    port = (read_json(directory / "instance.json") or {}).get("rest_port")
    return f"http://{ADDRESS}:{port}" if port else ""


def metrics_url(directory: Path) -> str:
    """The address of slurmctld's metrics; empty where it has none."""
    lines = (directory / "etc/slurm.conf").read_text(errors="replace").splitlines()
    port = (read_json(directory / "instance.json") or {}).get("port")
    return f"http://{ADDRESS}:{port}/metrics" if port and any(line.startswith(_METRICS) for line in lines) else ""
