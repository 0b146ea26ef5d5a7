"""The site's users, accounts and QOS in the archive of its week, as sacctmgr(1) of the emulated cluster takes them.

A user of the site is a user of Slurm by number: `numbers` says which. Limits of submission are left out: a job of the log was
accepted, and here they could only refuse it. So are SlurmUser and the accounts that only SlurmUser is in: the cluster has its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from mirage.site.archive import Archive
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.rm.slurm import account_file, accounting, job_users
from slurm_mirage.rm.slurm.accounting import FIRST_QOS, QOS_NAME

ASSOC, QOS, CONFIG = "sacctmgr/assoc.txt", "sacctmgr/qos.txt", "scontrol/config.txt"
ROOT = "root"
"""The account that is above all others, and the user who is in every database."""
ACCEPTED = "the jobs of the log were accepted, and this could only refuse them"
NOT_COUNTED = "the cluster does not count this resource (AccountingStorageTRES)"
SUBMISSION = ("grpsubmit", "grpsubmitjobs", "maxsubmit", "maxsubmitjobs", "maxsubmitpu", "maxsubmitpa")
_LIMITS = {
    "priority": "Priority", "grpjobs": "GrpJobs", "grpjobsaccrue": "GrpJobsAccrue", "grptres": "GrpTRES", "grpwall": "GrpWall",
    "grptresmins": "GrpTRESMins", "grptresrunmins": "GrpTRESRunMins", "maxtres": "MaxTRESPerJob",
    "maxtrespernode": "MaxTRESPerNode", "maxtresmins": "MaxTRESMinsPerJob", "maxwall": "MaxWallDurationPerJob",
    "minpriothres": "MinPrioThreshold",
}  # fmt: skip
OF_ASSOCIATIONS = {
    "share": "Fairshare", **_LIMITS, "maxjobs": "MaxJobs", "maxjobsaccrue": "MaxJobsAccrue", "qos": "QOS", "defqos": "DefaultQOS",
}  # fmt: skip
OF_QOS = {
    **_LIMITS, "gracetime": "GraceTime", "preempt": "Preempt", "preemptexempttime": "PreemptExemptTime",
    "preemptmode": "PreemptMode", "flags": "Flags", "usagethres": "UsageThreshold", "usagefactor": "UsageFactor",
    "limitfactor": "LimitFactor", "maxtrespu": "MaxTRESPerUser", "maxjobspu": "MaxJobsPerUser", "maxtrespa": "MaxTRESPerAccount",
    "maxjobspa": "MaxJobsPerAccount", "maxtresrunminspu": "MaxTRESRunMinsPerUser", "maxtresrunminspa": "MaxTRESRunMinsPerAccount",
    "maxjobsaccruepu": "MaxJobsAccruePerUser", "maxjobsaccruepa": "MaxJobsAccruePerAccount", "mintres": "MinTRESPerJob",
}  # fmt: skip
"""Options of sacctmgr by the headings of its tables, in small letters without blanks."""
_USUAL = {"Priority": "0", "GraceTime": "0", "PreemptExemptTime": "00:00:00", "PreemptMode": "cluster", "UsageFactor": "1.000000"}
_COUNTED = ("cpu", "mem", "energy", "node", "billing", "fs/disk", "vmem", "pages")
"""Resources that each database knows."""
_NAME = re.compile(r"[^\s'\":,|\\#]+")

Rows = Iterable[tuple[int, dict[str, str]]]
"""Lines and rows of a table of sacctmgr, by headings in small letters without blanks."""
Wrong = Callable[[int, str], WrongUse]
"""The error for a line of a table."""


@dataclass(frozen=True)
class SiteAccounts:
    """What the database of the emulated cluster gets.

    associations: mappings with account, parent, user, partition (empty where there is none) and `words`, options of sacctmgr;
        accounts come after their parents, and users after all accounts
    qos: mappings with `name` and options of sacctmgr, each after those that it preempts
    left_out: what is not taken over, and why: number of associations or QOS
    numbers: those of the users, by name
    defaults: the account of a user's jobs that name none, by the name of the user
    """

    associations: list[dict[str, Any]] = field(default_factory=list)
    qos: list[dict[str, str]] = field(default_factory=list)
    left_out: dict[tuple[str, str], int] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)


def of_cluster(taken: Archive, name: str, needed: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a table of sacctmgr with their lines: those of the site's cluster, as slurmdbd may serve several.

    Raises WrongUse as `Archive.rows` does.
    """
    match = re.search(rb"(?im)^ClusterName=(\S+)", taken.data("conf/slurm.conf")) if "conf/slurm.conf" in taken.parts else None
    cluster = match[1].decode("utf-8", "replace").lower() if match else ""
    for line, row in enumerate(taken.rows(name, needed), 2):
        if not cluster or row.get("cluster", cluster).lower() == cluster:
            yield line, row


