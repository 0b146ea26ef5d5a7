"""Shows and changes accounts, associations and QOS of a cluster with accounting, and asks for the record of its jobs."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ...base import processes
from ...base.files import read_json, write_atomically, write_json
from ..api import ResourceManagerError, Unavailable
from . import job_users
from .accounting import ASSOCIATION_FORMAT, LOAD, Present, Wanted, parse_associations, record_command


class AccountCommands:
    """The commands of the instance in `directory`; `programs` is the folder of sacctmgr, scontrol and sacct.

    `patience`: seconds to wait for slurmdbd to answer, and then for slurmctld to know what has changed.
    """

    def __init__(self, directory: Path, programs: str, patience: float = 0.0) -> None:
        self._directory, self._programs, self._patience = directory, programs, patience
        self._memo = directory / "etc/qos.json"
        """The words that each QOS was given: sacctmgr shows them in another form."""
        self._loaded = directory / "etc/site_associations"
        """Digest of the associations of a site that were made, likewise."""
        self._environment = {
            **os.environ,
            "SLURM_CONF": f"{directory}/etc/slurm.conf",
            "TZ": "UTC",
            **job_users.environment(directory),
        }

    def missing(self, wanted: Wanted) -> list[list[str]]:
        """The words for sacctmgr that `ensure` would use now. The words for an empty database if the cluster does not answer."""
        present = self._look(wanted)
        return list(wanted.commands(Present() if isinstance(present, str) else present))

    def ensure(self, wanted: Wanted) -> list[list[str]]:
        """Add and change what is missing; the words that sacctmgr got. Raises ResourceManagerError."""
        commands = list(wanted.commands(self._present(wanted)))
        if commands:
            self._change(commands)
            write_json(self._memo, {**(read_json(self._memo) or {}), **{name: dict(words) for name, words in wanted.qos.items()}})
            if wanted.site:
                write_atomically(self._loaded, wanted.digest)
            self._wait_for_slurmctld(wanted)
        return commands

    def record(self, since: float) -> str:
        """What sacct has of all jobs since an instant, in virtual seconds since the epoch. Raises ResourceManagerError."""
        code, output, errors = self._run(record_command(self._programs, since))
        if code != 0:
            raise ResourceManagerError(f"sacct: {errors.strip() or output.strip()}")
        return output

    def users_of_associations(self) -> dict[int, str]:
        """The users of associations by the associations' numbers, without those of accounts. Raises ResourceManagerError."""
        words = ("--noheader", "--parsable2", "show", "associations", "format=id,user")
        code, output, errors = self._ask("sacctmgr", *words)
        if code != 0:
            raise ResourceManagerError(f"sacctmgr: {errors.strip() or output.strip()}")
        pairs = (line.partition("|") for line in output.splitlines())
        return {int(number): user for number, _, user in pairs if number.isdecimal() and user}

    def _look(self, wanted: Wanted) -> Present | str:
        """What the database has, or why it does not answer."""
        show = ("--noheader", "--parsable2", "show")
        code, names, errors = self._ask("sacctmgr", *show, "qos", "format=name")
        lines = ""
        if code == 0:
            words = ("associations", f"cluster={wanted.cluster}", f"format={ASSOCIATION_FORMAT}")
            code, lines, errors = self._ask("sacctmgr", *show, *words)
        if code != 0 or not lines:
            return errors.strip().rpartition("\n")[2] or f"cluster {wanted.cluster} is not registered yet"
        known = read_json(self._memo) or {}
        loaded = self._loaded.read_text() if self._loaded.exists() else ""
        return replace(parse_associations(lines, {name: known.get(name, {}) for name in names.split()}), loaded=loaded)

    def _present(self, wanted: Wanted) -> Present:
        """What the database has, once slurmdbd answers and slurmctld has registered the cluster there."""
        deadline = time.monotonic() + self._patience
        while isinstance(present := self._look(wanted), str):
            if time.monotonic() > deadline:
                raise Unavailable(f"slurmdbd does not answer: {present}; see {self._directory}/log/slurmdbd.log")
            time.sleep(0.5)
        return present

    def _change(self, commands: list[list[str]]) -> None:
        for words in commands:
            with self._with_file(words) as given:
                code, output, errors = self._ask("sacctmgr", "--immediate", "--quiet", *given)
            if code != 0:
                raise ResourceManagerError(f"sacctmgr {' '.join(words)[:200]}: {' '.join(f'{output} {errors}'.split())}")

    @contextmanager
    def _with_file(self, words: list[str]) -> Iterator[list[str]]:
        """The words with the name of a file, which is removed afterwards, instead of its content."""
        if words[0] != LOAD:
            yield words
            return
        path = self._directory / "etc/associations"
        write_atomically(path, words[1])
        try:
            yield [LOAD, str(path)]
        finally:
            path.unlink()

    def _wait_for_slurmctld(self, wanted: Wanted) -> None:
        """Wait until slurmctld knows all users with their accounts: it would refuse jobs of others."""
        deadline = time.monotonic() + self._patience
        while missing := wanted.associations() - self._known_to_slurmctld():
            if time.monotonic() > deadline:
                user, account = min(missing)
                raise Unavailable(
                    f"slurmctld does not know user {user} in account {account}; see {self._directory}/log/slurmctld.log"
                )
            time.sleep(0.5)

    def _known_to_slurmctld(self) -> set[tuple[str, str]]:
        """Users with their accounts; not those whose name slurmctld cannot look up, which it shows with no or another id."""
        lines = self._ask("scontrol", "show", "assoc_mgr", "flags=assoc")[1].splitlines()
        fields = [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in lines if "UserName=" in line]
        return {(field["UserName"].partition("(")[0], field["Account"]) for field in fields}

    def _ask(self, program: str, *words: str) -> tuple[int, str, str]:
        return self._run([f"{self._programs}/{program}", *words])

    def _run(self, command: list[str]) -> tuple[int, str, str]:
        """Exit code, output and errors."""
        try:
            result = subprocess.run(
                command,
                env=self._environment,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                stdin=subprocess.DEVNULL,
                **processes.as_user(self._directory),
            )
        except OSError as error:
            raise ResourceManagerError(f"{command[0]}: cannot be started: {error.strerror}") from error
        return result.returncode, result.stdout, result.stderr
