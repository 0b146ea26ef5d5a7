"""`make shell`: a shell of the instance's user, whose squeue, sinfo and sbatch speak to the instance."""

from __future__ import annotations

import os
from pathlib import Path

from mirage.experiment.endings import Failed
from slurm_mirage.base.files import read_json
from slurm_mirage.base.processes import INSTANCE_VARIABLE
from slurm_mirage.clock import instance_clock
from slurm_mirage.farm.farm import read_state
from slurm_mirage.instance.instance import commands_of


def command(directory: Path, cluster: str) -> list[str]:
    """The words that enter the farm's host name and user and start the shell. Failed when no farm runs."""
    state = read_state(directory)
    if state is None:
        raise Failed(f"cluster {cluster} does not run on this machine: make cluster CLUSTER={cluster} starts it")
    user = read_json(directory / "instance.json")["user"]
    environment = {
        "SLURM_CONF": f"{directory}/etc/slurm.conf",
        # What is submitted from this shell belongs to the instance, so that teardown ends it.
        INSTANCE_VARIABLE: str(directory),
        **instance_clock.environment(directory),
        "HOME": f"{directory}/home",
        "USER": user,
        "LOGNAME": user,
        "PATH": f"{directory}/bin:{commands_of(directory)}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "TERM": os.environ.get("TERM", "dumb"),
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "PS1": f"({cluster}) \\w\\$ ",
    }
    become = [] if os.geteuid() == 0 else ["sudo"]
    enter = ["nsenter", "--target", str(state["pid"]), "--uts"]
    drop = ["setpriv", "--reuid", user, "--regid", user, "--init-groups"]
    given = [f"{name}={value}" for name, value in environment.items()]
    fresh = ["env", "--ignore-environment", f"--chdir={directory}/home", *given]
    return [*become, *enter, "--", *drop, "--", *fresh, "bash", "--norc", "--noprofile"]


def enter(directory: Path, cluster: str) -> None:
    """Become the shell. Does not return."""
    words = command(directory, cluster)
    os.execvp(words[0], words)