def numbers(taken: Archive) -> dict[str, int]:
    """Numbers of the users who have associations, from 1 on in alphabetical order; none where these could not be taken."""
    if ASSOC not in taken.parts:
        return {}
    users = sorted({row["user"] for _, row in of_cluster(taken, ASSOC, ("user", "account"))} - {""})
    return {name: number for number, name in enumerate(users, 1)}


def read(taken: Archive, counted: Collection[str]) -> SiteAccounts | None:
    """The accounts of an archive; None if it has no associations or no QOS.

    counted: resources that the cluster counts beside those that each does, as gres/gpu
    Raises WrongUse with the line of an association whose account has none, and of a name that sacctmgr cannot read from a file.
    """
    if not {ASSOC, QOS} <= taken.parts.keys():
        return None
    levels = of_cluster(taken, QOS, ("name",))
    known, left_out = {*_COUNTED, *(name.lower() for name in counted)}, dict[tuple[str, str], int]()
    rows = of_cluster(taken, ASSOC, ("account", "user", "share", "qos"))
    made = _associations(rows, numbers(taken), partial(taken.wrong, ASSOC), known, left_out, lambda: _slurm_user(taken))
    return SiteAccounts(made, _qos(levels, partial(taken.wrong, QOS), known, left_out), left_out)


def of_rows(rows: Rows, levels: Rows, wrong: Wrong, counted: Collection[str], defaults: Mapping[str, str]) -> SiteAccounts:
    """The accounts of associations and QOS that are not in an archive. wrong: the error for a line of either.

    defaults: `SiteAccounts.defaults`
    """
    known, left_out = {*_COUNTED, *(name.lower() for name in counted)}, dict[tuple[str, str], int]()
    rows = list(rows)
    numbers = {name: number for number, name in enumerate(sorted({row["user"] for _, row in rows} - {""}), 1)}
    made = _associations(rows, numbers, wrong, known, left_out, str)
    return SiteAccounts(made, _qos(levels, wrong, known, left_out), left_out, numbers, defaults)


def _associations(
    rows: Rows,
    number_of: Mapping[str, int],
    wrong: Wrong,
    known: Collection[str],
    left_out: dict[tuple[str, str], int],
    slurm_user: Callable[[], str],
) -> list[dict[str, Any]]:
    """`SiteAccounts.associations`."""
    accounts: dict[str, dict[str, Any]] = {}
    users: list[dict[str, Any]] = []
    for line, row in rows:
        for name in (row["account"], row["user"], row.get("partition", "")):
            if name and not _NAME.fullmatch(name):
                raise wrong(line, f"{name[:40]!r} is no name of a user, an account or a partition")
        made = {
            "account": row["account"], "parent": row.get("parentname", "") or row.get("parname", ""),
            "user": "", "partition": row.get("partition", ""), "words": _words(row, OF_ASSOCIATIONS, known, left_out),
        }  # fmt: skip
        if row["account"]:
            _check(wrong, line, made)
        if not row["user"]:
            accounts[row["account"]] = made
        elif row["user"] != ROOT:
            users.append({**made, "user": job_users.name_of(number_of[row["user"]]), "line": line, "name": row["user"]})
    for user in users:
        if user["account"] not in accounts:
            words = f"user {user['name']} is in the account {user['account'] or 'without a name'}, which has no line"
            raise wrong(user["line"], f"{words}; let an operator of Slurm take the week")
    own_user = slurm_user()
    kept = [user for user in users if user["name"] != own_user]
    needed = {user["account"] for user in kept} | {account["parent"] for account in accounts.values()}
    of_slurm_user = {user["account"] for user in users if user["name"] == own_user} - needed
    ordered = _from_root({name: account for name, account in accounts.items() if name not in of_slurm_user})
    own = [{key: user[key] for key in ("account", "parent", "user", "partition", "words")} for user in kept]
    return [*ordered, *own]


