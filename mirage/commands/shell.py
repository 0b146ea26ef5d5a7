"""`make shell`: starts a shell of the instance's user, in which the manager's commands (squeue or qstat) use the instance.

An aspect may offer the shell of another user: its function `login(knobs, directory)` returns the command, or None.
"""

from __future__ import annotations

import os
from pathlib import Path

from mirage.aspects import offers
from mirage.experiment import preflight
from mirage.experiment.endings import Ending, Failed
from mirage.knobs.knobs import Knobs
from mirage.terminal.screen import Screen
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.files import read_json
from slurm_mirage.base.processes import INSTANCE_VARIABLE, instance_user, users_of
from slurm_mirage.farm.farm import read_state
from slurm_mirage.farm.network import has_network, open_entrance
from slurm_mirage.instance.instance import commands_of
from slurm_mirage.rm.api import Unavailable
from slurm_mirage.rm.managers import manager, manager_of
from slurm_mirage.rm.slurm import job_users


def command(directory: Path, cluster: str) -> list[str]:
    """The command that enters the farm's namespaces, changes to its user and starts the shell. Raises Failed if no farm runs."""
    state = read_state(directory)
    # The instance's user writes the state, and root enters the namespace of the process that it names.
    if state is None or users_of(state["pid"]) != {instance_user(str(directory))}:
        raise Failed(f"cluster {cluster} does not run on this machine: make cluster CLUSTER={cluster} starts it")
    user = read_json(directory / "instance.json")["user"]
    environment = {
        **manager(manager_of(directory)).environment(directory),
        # Processes with this variable belong to the instance: teardown ends them.
        INSTANCE_VARIABLE: str(directory),
        **job_users.environment(directory),
        "HOME": f"{directory}/home",
        "USER": user,
        "LOGNAME": user,
        "PATH": f"{directory}/bin:{commands_of(directory)}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "TERM": os.environ.get("TERM", "dumb"),
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "PS1": f"({cluster}) \\w\\$ ",
    }
    become = [] if os.geteuid() == 0 else ["sudo"]
    enter = [*become, "nsenter", "--target", str(state["pid"]), "--uts", "--"]
    if has_network(directory):
        if become:
            raise Failed(f"only root can enter the network of cluster {cluster}: call make shell as root")
        try:
            inside = open_entrance(directory, as_root=True)
        except Unavailable as error:
            raise Failed(f"cluster {cluster}: {error}") from error
        for descriptor in inside.descriptors:
            os.set_inheritable(descriptor, True)
        enter = list(inside.words)
    drop = ["setpriv", "--reuid", user, "--regid", user, "--init-groups"]
    given = [f"{name}={value}" for name, value in environment.items()]
    fresh = ["env", "--ignore-environment", f"--chdir={directory}/home", *given]
    return [*enter, *drop, "--", *fresh, "bash", "--norc", "--noprofile"]


def shell(knobs: Knobs, screen: Screen) -> Ending:
    """Replace this program by the shell. Returns only by an exception."""
    cluster = knobs.cluster
    preflight.privileges(cluster)
    directory = preflight.instance_directory(cluster)
    if not preflight.is_here(cluster) and not directory.exists():
        message = "make shell enters a cluster on this machine; call it on the head, in a clone that is there"
        raise WrongUse(message, parameter="inventory")
    own = (found for login in offers("shell", "login") if (found := login(knobs, directory)) is not None)
    if (words := next(own, None)) is not None:
        os.execvp(words[0], words)
    words = command(directory, cluster.name)
    if (work := preflight.at_work(cluster)) is not None:
        screen.say(f"warning: run {work.order} goes on in this cluster; a job that is submitted here makes it invalid")
    os.execvp(words[0], words)
