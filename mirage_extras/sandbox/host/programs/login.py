"""python3 -m slurm_mirage.extras.sandbox.programs.login DIRECTORY USER: a shell of a user of a sandbox. For root.

Root makes what the user needs, and executes nothing that the user can write. The shell has no capabilities and can get none, no
descriptor of root's, a terminal of its own, and process ids of its own: what the user leaves behind ends with the shell.
"""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ....base import processes
from ....base.errors import WrongUse
from ....base.files import read_json
from ....base.printing import say
from ....clock import instance_clock
from ....farm.farm import read_state
from ....instance.instance import commands_of
from ....rm.api import ResourceManagerError
from ....rm.slurm import job_users
from ....rm.slurm.account_commands import AccountCommands
from ....rm.slurm.accounting import DEFAULT_ACCOUNT, Wanted
from .. import users
from ..addresses import metrics_url, rest_url
from ..commands import ask

LIFETIME = 86400
"""Seconds for which the shell's token is valid, by the host's clock."""
WAIT = 30.0
"""Seconds to wait for slurmdbd, and then for slurmctld."""


PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


class NotRunning(Exception):
    """The sandbox does not run. The message says what starts it."""


def main(arguments: list[str]) -> int:
    """Start the shell of the user; returns its exit code, or 1 with one line."""
    if len(arguments) != 2 or os.geteuid() != 0:
        say("usage, as root: python3 -m slurm_mirage.extras.sandbox.programs.login DIRECTORY USER", file=sys.stderr)
        return 2
    directory, name = Path(arguments[0]), arguments[1]
    try:
        farm = farm_of(directory)
        number = users.ensure(directory, name)
        environment, secret = environment_of(directory, name), token(directory, name)
    except WrongUse as error:
        say(f"wrong use: {error.with_name('USER')}")
        return 2
    except (NotRunning, ResourceManagerError, OSError) as error:
        say(f"failed: {error}")
        return 1
    # The token is in no command line, which all users of the host can read.
    own = {"PATH": PATH, processes.INSTANCE_VARIABLE: str(directory), "REST_TOKEN": secret}
    return run(command(farm, directory, name, number, environment), own)


def farm_of(directory: Path) -> int:
    """Process id of the farm. Raises NotRunning."""
    state = read_state(directory)
    # The instance's user writes the state, and root enters the namespace of the process that it names.
    if state is None or processes.users_of(state["pid"]) != {processes.instance_user(str(directory))}:
        raise NotRunning(f"sandbox {directory.name} does not run: make sandbox CLUSTER={directory.name} starts it")
    pid: int = state["pid"]
    return pid


def environment_of(directory: Path, name: str) -> dict[str, str]:
    """The environment of the user's shell without a token."""
    libraries = job_users.environment(directory)
    if instance_clock.VARIABLE in libraries:
        libraries[instance_clock.VARIABLE] = str(directory / instance_clock.COPY)
    return {
        "SLURM_CONF": f"{directory}/etc/slurm.conf",
        **libraries,
        "HOME": str(directory / job_users.USERS / name),
        "USER": name,
        "LOGNAME": name,
        "SHELL": "/bin/bash",
        "PATH": f"{directory}/bin:{commands_of(directory)}:/usr/local/bin:/usr/bin:/bin",
        "TERM": os.environ.get("TERM", "dumb"),
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "PS1": f"({directory.name}) {name}:\\w\\$ ",
        "REST_URL": rest_url(directory),
        "METRICS_URL": metrics_url(directory),
    }


def token(directory: Path, name: str) -> str:
    """A token of the user for the REST API, from slurmctld; the user has an account then. Raises ResourceManagerError."""
    commands, user = commands_of(directory), read_json(directory / "instance.json")["user"]
    AccountCommands(directory, str(commands), WAIT).ensure(Wanted(directory.name, user, [], users=[(name, DEFAULT_ACCOUNT)]))
    key, _, value = ask(directory, commands, "scontrol", "token", f"username={name}", f"lifespan={LIFETIME}").strip().partition("=")
    if key != "SLURM_JWT":
        raise ResourceManagerError("scontrol token: no token")
    return value


def command(farm: int, directory: Path, name: str, number: int, environment: Mapping[str, str]) -> list[str]:
    """The words that give up root's rights and start the shell."""
    enter = ["nsenter", "--target", str(farm), "--uts", "--"]
    apart = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]
    drop = ["setpriv", f"--reuid={number}", f"--regid={job_users.named_group(directory)}", "--clear-groups"]
    # The kernel forgets --kill-child when the user changes (prctl(2)).
    drop += ["--inh-caps=-all", "--bounding-set=-all", "--pdeathsig=SIGKILL"]
    home = directory / job_users.USERS / name
    given = ["env", f"--chdir={home}", *(f"{key}={value}" for key, value in environment.items())]
    return [*enter, *apart, *drop, "--no-new-privs", "--", *given, "bash", "--norc", "--noprofile"]


def run(words: list[str], environment: Mapping[str, str]) -> int:
    """Run the words and return their exit code; on a terminal with one of their own, so that the shell cannot type into root's.

    Without a terminal to read from they have no controlling one, and write into one for output only.
    """
    if not os.isatty(0):
        streams = _for_output(1), _for_output(2)
        done = subprocess.run(words, env=environment, stdout=streams[0], stderr=streams[1], start_new_session=True, check=False)
        return done.returncode

    def resize(terminal: int) -> None:
        with suppress(OSError):
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, fcntl.ioctl(0, termios.TIOCGWINSZ, struct.pack("8x")))

    def read(terminal: int) -> bytes:
        if signal.getsignal(signal.SIGWINCH) is signal.SIG_DFL:
            resize(terminal)
            signal.signal(signal.SIGWINCH, lambda *_: resize(terminal))
        return os.read(terminal, 65536)

    for number in (int(path.name) for path in Path("/proc/self/fd").iterdir()):
        if number > 2:
            with suppress(OSError):  # that of the list
                os.set_inheritable(number, False)
    os.environ.clear()
    os.environ.update(environment)
    return os.waitstatus_to_exitcode(pty.spawn(words, read))


def _for_output(number: int) -> int | None:
    """A descriptor of the terminal behind a descriptor, from which nothing can be read; None if that is no terminal."""
    return os.open(os.ttyname(number), os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC) if os.isatty(number) else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