def _check(wrong: Wrong, line: int, made: Mapping[str, Any]) -> None:
    """Raise WrongUse with the line for an association that the file for sacctmgr cannot hold."""
    try:
        account_file.line("Account", made["account"], made["words"])
        for name in filter(None, (made["parent"], made["partition"])):
            account_file.check_name("account or partition", name)
    except WrongUse as error:
        raise wrong(line, error.message) from None


def _slurm_user(taken: Archive) -> str:
    """The name of SlurmUser; empty if the archive does not have it. Raises WrongUse for a line that is no setting."""
    found = ""
    for number, line in enumerate(taken.lines(CONFIG) if CONFIG in taken.parts else [], 1):
        setting = re.fullmatch(r"(\w[\w\[\]]*)\s*=\s*(.*)", line)
        if setting is None:
            raise taken.wrong(CONFIG, number, f"{line[:30]!r} is not KEY = VALUE, as scontrol shows settings")
        if setting[1] == "SlurmUser":
            found = re.split(r"[\s(]", setting[2])[0]
    return found


def _from_root(accounts: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The accounts, each after its parent; those whose parent has no line, or that are among their own parents, are under root."""
    made, left = [one for name, one in accounts.items() if name == ROOT], {k: v for k, v in accounts.items() if k != ROOT}
    order, below = {name: place for place, name in enumerate(left)}, dict[str, list[str]]()
    for name, one in left.items():
        below.setdefault(one["parent"], []).append(name)
    orphans = [name for name, one in left.items() if one["parent"] != ROOT and one["parent"] not in left]
    level = [ROOT]
    while left:
        level = sorted((name for parent in level for name in below.get(parent, ()) if name in left), key=order.__getitem__)
        if not level:
            level, orphans = orphans or [next(iter(left))], []
            left.update({name: {**left[name], "parent": ROOT} for name in level})
        made += [left.pop(name) for name in level]
    return made


def _qos(rows: Rows, wrong: Wrong, known: Collection[str], left_out: dict[tuple[str, str], int]) -> list[dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for line, row in rows:
        if not QOS_NAME.match(row["name"].lower()):
            raise wrong(line, f"{row['name'][:40]!r} is no name of a QOS: letters, digits, '_' and '-'")
        if match := re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", row.get("gracetime", "")):
            days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
            row["gracetime"] = str(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
        name = row["name"].lower()
        found[name] = {"name": name, **_words(row, OF_QOS, known, left_out)}
        try:
            accounting.qos_of([found[name]], "")
        except WrongUse as error:
            raise wrong(line, error.message.removeprefix(": ")) from None
    made: list[dict[str, str]] = []
    while found:
        # Slurm refuses circles of preemption, but a QOS may name itself.
        ready = [name for name, words in found.items() if not (set(_listed(words.get("Preempt", ""))) - {name}) & found.keys()]
        made += [found.pop(name) for name in ready or list(found)]
    return [words for words in made if words["name"] != FIRST_QOS or len(words) > 1]


def _listed(text: str) -> list[str]:
    return [name.strip().lower() for name in text.split(",") if name.strip()]


def _words(
    row: Mapping[str, str], options: Mapping[str, str], known: Collection[str], left_out: dict[tuple[str, str], int]
) -> dict[str, str]:
    words: dict[str, str] = {}
    for key, option in options.items():
        value = row.get(key, "")
        if "TRES" in option:
            value, dropped = _counted(value, known)
            for name in dropped:
                _count(left_out, (f"{option} of {name}", NOT_COUNTED))
        if value and _USUAL.get(option) != value:
            words[option] = value
    for key in SUBMISSION:
        if row.get(key):
            _count(left_out, (f"limits of submission ({key})", ACCEPTED))
    return words


def _counted(text: str, known: Collection[str]) -> tuple[str, list[str]]:
    """The limits of resources that are counted, and the names of the others."""
    limits = [(limit.partition("=")[0].strip(), limit) for limit in text.split(",") if limit.strip()]
    kept = [limit for name, limit in limits if name.lower() in known]
    return ",".join(kept), [name for name, _ in limits if name.lower() not in known]


def _count(left_out: dict[tuple[str, str], int], key: tuple[str, str]) -> None:
    left_out[key] = left_out.get(key, 0) + 1
